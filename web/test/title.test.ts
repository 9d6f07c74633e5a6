import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/daemon/types';
import { sessionIn, tabTitle } from '../src/shell/title';

const session = (title: string | null): SessionSummary => ({ id: 's1', title, first_prompt: 'Make the tests pass.\nAll.', cwd: '/work/shop' }) as unknown as SessionSummary;

test('a tab names the session that is open, with the number of needs in front', () => {
  expect(sessionIn('/s/s1/r/7/raw')).toBe('s1');
  expect(sessionIn('/settings/keys')).toBeUndefined();
  expect(tabTitle('/s/s1', 0, session('Fix login'))).toBe('Fix login · Trunkline');
  expect(tabTitle('/s/s1', 2, session('Fix login'))).toBe('(2) Needs you · Fix login · Trunkline');
  expect(tabTitle('/s/s1', 0, session(null))).toBe('Make the tests pass. All. · Trunkline');
  // A session that the page does not know yet has no name.
  expect(tabTitle('/s/s1', 1, undefined)).toBe('(1) Needs you · Trunkline');
});

test('pages without a session have their own name, the list none', () => {
  expect(['/', '/needs', '/usage', '/settings/keys', '/constructor'].map((path) => tabTitle(path, 0, undefined)))
    .toEqual(['Trunkline', 'Trunkline', 'Usage · Trunkline', 'Settings · Trunkline', 'Trunkline']);
  expect(tabTitle('/', 3, undefined)).toBe('(3) Needs you · Trunkline');
});

test('a long title is cut, and a hidden character in it is spelled out', () => {
  expect([...tabTitle('/s/s1', 0, session('x'.repeat(500)))]).toHaveLength(80 + ' · Trunkline'.length);
  expect(tabTitle('/s/s1', 0, session('a\u202eb'))).toContain('U+202E');
});
