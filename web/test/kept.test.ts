import { createRoot } from 'solid-js';
import { beforeEach, expect, test, vi } from 'vitest';

const DAY_MS = 86_400_000;
/** Fills in, as a card does, and leaves it. */
const load = async () => { vi.resetModules(); return import('../src/decision/kept'); };
async function fill(id: string, words: string): Promise<string> {
  const { keptStore } = await load();
  return createRoot((end) => {
    const [state, setState] = keptStore(id, { words: '' });
    const before = state.words;
    if (words !== '') setState('words', words);
    queueMicrotask(end);
    return before;
  });
}

beforeEach(() => { localStorage.clear(); sessionStorage.clear(); vi.useRealTimers(); });

test('what was filled in outlives the tab, and goes once it is sent', async () => {
  await fill('a', 'Half an answer');
  // Another tab has no part in what was of this one alone.
  sessionStorage.clear();
  expect(await fill('a', '')).toBe('Half an answer');
  (await load()).forgetKept('a');
  expect(await fill('a', '')).toBe('');
});

test('a card that is only looked at keeps nothing, and answers to what ended elsewhere go after a week', async () => {
  await fill('seen', '');
  expect(localStorage.length).toBe(0);
  vi.useFakeTimers({ now: Date.now() - 8 * DAY_MS, toFake: ['Date'] });
  await fill('old', 'Nobody sent this');
  vi.useRealTimers();
  await fill('young', 'I come back to this');
  await load();
  expect(Object.keys(localStorage)).toEqual(['trunkline.answer.young']);
});
