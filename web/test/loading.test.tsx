import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createSignal } from 'solid-js';
import { render } from 'solid-js/web';
import { afterEach, expect, test, vi } from 'vitest';
import { CALM_MS, Loading, createLong } from '../src/parts/loading';

afterEach(() => { vi.useRealTimers(); });

test('a wait is told once it has lasted, and no longer than it lasts', () => {
  vi.useFakeTimers();
  const place = document.body.appendChild(document.createElement('div'));
  const [waits, setWaits] = createSignal(false);
  const end = render(() => {
    const isLong = createLong(waits);
    return <><p>{isLong() ? 'still' : 'calm'}</p><Loading>Loading the plan…</Loading></>;
  }, place);
  expect(place.textContent).toBe('calm');
  vi.advanceTimersByTime(CALM_MS - 1);
  expect(place.textContent).toBe('calm');
  vi.advanceTimersByTime(1);
  expect(place.textContent).toBe('calmLoading the plan…');
  setWaits(true);
  vi.advanceTimersByTime(CALM_MS);
  expect(place.textContent).toContain('still');
  // Each wait is counted from its own beginning.
  setWaits(false);
  expect(place.textContent).toContain('calm');
  setWaits(true);
  vi.advanceTimersByTime(CALM_MS - 1);
  expect(place.textContent).toContain('calm');
  end();
});

test('no place of the page says at once that it loads, but a button that was pressed', () => {
  const src = join(import.meta.dirname, '../src');
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((one) => one.endsWith('.tsx'))) {
    for (const line of readFileSync(join(src, name), 'utf8').split('\n')) {
      if (/(?:Loading|Reading) ?[a-z ]*…|Adding up…|Loading the record|Asking the agent…/.test(line)) expect(line, name).toMatch(/<Loading>|isLong|busyWord=|<button /);
    }
  }
});
