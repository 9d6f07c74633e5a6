import { readFileSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { titlesOf } from '../src/conversation/call-words';
import { askedIn } from '../src/conversation/cards/agent';
import { Fold, lineOf } from '../src/fold/fold';
import type { Block, CallBlock, Line, TextBlock } from '../src/fold/model';

const RECORDINGS = resolve('../tests/fixtures/recordings') + '/';
const at = (seq: number) => new Date(Date.UTC(2026, 0, 2, 3, 0, seq)).toISOString();
const line = (seq: number, src: string, data: unknown, by: string | null = null): Line => ({ seq, lastSeq: seq, ts: at(seq), src, by, data });
const recording = (name: string): Line[] => readFileSync(RECORDINGS + name, 'utf8').split('\n').filter(Boolean)
  .map((text, index) => line(index + 1, 'cli', JSON.parse(text)));

function folded(lines: Line[]) {
  const fold = new Fold();
  for (const one of lines) fold.add([one]);
  return fold.folded;
}

/** The conversation without what only says that something changed. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value, (key, member: unknown) => (
  key === 'version' ? undefined : member instanceof Map ? [...member.values()].sort((a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)) : member)));

const delta = (seq: number, index: number, delta: object, id = 'm1') => line(seq, 'cli', { type: 'stream_event', event: { type: 'content_block_delta', index, delta }, parent_tool_use_id: null, api_message_id: id });
const said = (seq: number, content: object, more: object = {}) => line(seq, 'cli', { type: 'assistant', message: { id: 'm1', model: 'm', content: [content] }, parent_tool_use_id: null, ...more });
const result = (seq: number, more: object = {}) => line(seq, 'cli', { type: 'result', subtype: 'success', is_error: false, duration_ms: 5, result: '', ...more });

/** A turn with all that streams: thinking, text, a call with its result, a sub-agent, a question. */
const TURN: Line[] = [
  line(1, 'daemon', { type: 'run_started', mode: 'new' }),
  line(2, 'client', { type: 'user', message: { role: 'user', content: 'Go' }, uuid: 'u1' }, 'rest'),
  line(3, 'cli', { type: 'command_lifecycle', command_uuid: 'u1', state: 'queued' }),
  line(4, 'cli', { type: 'command_lifecycle', command_uuid: 'u1', state: 'started' }),
  line(5, 'cli', { type: 'stream_event', event: { type: 'message_start', message: { id: 'm1' } }, parent_tool_use_id: null }),
  line(6, 'cli', { type: 'stream_event', event: { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } }, parent_tool_use_id: null }),
  delta(7, 0, { type: 'thinking_delta', thinking: 'Let me ' }),
  delta(8, 0, { type: 'thinking_delta', thinking: 'see.' }),
  said(9, { type: 'thinking', thinking: 'Let me see.' }, { thinking_duration_ms: 1400 }),
  line(10, 'cli', { type: 'stream_event', event: { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } }, parent_tool_use_id: null }),
  delta(11, 1, { type: 'text_delta', text: '# One\n\nTwo' }),
  delta(12, 1, { type: 'text_delta', text: '\n\nThree' }),
  line(13, 'stderr', { text: 'a warning' }),
  said(14, { type: 'text', text: '# One\n\nTwo\n\nThree' }),
  line(15, 'cli', { type: 'stream_event', event: { type: 'content_block_start', index: 2, content_block: { type: 'tool_use', id: 't1', name: 'Agent', input: {} } }, parent_tool_use_id: null }),
  delta(16, 2, { type: 'input_json_delta', partial_json: '{"description":"lo' }),
  delta(17, 2, { type: 'input_json_delta', partial_json: 'ok"}' }),
  said(18, { type: 'tool_use', id: 't1', name: 'Agent', input: { description: 'look', subagent_type: 'explore' } }),
  line(19, 'cli', { type: 'stream_event', event: { type: 'message_stop' }, parent_tool_use_id: null }),
  line(20, 'cli', { type: 'assistant', message: { id: 'm2', model: 'm', content: [{ type: 'tool_use', id: 't2', name: 'Bash', input: { command: 'ls' } }] }, parent_tool_use_id: 't1' }),
  line(21, 'cli', { type: 'control_request', request_id: 'r1', request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'ls' }, tool_use_id: 't2' } }),
  line(22, 'daemon', { type: 'approval', approval_id: 'a1', request_id: 'r1', seq: 21, kind: 'tool', subject: 'Bash' }),
  line(23, 'daemon', { type: 'decision', approval_id: 'a1', state: 'allowed', by: 'rest' }),
  line(24, 'cli', { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't2', content: 'a.md' }] }, parent_tool_use_id: 't1', tool_use_result: { stdout: 'a.md' } }),
  line(25, 'cli', { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'one file' }] }] }, parent_tool_use_id: null }),
  line(26, 'cli', { type: 'assistant', message: { id: 'm3', model: 'm', content: [{ type: 'text', text: 'There is one.' }] }, parent_tool_use_id: null }),
  result(27, { result: 'There is one.' }),
  line(28, 'cli', { type: 'prompt_suggestion', suggestion: 'And now?' }),
];

