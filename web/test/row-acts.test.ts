import { createRoot } from 'solid-js';
import { expect, test, vi } from 'vitest';
import { createReading } from '../src/conversation/reading';
import { createRowActs } from '../src/conversation/row-acts';
import { rowsOf, type Row } from '../src/conversation/rows';
import type { Conversation } from '../src/live/store';
import { Fold } from '../src/fold/fold';

vi.mock('@solidjs/router', () => ({ useNavigate: () => () => undefined }));

const line = (seq: number, src: string, data: unknown) => ({ seq, lastSeq: seq, ts: '2026-01-02T03:00:00Z', src, by: src === 'client' ? 'rest' : null, data });
const fold = new Fold();
fold.add([1, 11].flatMap((seq) => [
  line(seq, 'client', { type: 'user', message: { content: `Prompt ${seq}` }, uuid: `u${seq}` }),
  line(seq + 1, 'cli', { type: 'command_lifecycle', command_uuid: `u${seq}`, state: 'started' }),
  line(seq + 2, 'cli', { type: 'assistant', message: { id: `m${seq}`, content: [{ type: 'text', text: 'Said' }] }, parent_tool_use_id: null }),
  line(seq + 3, 'cli', { type: 'result', subtype: 'success', is_error: false, duration_ms: 1, result: '' }),
]));
const rows = rowsOf(fold.folded, [], { foldUpTo: 0, chosen: new Map(), newAfter: 0, hasOlder: false });

function acts(went: string[] = []) {
  vi.stubGlobal('matchMedia', () => ({ matches: false }));
  return createRoot(() => createRowActs({
    rows: () => rows, reading: createReading(), goTo: (key) => { went.push(key); }, sticking: {} as never, newKey: () => null, conversation: { id: 's' } as Conversation,
  }));
}
const wordsFor = (row: Row) => acts().filter((act) => act.fits(row)).map((act) => act.word);

test('each row offers what can be done to it, and a prompt that is on its way has no record yet', () => {
  const prompt = rows.find((row) => row.kind === 'prompt')!;
  expect(wordsFor(prompt)).toEqual(expect.arrayContaining(['Copy', 'Copy as Markdown', 'Copy a link', 'Raw record', 'Fork here', 'Rewind files to here', 'Open or fold']));
  expect(wordsFor(rows.find((row) => row.kind === 'text')!)).not.toContain('Rewind files to here');
  const sending = { ...prompt, seq: 0 } as Row;
  for (const word of ['Copy a link', 'Raw record', 'Fork here', 'Rewind files to here']) expect(wordsFor(sending)).not.toContain(word);
  expect(wordsFor(sending)).toContain('Copy');
});

test('from a row one comes to the prompts and turns before and after it', () => {
  const went: string[] = [];
  const all = acts(went);
  const run = (word: string, row: Row) => all.find((act) => act.word === word)!.run(row);
  const prompts = rows.filter((row) => row.kind === 'prompt');
  const texts = rows.filter((row) => row.kind === 'text');
  run('Prompt before', texts[1]!);
  run('Next prompt', texts[0]!);
  run('Prompt before', prompts[0]!);
  run('Next turn', prompts[0]!);
  expect(went).toEqual([prompts[1]!.key, prompts[1]!.key, rows.find((row) => row.kind === 'turn')!.key]);
});
