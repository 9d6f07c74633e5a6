import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isPlain, shownOf, spelledOut } from '../src/text/hostile';

const said = (text: string, layout?: 'prose' | 'code') => shownOf(text, layout).pieces.map((piece) => (piece.kind === 'text' ? piece.text : `[${piece.text}]`)).join('');

test('ordinary text of many languages stays as it is', () => {
  for (const text of ['', 'plain', 'a\tb\nc', 'Grüße, 日本語, עברית, नमस्ते', '👩‍👩‍👧 ok ☺️ 1️⃣', '        eight']) {
    expect(said(text)).toBe(text);
  }
});

test('characters that hide something are shown', () => {
  expect(said('ls \u202Egnp.exe')).toBe('ls [U+202E]gnp.exe');
  expect(said('a\u200Bb\u200Dc')).toBe('a[U+200B]b[U+200D]c');
  expect(said(`a${' '.repeat(300)}rm`)).toBe('a[300 blanks]rm');
  expect(said(`a${'\u3000'.repeat(12)}b`)).toBe('a[12 blanks]b');
  expect(said(`x${'\u{e0041}'.repeat(40)}`)).toBe('x[40 hidden characters]');
  expect(said(`Z${'\u0351'.repeat(60)}`)).toBe('Z[60 marks]');
  expect(said('a\ud800b')).toBe('a[U+D800]b');
  expect(said('line\u2028break')).toBe('line[U+2028]break');
});

test('control codes are dropped and counted, and line ends of Windows are not', () => {
  expect(shownOf('a\u0000b\u001b[31mc\u0085')).toEqual({ pieces: [{ kind: 'text', text: 'ab[31mc' }], dropped: 3 });
  expect(shownOf('a\r\nb').dropped).toBe(0);
  expect(shownOf('a\rb').dropped).toBe(1);
});

test('code keeps its indentation and its columns', () => {
  const code = `if x:\n${' '.repeat(24)}y\nname${' '.repeat(30)}size`;
  expect(said(code, 'code')).toBe(code);
  expect(said(`\n${' '.repeat(24)}y`)).toBe(`\n${' '.repeat(24)}y`);
});

test('nothing that hides is left, whatever the text', () => {
  const nasty = fc.string({ unit: fc.constantFrom('a', ' ', '\n', '\u200b', '\u202e', '\u0007', '\u001b', '\ud83d', '\u00ad', '\ufe0f', '👍', '\u200d', '\u0301') });
  fc.assert(fc.property(fc.oneof(nasty, fc.string({ unit: 'binary' })), (text) => {
    for (const piece of shownOf(text).pieces) {
      expect(piece.text).not.toBe('');
      if (piece.kind === 'text') expect(piece.text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
    }
    if (isPlain(text) && text !== '') expect(shownOf(text).pieces).toEqual([{ kind: 'text', text }]);
  }));
});

test('where no chip can stand, what cannot be seen is spelled out', () => {
  expect(spelledOut('plain')).toBe('plain');
  expect(spelledOut('ls \u202Egnp.exe')).toBe('ls [U+202E]gnp.exe');
});
