// Tests of names that nobody else has, where the browser makes none by itself.
import { afterEach, expect, test, vi } from 'vitest';
import { newUuid } from 'trunkline-client';

afterEach(() => vi.unstubAllGlobals());

test('a page over plain HTTP makes UUIDs too', () => {
  const { getRandomValues } = crypto;
  vi.stubGlobal('crypto', { getRandomValues: getRandomValues.bind(crypto) });
  const made = Array.from({ length: 200 }, newUuid);
  for (const uuid of made) expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(made).size).toBe(200);
});
