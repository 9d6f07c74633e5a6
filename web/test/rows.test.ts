import { expect, test } from 'vitest';
import { lineOfCall, shortPath, sidesOf } from '../src/conversation/call-words';
import { betweenWords } from '../src/conversation/between';
import { askedIn, stepOf } from '../src/conversation/cards/agent';
import { planWords } from '../src/conversation/plan-chip';
import { textOf } from '../src/conversation/plain';
import { rowsOf, type Row, type View } from '../src/conversation/rows';
import { Fold } from '../src/fold/fold';
import type { CallBlock, Line } from '../src/fold/model';
import { readPartial } from '../src/fold/partial-json';

const line = (seq: number, src: string, data: unknown): Line => ({ seq, lastSeq: seq, ts: new Date(Date.UTC(2026, 0, 2, 3, 0, seq)).toISOString(), src, by: src === 'client' ? 'rest' : null, data });
const prompt = (seq: number) => [line(seq, 'client', { type: 'user', message: { content: `Prompt ${seq}` }, uuid: `u${seq}` }), line(seq + 1, 'cli', { type: 'command_lifecycle', command_uuid: `u${seq}`, state: 'started' })];
const text = (seq: number, value: string) => line(seq, 'cli', { type: 'assistant', message: { id: `m${seq}`, content: [{ type: 'text', text: value }] }, parent_tool_use_id: null });
const use = (seq: number, name: string, input: object, id = `t${seq}`) => line(seq, 'cli', { type: 'assistant', message: { id: `m${seq}`, content: [{ type: 'tool_use', id, name, input }] }, parent_tool_use_id: null });
const back = (seq: number, id: string, content: string, more: object = {}, isError = false) => line(seq, 'cli', { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: id, content, is_error: isError }] }, parent_tool_use_id: null, ...more });
const end = (seq: number) => line(seq, 'cli', { type: 'result', subtype: 'success', is_error: false, duration_ms: 130_000, result: '', model_usage_since_last_result: { m: { costUSD: 0.31 } } });

const VIEW: View = { foldUpTo: 0, chosen: new Map(), newAfter: 0, hasOlder: false };
const folded = (lines: Line[]) => { const fold = new Fold(); fold.add(lines); return fold.folded; };
const kinds = (rows: Row[]) => rows.map((row) => row.kind).filter((kind) => kind !== 'begin');

const TURN = [
  ...prompt(1), text(3, 'I look.'), use(4, 'Bash', { command: 'ls' }), back(5, 't4', 'a.md'),
  use(6, 'Edit', { file_path: '/w/src/a.rs', old_string: 'a', new_string: 'b' }), back(7, 't6', 'ok'),
  use(8, 'Bash', { command: 'false' }), back(9, 't8', 'Exit code 1\nbad', {}, true), text(10, 'They pass now.\n\nTwo were wrong.'), end(11),
];

test('a turn that was read folds to its work line; prompt, final text and failures stay', () => {
  const conversation = folded(TURN);
  expect(kinds(rowsOf(conversation, [], VIEW))).toEqual(['prompt', 'work', 'text', 'call', 'call', 'call', 'text', 'text']);
  const rows = rowsOf(conversation, [], { ...VIEW, foldUpTo: 11 });
  expect(kinds(rows)).toEqual(['prompt', 'work', 'call', 'text', 'text']);
  expect(rows.find((row) => row.kind === 'work')).toMatchObject({ work: { steps: 3, files: 1, failed: 1, ms: 130_000, costUsd: 0.31 }, isOpen: false });
  const work = rows.find((row) => row.kind === 'work')!;
  expect(kinds(rowsOf(conversation, [], { ...VIEW, foldUpTo: 11, chosen: new Map([[work.key, true]]) }))).toHaveLength(8);
});