const kinds = (blocks: Block[]) => blocks.map((block) => block.kind);
const callOf = (blocks: Block[]) => blocks.find((block): block is CallBlock => block.kind === 'call')!;

test('a turn is folded to its blocks, and what was streamed is there once', () => {
  const { blocks, suggestion, workingSince } = folded(TURN);
  expect(kinds(blocks)).toEqual(['prompt', 'thinking', 'note', 'text', 'call', 'text', 'turn']);
  expect(blocks[1]).toMatchObject({ text: 'Let me see.', ms: 1400, isOpen: false });
  expect((blocks[3] as TextBlock).parts.map((part) => part.text)).toEqual(['# One\n\n', 'Two\n\n', 'Three']);
  const call = callOf(blocks);
  expect(call).toMatchObject({ name: 'Agent', status: 'done', result: { text: 'one file' }, agent: { kind: 'explore', task: 'look', steps: 1, status: 'done' } });
  expect(callOf(call.agent!.blocks)).toMatchObject({ name: 'Bash', status: 'done', result: { text: 'a.md', typed: { stdout: 'a.md' } }, asked: { approvalId: 'a1', state: 'allowed', by: 'rest' } });
  expect(blocks.at(-1)).toMatchObject({ outcome: 'done', text: '' });
  expect([suggestion, workingSince]).toEqual(['And now?', null]);
});

test('cuts, repeats and reordered pages give what one undisturbed pass gives', () => {
  const whole = plain(folded(TURN));
  const slices = fc.array(fc.record({ from: fc.nat(TURN.length), length: fc.integer({ min: 1, max: 9 }) }), { maxLength: 20 });
  fc.assert(fc.property(slices, fc.boolean(), (cuts, isForward) => {
    const fold = new Fold();
    for (const { from, length } of cuts) fold.add(TURN.slice(from, from + length));
    const rest = isForward ? TURN : TURN.toReversed();
    for (const one of rest) fold.add([one]);
    expect(plain(fold.folded)).toEqual(whole);
  }), { numRuns: 60 });
});

test('joined pieces give what single ones give, at each moment', () => {
  for (let end = 11; end <= 13; end += 1) {
    const single = folded(TURN.slice(0, end)).blocks.find((block) => block.kind === 'text') as TextBlock;
    expect(single.isOpen).toBe(true);
    const fold = new Fold();
    fold.add(TURN.slice(0, 10));
    const text = TURN.slice(10, Math.min(end, 12)).map((one) => (one.data as { event: { delta: { text: string } } }).event.delta.text).join('');
    fold.add([lineOf({ type: 'trunkline.coalesced', first_seq: 11, last_seq: Math.min(end, 12), ts: at(11), src: 'cli', data: { type: 'stream_event', event: { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text } }, parent_tool_use_id: null } })!]);
    expect((fold.folded.blocks.find((block) => block.kind === 'text') as TextBlock).parts).toEqual(single.parts);
  }
});

