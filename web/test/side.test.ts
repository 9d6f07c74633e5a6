import { describe, expect, test } from 'vitest';
import fc from 'fast-check';
import { fenced, markdownOf } from '../src/conversation/export';
import { modeWord, modelWord } from '../src/shell/mode-words';
import { changeIn, fromCwd, withChanges } from '../src/side/changes';
import { hitsIn, turnOf } from '../src/side/find';
import { promptOf } from '../src/side/review';

const entry = (seq: number, data: unknown, src = 'cli') => ({ seq, ts: '2026-11-29T12:00:00Z', src, data });
const edit = (seq: number, original: string | null, from: string, to: string, lines: string[]) => entry(seq, {
  type: 'user', message: { role: 'user', content: [] },
  tool_use_result: original === null
    ? { type: 'create', filePath: '/w/a.rs', content: to, structuredPatch: [], originalFile: null }
    : { filePath: '/w/a.rs', oldString: from, newString: to, originalFile: original, structuredPatch: [{ lines }] },
});

describe('changed files', () => {
  test('several changes of a file are one, from what it held before the first to what it holds after the last', () => {
    const changes = [edit(5, 'one\ntwo\n', 'one', '1', ['-one', '+1', ' two']), edit(9, '1\ntwo\n', 'two', '$& 2', [' 1', '-two', '+$& 2'])].map(changeIn).filter((one) => one !== null);
    expect(withChanges(new Map(), changes).get('/w/a.rs')).toMatchObject({ before: 'one\ntwo\n', after: '1\n$& 2\n', added: 2, removed: 2, changes: 2 });
    expect(withChanges(withChanges(new Map(), changes), changes).get('/w/a.rs')?.changes).toBe(2);
  });
  test('a file that was made has all its lines added', () => {
    expect(changeIn(edit(3, null, '', 'a\nb\n', []))).toMatchObject({ before: null, after: 'a\nb\n', added: 2, removed: 0 });
  });
  test('what was read, and what failed, is no change', () => {
    expect(changeIn(entry(1, { type: 'user', tool_use_result: { type: 'text', file: { filePath: '/w/a.rs', content: '' } } }))).toBeNull();
    expect(changeIn(entry(1, { type: 'user', tool_use_result: 'Error: no' }))).toBeNull();
    expect(fromCwd('/w/src/a.rs', '/w')).toBe('src/a.rs');
    expect(fromCwd('/ww/a.rs', '/w')).toBe('/ww/a.rs');
  });
});

describe('find', () => {
  const says = entry(7, { type: 'assistant', message: { content: [{ type: 'text', text: 'They pass now.\nTwo were wrong.' }, { type: 'tool_use', name: 'Bash', input: { command: 'cargo test' } }] } });
  test('answers and calls are found, in any case, with what is around', () => {
    expect(hitsIn(says, 'TWO')).toMatchObject([{ seq: 7, who: 'agent', before: 'They pass now. ', match: 'Two', after: ' were wrong.' }]);
    expect(hitsIn(says, 'cargo')).toMatchObject([{ who: 'call' }]);
    expect(hitsIn(entry(8, { type: 'stream_event', event: { delta: { text: 'Two' } } }), 'two')).toEqual([]);
  });
  test('a record belongs to the last turn that began before it', () => {
    fc.assert(fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 1000 }), { minLength: 1 }), fc.integer({ min: 1, max: 1100 }), (starts, seq) => {
      const sorted = [...starts].sort((a, b) => a - b);
      expect(turnOf(seq, sorted)).toBe(Math.max(1, sorted.filter((start) => start <= seq).length));
    }));
  });
});

describe('export', () => {
  test('a fence cannot be closed by what it holds', () => {
    fc.assert(fc.property(fc.string(), (text) => {
      const lines = fenced(text).trimEnd().split('\n');
      const fence = lines[0]!;
      expect(lines.at(-1)).toBe(fence);
      expect(text.includes(fence)).toBe(false);
    }));
  });
  test('what was said comes in its order, and a record that is too large is named', () => {
    expect(markdownOf(entry(1, { type: 'user', message: { role: 'user', content: 'Hello' } }, 'client'))).toBe('## You\n\nHello\n\n');
    expect(markdownOf(entry(2, { type: 'assistant', message: { content: [{ type: 'tool_use', name: 'Bash', input: { command: 'ls' } }] } }))).toContain('**Bash**\n\n```\nls\n```');
    expect(markdownOf(entry(3, { type: 'user', 'trunkline.stub': { bytes: 12_000_000 } }))).toContain('12 MB');
    expect(markdownOf(entry(4, { type: 'state' }, 'daemon'))).toBe('');
  });
});

test('remarks become one message, by file and line', () => {
  const remarks = [
    { path: '/w/b.rs', line: 3, side: 'new' as const, code: '  let x = 1;', text: 'Why?' },
    { path: '/w/a.rs', line: 40, side: 'old' as const, code: 'a `b`', text: 'Keep this. ' },
  ];
  expect(promptOf(remarks, (path) => fromCwd(path, '/w'))).toBe('My remarks on your changes:\n\na.rs, removed line 40:\nKeep this.\n\nb.rs, line 3, `let x = 1;`:\nWhy?');
});

test('models and modes are named in words', () => {
  expect(['claude-opus-5-5', 'claude-sonnet-4-20250514', 'simulated', null].map(modelWord)).toEqual(['opus 5.5', 'sonnet 4', 'simulated', 'Model']);
  expect([modeWord('default'), modeWord('new-mode'), modeWord(null)]).toEqual(['Ask first', 'new-mode', 'Mode']);
});