test('a folded turn with the marked record is open, and a choice outlasts older records of its turn', () => {
  const read: View = { ...VIEW, foldUpTo: 11 };
  expect(kinds(rowsOf(folded(TURN), [], { ...read, marked: 5 }))).toHaveLength(8);
  expect(kinds(rowsOf(folded(TURN), [], { ...read, marked: 12 }))).toHaveLength(5);
  const keyOf = (rows: Row[]) => rows.find((row) => row.kind === 'work')!.key;
  const whole = rowsOf(folded(TURN), [], read);
  expect(keyOf(rowsOf(folded(TURN.slice(4)), [], { ...read, hasOlder: true }))).toBe(keyOf(whole));
  expect(kinds(rowsOf(folded(TURN), [], { ...read, marked: 5, chosen: new Map([[keyOf(whole), false]]) }))).toHaveLength(5);
});

test('an open turn whose beginning is not loaded has no work line above it', () => {
  expect(kinds(rowsOf(folded(TURN.slice(4)), [], { ...VIEW, hasOlder: true }))).not.toContain('work');
  expect(kinds(rowsOf(folded(TURN.slice(4)), [], VIEW))).toContain('work');
});

test('what is new is marked where one left off', () => {
  const rows = rowsOf(folded([...TURN, ...prompt(12), text(14, 'More'), end(15)]), [], { ...VIEW, foldUpTo: 11, newAfter: 11 });
  expect(kinds(rows).slice(-4)).toEqual(['new', 'prompt', 'text', 'turn']);
});

test('three agents beside each other are one group, two are not', () => {
  const agents = (n: number) => Array.from({ length: n }, (_, index) => use(3 + index, 'Agent', { description: 'x' }));
  expect(kinds(rowsOf(folded([...prompt(1), ...agents(2)]), [], VIEW))).toEqual(['prompt', 'work', 'call', 'call']);
  expect(kinds(rowsOf(folded([...prompt(1), ...agents(3)]), [], VIEW))).toEqual(['prompt', 'work', 'group']);
});

test('an agent says what it asks, however deep the one that asks', () => {
  const deep = (parent: string, seq: number, id: string, name: string, input: object) => line(seq, 'cli', { type: 'assistant', message: { id: `m${seq}`, content: [{ type: 'tool_use', id, name, input }] }, parent_tool_use_id: parent });
  const lines = [
    use(1, 'Agent', { description: 'one' }, 'a1'), deep('a1', 2, 'a2', 'Agent', { description: 'two' }), deep('a2', 3, 'a3', 'Agent', { description: 'three' }), deep('a3', 4, 'b', 'Bash', { command: 'rm x' }),
  ];
  const agent = (records: Line[]) => (folded(records).calls.get('a1') as CallBlock).agent!;
  expect([stepOf(agent(lines)), askedIn(agent(lines).blocks)]).toEqual(['Agent · agent two', undefined]);
  const asked = [...lines, line(5, 'cli', { type: 'control_request', request_id: 'r', request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'rm x' }, tool_use_id: 'b', agent_id: 'x' } }),
    line(6, 'daemon', { type: 'approval', approval_id: 'ap', request_id: 'r' })];
  expect([stepOf(agent(asked)), askedIn(agent(asked).blocks)?.id]).toEqual(['needs you: $ rm x', 'b']);
  const decided = [...asked, line(7, 'daemon', { type: 'decision', approval_id: 'ap', state: 'allowed', by: 'rest' })];
  expect(askedIn(agent(decided).blocks)).toBeUndefined();
});

test('a silence has a reason', () => {
  const retry = (attempt: number) => line(3, 'cli', { type: 'system', subtype: 'api_retry', attempt, max_retries: 10, error_status: 529, error: 'overloaded' });
  const start = line(4, 'cli', { type: 'stream_event', event: { type: 'message_start', message: { id: 'm9' } }, parent_tool_use_id: null });
  expect(betweenWords(folded([...prompt(1), retry(2)]))).toBe('The API is asked again, try 2 of 10: overloaded, 529');
  expect(betweenWords(folded([...prompt(1), retry(2), start]))).toBe('');
  expect(betweenWords(folded([...prompt(1), line(3, 'cli', { type: 'system', subtype: 'status', status: 'compacting' })]))).toBe('The conversation is being compacted');
});

test('rows have keys of their own', () => {
  const keys = rowsOf(folded(TURN), [], VIEW).map((row) => row.key);
  expect(new Set(keys).size).toBe(keys.length);
});