test('an answer that is entered in its middle says so, and is whole once its line comes', () => {
  const fold = new Fold();
  fold.add(TURN.slice(11, 12));
  expect(fold.folded.blocks[0]).toMatchObject({ kind: 'text', text: '\n\nThree', lacksBeginning: true });
  fold.add(TURN.slice(12, 14));
  expect(fold.folded.blocks.filter((block) => block.kind === 'text')).toMatchObject([{ text: '# One\n\nTwo\n\nThree', lacksBeginning: false }]);
});

test('a call that a person changed shows what ran, and says so', () => {
  const asks = (seq: number, id: string, input: object) => line(seq, 'cli', { type: 'control_request', request_id: `r${id}`, request: { subtype: 'can_use_tool', tool_name: 'Bash', tool_use_id: id, input } });
  const allows = (seq: number, id: string, input: object) => line(seq, 'client', { type: 'control_response', response: { subtype: 'success', request_id: `r${id}`, response: { behavior: 'allow', updatedInput: input } } }, 'login:Firefox');
  const use = (seq: number, id: string) => said(seq, { type: 'tool_use', id, name: 'Bash', input: { command: 'one', timeout: 5 } });
  const { blocks } = folded([
    use(1, 'a'), asks(2, 'a', { command: 'one', timeout: 5 }), allows(3, 'a', { timeout: 5, command: 'two' }),
    use(4, 'b'), asks(5, 'b', { command: 'one', timeout: 5 }), allows(6, 'b', { timeout: 5, command: 'one' }),
  ]);
  expect(blocks).toMatchObject([{ input: { command: 'two' }, changedBy: 'login:Firefox' }, { input: { command: 'one' }, changedBy: null }]);
});

test('records that were left out count as come, in whichever order the others come', () => {
  const said = (seq: number) => line(seq, 'cli', { type: 'assistant', message: { id: `m${seq}`, content: [{ type: 'text', text: `Said ${seq}` }] }, parent_tool_use_id: null });
  const passed = lineOf({ type: 'trunkline.cursor', seq: 9 })!;
  const fold = new Fold();
  fold.add([said(5), passed]);
  expect(fold.folded).toMatchObject({ firstSeq: 5, lastSeq: 9 });
  fold.add([said(2)]);
  expect(fold.folded).toMatchObject({ firstSeq: 2, lastSeq: 9 });
  fold.add([said(10)]);
  expect(fold.folded.lastSeq).toBe(10);
  expect(fold.folded.blocks).toHaveLength(3);
});

test('an interruption, a denial and a failure are told apart', () => {
  const use = (seq: number, id: string) => said(seq, { type: 'tool_use', id, name: 'Bash', input: {} });
  const back = (seq: number, id: string, more: object = {}) => line(seq, 'cli', { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: id, content: 'no', is_error: true }] }, parent_tool_use_id: null, ...more });
  const { blocks } = folded([
    use(1, 'a'), back(2, 'a'),
    use(3, 'b'), back(4, 'b', { tool_result_meta: [{ id: 'b', permission_decision: { decision: 'reject' } }] }),
    use(5, 'c'),
    line(6, 'client', { type: 'control_request', request_id: 'i', request: { subtype: 'interrupt' } }, 'rest'),
    line(7, 'cli', { type: 'user', message: { content: [{ type: 'text', text: '[Request interrupted by user for tool use]' }] }, parent_tool_use_id: null }),
    result(8, { subtype: 'error_during_execution', is_error: true }),
  ]);
  expect(blocks.map((block) => (block.kind === 'call' ? block.status : block.kind))).toEqual(['failed', 'denied', 'stopped', 'turn']);
  expect(blocks.at(-1)).toMatchObject({ outcome: 'interrupted', reason: 'Interrupted by you' });
});

