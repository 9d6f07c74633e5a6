import { afterEach, expect, test, vi } from 'vitest';
import { codeBlock } from '../src/text/code-block';

const text = `short\n${'a long line of code '.repeat(6)}\n\nend`;
const code = () => codeBlock(text, '').querySelector('code')!;

afterEach(() => { vi.unstubAllGlobals(); });

test('on a narrow page each long line of a block hangs by itself, and nothing of the text is changed', () => {
  vi.stubGlobal('matchMedia', () => ({ matches: true }));
  const drawn = code();
  expect([...drawn.querySelectorAll('.code-line')].map((line) => line.textContent)).toEqual([`${'a long line of code '.repeat(6)}\n`]);
  expect(drawn.textContent).toBe(text);
});

test('on a wide page, where lines do not wrap, a block is one text', () => {
  vi.stubGlobal('matchMedia', () => ({ matches: false }));
  expect(code().childElementCount).toBe(0);
  expect(code().textContent).toBe(text);
});
