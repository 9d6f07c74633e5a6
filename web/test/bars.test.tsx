import { createSignal } from 'solid-js';
import { render } from 'solid-js/web';
import { expect, test } from 'vitest';
import { Bars } from '../src/usage/bars';

test('a bar is chosen by Enter, Space or a press, and says that it is', () => {
  const host = document.body.appendChild(document.createElement('div'));
  const [chosen, setChosen] = createSignal('');
  const pressed: string[] = [];
  const bars = () => ['opus', 'haiku'].map((key) => ({ key, label: key, value: 1, says: `${key}: $1`, isChosen: chosen() === key }));
  render(() => <Bars bars={bars()} title="Cost by model" onChoose={(key) => { pressed.push(key); setChosen(key); }} />, host);
  const bar = (name: string) => host.querySelector<SVGElement>(`[aria-label^="${name}"]`)!;
  bar('opus').dispatchEvent(new KeyboardEvent('keydown', { key: ' ', bubbles: true, cancelable: true }));
  expect([bar('opus').getAttribute('aria-pressed'), bar('haiku').getAttribute('aria-pressed')]).toEqual(['true', 'false']);
  bar('haiku').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  bar('opus').dispatchEvent(new MouseEvent('click', { bubbles: true }));
  expect(pressed).toEqual(['opus', 'haiku', 'opus']);
});