test('files that the CLI did not set back are not said to be', () => {
  const asks = (seq: number, id: string, more: object = {}) => line(seq, 'client', { type: 'control_request', request_id: id, request: { subtype: 'rewind_files', user_message_id: 'u', ...more } }, 'rest');
  const answers = (seq: number, id: string, response: object) => line(seq, 'cli', { type: 'control_response', response: { request_id: id, ...response } });
  const { blocks } = folded([
    asks(1, 'looks', { dry_run: true }), answers(2, 'looks', { subtype: 'success', response: { canRewind: true } }),
    asks(3, 'refused'), answers(4, 'refused', { subtype: 'error', error: 'No file checkpoint found' }),
    asks(5, 'unable'), answers(6, 'unable', { subtype: 'success', response: { canRewind: false, error: 'It keeps none' } }),
    asks(7, 'done'), answers(8, 'done', { subtype: 'success', response: { canRewind: true } }),
    asks(9, 'unanswered'),
  ]);
  expect(blocks.map((block) => block.kind === 'note' && block.text)).toEqual([
    'Files were not set back: No file checkpoint found', 'Files were not set back: It keeps none', 'Files were set back to an earlier message',
  ]);
});

const life = (seq: number, uuid: string, state: string) => line(seq, 'cli', { type: 'command_lifecycle', command_uuid: uuid, state });

test('a prompt that waits is no part of the conversation until its turn begins', () => {
  const prompt = (seq: number, uuid: string) => line(seq, 'client', { type: 'user', message: { content: uuid }, uuid }, 'rest');
  const lines = [prompt(1, 'u1'), life(2, 'u1', 'queued'), life(3, 'u1', 'started'), prompt(4, 'u2'), life(5, 'u2', 'queued'), prompt(6, 'u3'), life(7, 'u3', 'queued')];
  const before = folded(lines);
  expect([kinds(before.blocks), before.waiting.map((one) => one.text)]).toEqual([['prompt'], ['u2', 'u3']]);
  const after = folded([...lines, life(8, 'u2', 'cancelled'), said(9, { type: 'text', text: 'Yes' }), result(10), life(11, 'u3', 'started')]);
  expect([kinds(after.blocks), after.waiting]).toEqual([['prompt', 'text', 'turn', 'prompt'], []]);
});

test('a large result is offered, and takes its place when it is loaded', () => {
  const fold = new Fold();
  const user = { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 't', content: 'long' }] }, parent_tool_use_id: null };
  fold.add([said(1, { type: 'tool_use', id: 't', name: 'Bash', input: {} }), line(2, 'cli', { type: 'user', parent_tool_use_id: null, 'trunkline.stub': { bytes: 12_000_000 } })]);
  expect(callOf(fold.folded.blocks)).toMatchObject({ status: 'done', result: { leftOutBytes: 12_000_000, seq: 2 } });
  fold.replace(line(2, 'cli', user));
  expect(callOf(fold.folded.blocks)).toMatchObject({ status: 'done', result: { leftOutBytes: null, text: 'long' } });
});

test('a prompt whose turn was interrupted was not taken back', () => {
  const prompt = line(1, 'client', { type: 'user', message: { content: 'Go' }, uuid: 'u' }, 'rest');
  const { blocks } = folded([prompt, life(2, 'u', 'started'), result(3), life(4, 'u', 'cancelled')]);
  expect(blocks[0]).toMatchObject({ kind: 'prompt', state: 'started' });
});

test('a large message of a person is offered, and takes its place when it is loaded', () => {
  const stub = (seq: number, src: string) => line(seq, src, { type: 'user', uuid: 'u', 'trunkline.stub': { bytes: 99_000 } });
  const fold = new Fold();
  fold.add([stub(1, 'client'), life(2, 'u', 'started'), stub(3, 'cli')]);
  expect(fold.folded.blocks).toMatchObject([{ kind: 'prompt', state: 'started', leftOutBytes: 99_000, text: '' }]);
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  fold.replace(line(1, 'client', { type: 'user', uuid: 'u', message: { content: [picture, { type: 'text', text: 'See' }] } }));
  expect(fold.folded.blocks).toMatchObject([{ kind: 'prompt', leftOutBytes: null, text: 'See', pictures: [{ base64: 'AAAA' }] }]);
});

