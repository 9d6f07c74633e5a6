import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readTerminal, safeLink } from '../src/text/ansi';

const lines = (text: string) => readTerminal(text).lines.map((line) => line.map((one) => (one.classes === '' ? one.text : `<${one.classes}>${one.text}</>`)).join(''));

test('colours become classes, and a background is ignored', () => {
  expect(lines('\u001b[1;31mFAILED\u001b[0m ok')).toEqual(['<ansi-1 is-bold>FAILED</> ok']);
  expect(lines('\u001b[42mx\u001b[91my')).toEqual(['x<ansi-9>y</>']);
  expect(lines('\u001b[38;5;196mr\u001b[38;2;0;120;255mb\u001b[38;5;244mg')).toEqual(['<ansi-9>r</><ansi-12>b</><ansi-7>g</>']);
  expect(lines('\u001b[8mhidden\u001b[28m seen')).toEqual(['<is-concealed>hidden</> seen']);
});

test('a progress bar shows its last state, as in a terminal', () => {
  expect(lines('10 %\r50 %\r100 %\ndone')).toEqual(['100 %', 'done']);
  expect(lines('Compiling abc\r\u001b[KFinished')).toEqual(['Finished']);
  expect(lines('abc\b\bX')).toEqual(['aXc']);
  expect(lines('one\r\ntwo')).toEqual(['one', 'two']);
  expect(lines('secret\u001b[2Kx')).toEqual(['      x']);
});

test('what moves or renames a terminal is dropped and counted', () => {
  const read = readTerminal('a\u001b[2J\u001b[5;5Hb\u001b]0;title\u0007c\u001bP+q\u001b\\d\u001b(Be\u0007');
  expect(read.lines.map((line) => line.map((one) => one.text).join(''))).toEqual(['abcde']);
  expect(read.dropped).toBe(6);
});

test('a link keeps its text, and its address where that is http(s)', () => {
  const link = (address: string) => readTerminal(`\u001b]8;;${address}\u001b\\docs\u001b]8;;\u001b\\!`).lines[0];
  expect(link('https://docs.rs/x')).toEqual([{ text: 'docs', classes: '', href: 'https://docs.rs/x' }, { text: '!', classes: '', href: null }]);
  for (const bad of ['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', ' java\tscript:alert(1)']) {
    expect(link(bad)?.every((one) => one.href === null)).toBe(true);
    expect(safeLink(bad)).toBeNull();
  }
});

test('no text breaks the reader, and none of its codes comes through', () => {
  const part = fc.constantFrom('\u001b', '[', ']', '8;;', 'm', '31', ';', 'K', '\r', '\b', '\n', 'a', '\u0007', '\u009b', '\u001b[', '999', 'P', '\\', '38;2;', '?25l', '\t', 'é', '👍');
  fc.assert(fc.property(fc.oneof(fc.array(part, { maxLength: 60 }).map((all) => all.join('')), fc.string({ unit: 'binary', maxLength: 200 })), (text) => {
    const read = readTerminal(text);
    expect(read.lines.length).toBe(text.split('\n').length);
    for (const one of read.lines.flat()) {
      expect(one.text).not.toMatch(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/);
      expect(one.classes).toMatch(/^[a-z0-9 -]*$/);
    }
  }), { numRuns: 500 });
});
