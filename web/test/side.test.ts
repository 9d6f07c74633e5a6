import { describe, expect, test } from 'vitest';
import { modeWord, modelWord } from '../src/parts/mode-words';
import { changeIn, fromCwd, withChanges } from '../src/side/changes';
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