test('a large answer is what its pieces said, or is offered', () => {
  const stub = line(14, 'cli', { type: 'assistant', parent_tool_use_id: null, 'trunkline.stub': { bytes: 99_000 } });
  const streamed = folded([...TURN.slice(0, 12), stub]);
  expect(streamed.blocks.at(-1)).toMatchObject({ kind: 'text', isOpen: false, text: '# One\n\nTwo\n\nThree', seq: 14 });
  const entered = new Fold();
  entered.add([TURN[11]!, stub]);
  expect(entered.folded.blocks).toMatchObject([{ kind: 'note', leftOutBytes: 99_000 }]);
  entered.replace(TURN[13]!);
  expect(entered.folded.blocks).toMatchObject([{ kind: 'text', text: '# One\n\nTwo\n\nThree', lacksBeginning: false }]);
});

test('everything that the CLI was recorded to say is known', () => {
  const unknown: string[] = [];
  for (const name of readdirSync(RECORDINGS).filter((one) => one.endsWith('.ndjson') && !one.includes('.stdin.'))) {
    const lines = recording(name);
    const { blocks } = folded(lines);
    unknown.push(...blocks.filter((block) => block.kind === 'note' && block.code === 'unknown').map((block) => `${name}: ${block.kind === 'note' ? block.text : ''}`));
    expect(new Set(blocks.map((block) => block.key)).size, name).toBe(blocks.length);
    const fold = new Fold();
    fold.add(lines.slice(lines.length / 2));
    fold.add(lines);
    expect(plain(fold.folded), name).toEqual(plain(folded(lines)));
  }
  expect(unknown).toEqual([]);
});

test('a kind that is not known is a hairline that shows it', () => {
  expect(folded([line(1, 'cli', { type: 'from_the_future', x: 1 })]).blocks).toMatchObject([{ kind: 'note', code: 'unknown', detail: expect.stringContaining('"x": 1') }]);
});

/** Turns one after the other, each with its own names. */
const turnsOf = (n: number): Line[] => Array.from({ length: n }, (_, turn) => TURN.map((one) => {
  const data = JSON.parse(JSON.stringify(one.data).replace(/"(u1|m1|m2|m3|t1|t2|r1|a1)"/g, `"$1 of ${turn}"`)) as unknown;
  return { ...one, seq: one.seq + turn * 28, lastSeq: one.seq + turn * 28, ts: at(one.seq + turn * 28), data };
})).flat();

test('old turns that were let go can be loaded again, in any pages, and then nothing is missing or doubled', () => {
  const all = turnsOf(6);
  const whole = plain(folded(all));
  fc.assert(fc.property(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 60 }), fc.integer({ min: 60, max: all.length }), (keep, page, first) => {
    const fold = new Fold();
    fold.add(all.slice(0, first));
    const before = fold.size;
    const hasGone = fold.letGo(keep);
    expect(fold.size < before).toBe(hasGone);
    if (hasGone) expect(fold.folded.blocks[0]).toMatchObject({ kind: 'prompt' });
    fold.add(all.slice(first));
    expect(fold.folded.lastSeq).toBe(all.length);
    for (let from = fold.folded.firstSeq - 1; from > 0; from = fold.folded.firstSeq - 1) fold.add(all.slice(Math.max(0, from - page), from).reverse());
    expect(plain(fold.folded)).toEqual(whole);
  }), { seed: 6, numRuns: 30 });
});

test('what still waits for a person, or runs, is not let go, and the list of tasks stays', () => {
  const all = turnsOf(6);
  const fold = new Fold();
  // A question of a sub-agent waits, while the person sends more messages and the agent goes on.
  fold.add([...all.slice(0, 28 + 22), ...Array.from({ length: 60 }, (_, n) => line(51 + n, 'client', { type: 'user', message: { role: 'user', content: 'More' }, uuid: `more ${n}` }, 'rest'))]);
  expect(fold.letGo(10)).toBe(true);
  expect([fold.folded.firstSeq, fold.folded.calls.get('t2 of 1')?.status]).toEqual([30, 'asked']);
  const other = new Fold();
  other.add([line(1, 'cli', { type: 'system', subtype: 'task_started', task_id: 'b1', task_type: 'local_bash', description: 'serve', is_backgrounded: true }), ...all.map((one) => ({ ...one, seq: one.seq + 1, lastSeq: one.seq + 1 }))]);
  expect(other.letGo(10)).toBe(true);
  expect(other.folded.tasks.get('b1')).toMatchObject({ description: 'serve', endedAt: null });
  other.add([line(900, 'cli', { type: 'system', subtype: 'task_notification', task_id: 'b1', status: 'completed' })]);
  other.add([line(1, 'cli', { type: 'system', subtype: 'task_started', task_id: 'b1', task_type: 'local_bash', description: 'serve', is_backgrounded: true })]);
  expect(other.folded.tasks.get('b1')).toMatchObject({ status: 'completed' });
});

