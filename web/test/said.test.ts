import { TrunklineError } from 'trunkline-client';
import { expect, test, vi } from 'vitest';
import { problemWords, said } from '../src/daemon/daemon';
import { signIn } from '../src/daemon/login';

test('a title that the detail says again is left out', () => {
  expect(problemWords('The working directory does not exist', 'the working directory /nope does not exist')).toBe('The working directory /nope does not exist.');
  expect(problemWords('The session is busy', 'it has a turn')).toBe('The session is busy. It has a turn.');
  expect(problemWords('The session is gone', undefined)).toBe('The session is gone.');
  expect(problemWords(undefined, undefined)).toBe('');
});

test('a daemon that is away is called so, whatever the browser or a proxy says', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
  const lost: unknown = await signIn({ token: 'any' }).catch((error: unknown) => error);
  vi.unstubAllGlobals();
  expect(said(lost).text).toBe('The daemon does not answer.');
  expect(said(TrunklineError.of(502, undefined)).text).toBe('The daemon does not answer.');
  expect(said(TrunklineError.of(500, undefined)).text).toBe('The answer has the status 500.');
});

test('an error of the daemon with such a status keeps its own words', () => {
  const closing = { type: 'urn:trunkline:problem:shutting_down', title: 'The daemon ends', detail: 'come back later', code: 'shutting_down', retryable: true, side_effect_possible: false };
  expect(said(TrunklineError.of(503, closing)).text).toBe('The daemon ends. Come back later.');
});
