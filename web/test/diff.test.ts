import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compare, countsOf, hunksOf } from '../src/text/diff';

const rows = (before: string, after: string) => compare(before, after).map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`);

test('changed lines are shown with the words that differ', () => {
  expect(rows('a\nb\nc\n', 'a\nB\nc\n')).toEqual([' a', '-b', '+B', ' c']);
  const [removed, added] = compare('if t == ""\n', 'if t.is_empty()\n');
  expect(removed?.words.map(([from, to]) => removed.text.slice(from, to)).join('')).toContain('==');
  expect(added?.words.map(([from, to]) => added.text.slice(from, to)).join('')).toContain('is_empty');
});

test('a new file, a deleted one, the same one, and a line end alone', () => {
  expect(rows('', 'a\nb\n')).toEqual(['+a', '+b']);
  expect(rows('a\n', '')).toEqual(['-a']);
  expect(hunksOf(compare('a\n', 'a\n'))).toEqual({ hunks: [], after: 1 });
  expect(rows('a', 'a\n')).toEqual(['-a (no line end)', '+a']);
});

test('three equal lines stand around each place, and the rest is counted', () => {
  const lines = Array.from({ length: 100 }, (_, i) => `line ${i}`);
  const after = lines.with(50, 'other').with(52, 'another');
  const { hunks, after: rest } = hunksOf(compare(lines.join('\n'), after.join('\n')));
  expect(hunks.map((hunk) => [hunk.skipped, hunk.rows.length])).toEqual([[47, 11]]);
  expect(rest).toBe(44);
  expect(countsOf(hunks[0]?.rows ?? [])).toEqual({ added: 2, removed: 2 });
});

test('the rows are both texts, whatever they are', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'let x = 1;', 'let y = 1;', '', '  '), { maxLength: 20 }).map((lines) => lines.map((line) => `${line}\n`).join(''));
  fc.assert(fc.property(text, text, (before, after) => {
    const made = compare(before, after);
    expect(made.filter((row) => row.kind !== 'added').map((row) => `${row.text}\n`).join('')).toBe(before);
    expect(made.filter((row) => row.kind !== 'removed').map((row) => `${row.text}\n`).join('')).toBe(after);
    const { hunks, after: rest } = hunksOf(made);
    expect(hunks.reduce((sum, hunk) => sum + hunk.skipped + hunk.rows.length, rest)).toBe(made.length);
    for (const row of made) for (const [from, to] of row.words) expect([from < to, to <= row.text.length]).toEqual([true, true]);
  }));
});

test('texts that share nothing are replaced as a whole, in time', () => {
  const before = Array.from({ length: 20_000 }, (_, i) => `old ${i}`).join('\n');
  const after = Array.from({ length: 20_000 }, (_, i) => `new ${i}`).join('\n');
  const started = performance.now();
  expect(countsOf(compare(before, after))).toEqual({ added: 20_000, removed: 20_000 });
  expect(performance.now() - started).toBeLessThan(4_000);
}, 20_000);