test('a card says in one line what was done', () => {
  const one = (name: string, input: object, result?: Line) => {
    const call = folded([use(1, name, input, 't'), ...(result === undefined ? [] : [result])]).calls.get('t') as CallBlock;
    const { verb, subject, figures } = lineOfCall(call);
    return [verb, subject, ...figures];
  };
  expect(one('Bash', { command: 'cargo test\n--all' }, back(2, 't', 'Exit code 101\na\nb', {}, true))).toEqual(['', 'cargo test', '+1 line', 'exit 101', '1.0 s', '2 lines']);
  expect(one('Read', { file_path: '/w/src/a.rs' }, back(2, 't', '', { tool_use_result: { file: { startLine: 1, numLines: 80, totalLines: 200 } } }))).toEqual(['Read', 'src/a.rs', '1-80']);
  expect(one('Grep', { pattern: 'x' }, back(2, 't', '', { tool_use_result: { numFiles: 9, numLines: 42 } }))).toEqual(['Search', 'x', '42 hits in 9 files']);
  expect(one('WebFetch', { url: 'https://docs.rs/axum', prompt: 'p' })).toEqual(['Fetch', 'docs.rs']);
  expect(one('WebSearch', { query: 'axum' }, back(2, 't', 'Links: []', { tool_use_result: { query: 'axum', results: [{ content: [{ title: 'Axum', url: 'https://docs.rs/axum' }] }, 'Words.'] } }))).toEqual(['Search the web', 'axum', '1 page', '1.0 s']);
  expect(one('mcp__tickets__create', { title: 'Login fails' })).toEqual(['tickets · create', 'Login fails']);
  expect(one('TodoWrite', { todos: [{ content: 'a', status: 'completed' }, { content: 'b', status: 'in_progress', activeForm: 'testing' }] })).toEqual(['Plan 1/2', 'testing']);
  expect([shortPath('/home/me/code/shop/src/a.rs'), shortPath('a.rs')]).toEqual(['src/a.rs', 'a.rs']);
});

test('a change is shown within its whole file where that is known', () => {
  const call = folded([use(1, 'Edit', { file_path: 'a', old_string: 'two', new_string: '$& 2' }, 't'), back(2, 't', 'ok', { tool_use_result: { originalFile: 'one\ntwo\n', structuredPatch: [{ oldStart: 1, lines: [' one', '-two', '+$& 2'] }] } })]).calls.get('t')!;
  expect(sidesOf(call)).toEqual({ before: 'one\ntwo\n', after: 'one\n$& 2\n', firstLine: 1 });
  expect(lineOfCall(call).figures).toEqual(['+1 −1']);
});

test('a row is copied whole, also as Markdown', () => {
  const call = folded([use(1, 'Bash', { command: 'cat a.md' }, 't'), back(2, 't', '```\nx\n```')]).calls.get('t')!;
  const row: Row = { kind: 'call', key: 'x', seq: 1, version: 0, block: call };
  expect(textOf(row, false)).toBe('$ cat a.md\n```\nx\n```');
  expect(textOf(row, true)).toBe('```sh\ncat a.md\n```\n\n````\n```\nx\n```\n````');
});

test('JSON that breaks off is read as far as it goes', () => {
  expect(readPartial('{"file_path":"/a/b","content":"one\\ntw')).toEqual({ file_path: '/a/b', content: 'one\ntw' });
  expect(readPartial('{"a":1,"b')).toEqual({ a: 1 });
  expect(readPartial('{"a":[1,{"b":"c\\')).toEqual({ a: [1, { b: 'c' }] });
  expect(readPartial('')).toBe(null);
});

test('the header says how far the plan is, and what is done now', () => {
  const todo = (text: string, status: 'completed' | 'in_progress' | 'pending', doing = '') => ({ text, status, doing });
  expect(planWords([])).toBeNull();
  expect(planWords([todo('Read', 'completed'), todo('Test', 'in_progress', 'Testing'), todo('Mend', 'pending')])).toEqual({ far: 'Plan 1/3', now: 'Testing' });
  expect(planWords([todo('Read', 'completed')])).toEqual({ far: 'Plan 1/1', now: '' });
});