test('a search that the API runs by itself has its result', () => {
  const search = (more: object[]) => folded([said(1, { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'axum' } }), ...more.map((one) => said(2, one))]).calls.get('s') as CallBlock;
  expect(search([]).status).toBe('running');
  const found = search([{ type: 'web_search_tool_result', tool_use_id: 's', content: [{ type: 'web_search_result', title: 'Axum', url: 'https://docs.rs/axum' }] }]);
  expect([found.status, titlesOf(found)]).toEqual(['done', [{ title: 'Axum', url: 'https://docs.rs/axum' }]]);
  const failed = search([{ type: 'web_search_tool_result', tool_use_id: 's', content: { type: 'web_search_tool_result_error', error_code: 'max_uses_exceeded' } }]);
  expect([failed.status, failed.result?.text]).toEqual(['failed', 'max uses exceeded']);
});

test('an agent in an agent in an agent has its place, though the CLI tells of its task and its questions alone', () => {
  const task = (seq: number, subtype: string, id: string, more: object) => line(seq, 'cli', { type: 'system', subtype, task_id: id, tool_use_id: `call_${id}`, ...more });
  const started = (seq: number, id: string, more: object = {}) => task(seq, 'task_started', id, { description: `do ${id}`, subagent_type: 'explore', task_type: 'local_agent', ...more });
  const lines = [
    said(1, { type: 'tool_use', id: 'call_a', name: 'Agent', input: { description: 'do a' } }), started(2, 'a'),
    line(3, 'cli', { type: 'assistant', message: { id: 'm2', content: [{ type: 'tool_use', id: 'call_b', name: 'Agent', input: { description: 'do b' } }] }, parent_tool_use_id: 'call_a' }), started(4, 'b', { parent_task_id: 'a' }),
    started(5, 'c', { parent_task_id: 'b' }),
    line(6, 'cli', { type: 'control_request', request_id: 'r', request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'touch x' }, tool_use_id: 'bash', agent_id: 'c' } }),
    line(7, 'daemon', { type: 'approval', approval_id: 'ap', request_id: 'r' }),
  ];
  const asked = folded(lines);
  expect(asked.blocks).toHaveLength(1);
  expect(['bash', 'call_c', 'call_b'].map((id) => asked.calls.get(id)?.parent)).toEqual(['call_c', 'call_b', 'call_a']);
  expect(askedIn(asked.blocks)?.id).toBe('bash');
  const over = folded([...lines, line(8, 'daemon', { type: 'decision', approval_id: 'ap', state: 'allowed', by: 'rest' }),
    task(9, 'task_notification', 'c', { status: 'completed', summary: 'made', usage: { total_tokens: 120, tool_uses: 1, duration_ms: 2_960 } }),
    task(10, 'task_notification', 'b', { status: 'completed', summary: 'two done' }),
    line(11, 'cli', { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 'call_a', content: 'frame' }] }, parent_tool_use_id: null,
      tool_use_result: { status: 'completed', content: [{ type: 'text', text: '<tools-used-before-summary>Bash</tools-used-before-summary>\n' }, { type: 'text', text: 'one done' }], totalTokens: 120, totalDurationMs: 5_000 } })]);
  const agents = ['a', 'b', 'c'].map((id) => over.calls.get(`call_${id}`)!);
  expect(agents.map(({ status, agent }) => [status, agent!.status, agent!.report])).toEqual([['done', 'done', 'one done'], ['done', 'done', 'two done'], ['done', 'done', 'made']]);
  expect([over.calls.get('bash')!.status, agents[2]!.agent!.tokens]).toEqual(['done', 120]);
});
