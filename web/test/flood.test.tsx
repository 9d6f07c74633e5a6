// How much of a message is lexed while it streams, and that its end is what it is at once.
import fc from 'fast-check';
import { Index, createSignal } from 'solid-js';
import { render } from 'solid-js/web';
import { expect, test, vi } from 'vitest';
import { PartCutter } from '../src/fold/parts';
import type { Part } from '../src/fold/model';
import { CarefulLexer } from '../src/text/bombs';
import { Markdown } from '../src/text/markdown';
import { chunkNodes } from '../src/text/nodes';
import { Splitter } from '../src/text/splitter';

const SENTENCES = ['The fixture is read **once**, and then `parse()` gets each of its lines.', 'See [the manual](https://example.com/manual) for the rest of it; nothing else changes.',
  'It took *much* longer than `before_it_did`, about 5 * 3 ms or so, and snake_case names stay.', 'Is a < b, or (as in [1]) not? He said "no", and went on to https://example.org/a_b for a while.'];
const lines = (n: number, line: (at: number) => string): string => Array.from({ length: n }, (_, at) => line(at)).join('\n');
const PARAGRAPH = lines(120, (at) => SENTENCES[at % SENTENCES.length]!).replaceAll('\n', ' ').slice(0, 9_000);
const WRAPPED = lines(120, (at) => SENTENCES[at % SENTENCES.length]!);
const LIST = lines(500, (at) => `- item ${at}, with \`code\` and **some** words${at % 10 === 0 ? '\n  - and one below it' : ''}`);
const NUMBERS = lines(500, (at) => `${at + 1}. Step ${at} does \`this\` and that`);
const TABLE = `| case | result | note |\n| --- | ---: | :---: |\n${lines(500, (at) => `| case \`${at}\` | passed in ${at} ms | nothing to *see* |`)}`;
const FENCE = `\`\`\`rust\n${'let x = 1; // **no** mark\n'.repeat(4_000)}\`\`\``;
const QUOTE = lines(200, () => '> Words of **somebody** else, which go on for a while.');
const MIX = `## What was found\n${PARAGRAPH.slice(0, 3_000)}\n\nThese are the steps:\n${LIST.slice(0, 4_000)}\n\n${FENCE.slice(0, 8_000)}\n\`\`\`\n\n${TABLE.slice(0, 6_000)}\n\n1. **First**: words\n   more of them\n2. Second\n\n   \`\`\`sh\n   ls\n   \`\`\`\n\n${QUOTE.slice(0, 2_000)}\n\n# End\n\n${WRAPPED.slice(0, 2_000)}`;
const TEXTS = { paragraph: PARAGRAPH, wrapped: WRAPPED, list: LIST, numbers: NUMBERS, table: TABLE, fence: FENCE, quote: QUOTE, mix: MIX };

/** The same pieces for each run: from 5 to 40 characters, and so many of them in one frame of the page. */
function* frames(text: string, atOnce: number): Generator<string[]> {
  let seed = 7;
  for (let at = 0; at < text.length;) {
    const pieces: string[] = [];
    for (let n = 0; n < atOnce && at < text.length; n += 1) {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      const piece = text.slice(at, at + 5 + seed % 36);
      pieces.push(piece);
      at += piece.length;
    }
    yield pieces;
  }
}

/** How many characters are lexed for each one of a message that streams, as the page draws it. */
function lexed(text: string, atOnce: number): number {
  const lex = vi.spyOn(CarefulLexer.prototype, 'lex');
  const cutter = new PartCutter();
  const [parts, setParts] = createSignal<Part[]>([]);
  const host = document.createElement('div');
  const stop = render(() => <Index each={parts()}>{(part) => <Markdown text={part().text} isOpen={!part().isClosed} />}</Index>, host);
  for (const pieces of frames(text, atOnce)) {
    for (const piece of pieces) cutter.push(piece);
    setParts([...cutter.parts]);
  }
  cutter.close();
  setParts([...cutter.parts]);
  const sum = lex.mock.calls.reduce((all, [given]) => all + given.length, 0);
  lex.mockRestore();
  stop();
  return sum / text.length;
}

test.each([[1, 9_000], [12, Infinity]])('of a message of n characters at most 1.5 n are lexed while it streams, %i pieces in a frame', (atOnce, most) => {
  const found = Object.entries(TEXTS).map(([name, text]) => [name, lexed(text.slice(0, most), atOnce)] as const);
  expect(found.filter(([, ratio]) => ratio > 1.5)).toEqual([]);
}, 60_000);

/** The page's markup of a text that came in these pieces. */
function drawn(pieces: Iterable<string>): string {
  const splitter = new Splitter();
  for (const piece of pieces) { splitter.push(piece); splitter.flush(); splitter.open(); }
  splitter.end();
  const host = document.createElement('div');
  host.append(...splitter.chunks.flatMap(chunkNodes));
  return host.innerHTML;
}

test.each(Object.entries(TEXTS).filter(([name]) => name !== 'fence'))('a %s that came in pieces is in the end the one that came at once', (_, text) => {
  expect(drawn([...frames(text, 1)].flat())).toBe(drawn([text]));
});

const WORDS = ['word', 'Words', '**', '*', '*a*', '**b**', '_c_', '__d__', 'e_f', '`', '``', '`g`', '[h](https://i.org/j)', '[k]', '[', ']', '](', '(', ')', '<', '<l>', '<https://m.org>', '~', '~5', '~~n~~', '~~',
  '\\', '\\*', '&amp;', '|', 'https://o.org/p_q', '!', '![r](s)', '**t', 'u**', '*v', 'w*', '_x', 'y_', '\n', '\n', '\n\n', '\n- ', '\n1. ', '\n2. ', '\n* ', '\n  - ', '\n# ', '\n> q', '\n---\n', '\n===\n', '\n| a | b |\n|---|---|\n',
  '\n| c | *d* |\n', '\n```\n', '\n  ```\n', '\n[k]: https://z.org\n', '  \n', '\n    ', '\n[ ] ', '\n- [x] ', 'so and so and so', 'x'.repeat(320)];

test('words with any marks are in the end what they are at once, however they came', () => {
  fc.assert(fc.property(fc.array(fc.tuple(fc.constantFrom(...WORDS), fc.constantFrom(' ', ' ', ' ', '')), { minLength: 1, maxLength: 30 }), fc.integer({ min: 1, max: 12 }), (words, size) => {
    const text = words.flat().join('');
    expect(drawn(text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [])).toBe(drawn([text]));
  }), { numRuns: 300 });
}, 120_000);
