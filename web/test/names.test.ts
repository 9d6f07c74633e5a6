import { expect, test } from 'vitest';
import { lineOfCall } from '../src/conversation/call-words';
import { contentOf, fieldsOf } from '../src/decision/form';
import { answersOf, type Given } from '../src/decision/questions';
import { Fold } from '../src/fold/fold';
import { entryOf } from '../src/fold/raw';
import { resolved } from '../src/text/entities';

// Names that every object has: an agent may give them to anything.
const NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];

test('a table has nothing under a name that every object has', () => {
  for (const name of NAMES) expect(entryOf({ a: 1 }, name)).toBeUndefined();
  expect(entryOf({ a: 1 }, 'a')).toBe(1);
  expect(resolved('&valueOf; &toString; &lt;')).toBe('&valueOf; &toString; <');
});

test('a form sends every field, whatever its name', () => {
  const schema = JSON.parse(`{"type":"object","properties":{${NAMES.map((name) => `"${name}":{"type":"string"}`).join()}}}`) as unknown;
  const fields = fieldsOf(schema, ['valueOf']);
  expect(fields.map((field) => field.name)).toEqual(NAMES);
  expect(Object.entries(contentOf(fields, (field) => `${field.name}!`))).toEqual(NAMES.map((name) => [name, `${name}!`]));
});

test('a question is answered, whatever its words', () => {
  const given = (label: string): Given => ({ labels: [label], isOther: false, other: '', note: `${label}?`, isSkipped: false });
  const { answers, notes } = answersOf(NAMES.map((text) => ({ text, header: '', isMany: false, options: [] })), NAMES.map(given));
  expect(Object.entries(answers ?? {})).toEqual(NAMES.map((name) => [name, name]));
  expect(Object.entries(notes ?? {})).toEqual(NAMES.map((name) => [name, `${name}?`]));
});

test('calls, results and lines with such names are drawn as any other', () => {
  const fold = new Fold();
  const say = (seq: number, data: object) => fold.add([{ seq, lastSeq: seq, ts: '2026-01-02T03:04:05Z', src: 'cli', by: null, data }]);
  for (const [at, name] of NAMES.entries()) {
    say(at * 10 + 1, { type: 'assistant', parent_tool_use_id: null, message: { id: name, content: [{ type: 'tool_use', id: name, name, input: JSON.parse(`{"${name}":"x"}`) }] } });
    say(at * 10 + 2, { type: 'stream_event', parent_tool_use_id: null, event: { type: 'content_block_delta', index: 0, delta: { type: name, text: 'x' } } });
    say(at * 10 + 3, { type: 'stream_event', parent_tool_use_id: null, event: { type: 'content_block_delta', index: 0, delta: { type: name, text: 'y' } } });
    say(at * 10 + 4, { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: name, content: 'done' }] } });
    say(at * 10 + 5, { type: 'result', subtype: name, is_error: true, terminal_reason: name });
  }
  const calls = fold.folded.blocks.filter((block) => block.kind === 'call');
  expect(calls.map((call) => lineOfCall(call).verb)).toEqual(NAMES);
  expect(fold.folded.blocks.filter((block) => block.kind === 'turn').map((turn) => turn.reason)).toEqual(NAMES.map(() => 'It failed.'));
});
