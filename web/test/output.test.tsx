import { render } from 'solid-js/web';
import { expect, test } from 'vitest';
import { Output, lastOf } from '../src/text/output';

function shown(text: string, last?: number): HTMLElement {
  const host = document.createElement('div');
  document.body.append(host);
  render(() => <Output text={text} {...(last === undefined ? {} : { last })} />, host);
  return host;
}

test('the last lines are shown, and what is before them is counted', () => {
  const text = Array.from({ length: 2_310 }, (_, i) => `line ${i}`).join('\n');
  const host = shown(`${text}\n`);
  expect(host.querySelectorAll('.output-line').length).toBe(20);
  expect(host.textContent).toContain('2,290 lines before');
  expect(host.textContent).toContain('line 2309');
  [...host.querySelectorAll('button')].find((button) => button.textContent === '200 more')?.click();
  expect(host.querySelectorAll('.output-line').length).toBe(220);
});

test('after 2,000 lines the rest is for a page of its own', () => {
  const host = shown('x\n'.repeat(5_000), 3_000);
  expect(host.querySelectorAll('.output-line').length).toBe(2_000);
  expect([...host.querySelectorAll('button')].map((button) => button.textContent)).toContain('Open as text');
});

test('a line of 5 MB is cut, and says how much is left', () => {
  const started = performance.now();
  const host = shown('x'.repeat(5_000_000));
  expect(performance.now() - started).toBeLessThan(1_000);
  expect(host.textContent?.length).toBeLessThan(3_000);
  expect(host.textContent).toContain('4,998,000 more characters');
});

test('the ends of texts', () => {
  expect(lastOf('', 5)).toEqual({ lines: '', before: 0 });
  expect(lastOf('a\nb\nc\n', 2)).toEqual({ lines: 'b\nc', before: 1 });
  expect(lastOf('\n\n\na', 2)).toEqual({ lines: '\na', before: 2 });
  expect(lastOf('a', 1)).toEqual({ lines: 'a', before: 0 });
});
