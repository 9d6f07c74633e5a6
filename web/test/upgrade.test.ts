import { expect, test } from 'vitest';
import { entryOf, mayReload } from '../src/shell/upgrade';

test('a page is loaded anew between turns only, with nothing open and nothing being written', () => {
  const calm = { isTurnRunning: false, isLayerOpen: false, msSinceKey: 10_000, isLive: true };
  expect(mayReload(calm)).toBe(true);
  for (const busy of [{ isTurnRunning: true }, { isLayerOpen: true }, { msSinceKey: 500 }, { isLive: false }]) expect(mayReload({ ...calm, ...busy })).toBe(false);
});

test('the start of the page is read out of its HTML', () => {
  expect(entryOf('<html><script type="module" crossorigin src="/assets/index-B1x9.js"></script>')).toBe('/assets/index-B1x9.js');
  expect(entryOf('<html><body>No page')).toBeUndefined();
});
