import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/daemon/types';
import { due, isQuiet, itemsOf } from '../src/notices/rules';

const session = (id: string, attention: object | null, approvals: object[] = []): SessionSummary =>
  ({ id, title: id, cwd: '/x', first_prompt: null, attention, pending_approvals: approvals }) as unknown as SessionSummary;
const approval = (id: string) => ({ id, kind: 'tool', tool_name: 'Bash', subject: 'ls', requested_at: '2026-01-01T00:00:00Z' });
const at = Date.parse('2026-01-01T00:00:10Z');
const decision = { reason: 'decision', rank: 2, since: '2026-01-01T00:00:00Z', deadline: null };

test('each approval is told once, and taken back when it is decided', () => {
  const both = itemsOf([session('a', decision, [approval('1'), approval('2')])]);
  const first = due(both, new Set(), at, null);
  expect(first.show.map((item) => item.key)).toEqual(['approval 1', 'approval 2']);
  const told = new Set(first.show.map((item) => item.key));
  expect(due(both, told, at, null).show).toEqual([]);
  const one = itemsOf([session('a', decision, [approval('2')])]);
  expect(due(one, told, at, null)).toEqual({ show: [], takeBack: ['approval 1'], together: false });
});

test('the session that a person looks at is not told, and silence only after two minutes', () => {
  const silent = itemsOf([session('a', { reason: 'silent', rank: 4, since: '2026-01-01T00:00:00Z' })]);
  expect(due(silent, new Set(), at, null).show).toEqual([]);
  expect(due(silent, new Set(), at + 120_000, null).show).toHaveLength(1);
  const failed = itemsOf([session('b', { reason: 'failed', rank: 3, since: '2026-01-01T00:00:00Z' })]);
  expect(due(failed, new Set(), at, 'b').show).toEqual([]);
  expect(due(failed, new Set(), at, null).show).toHaveLength(1);
});

test('more than three at once are one notice', () => {
  const items = itemsOf([session('a', decision, ['1', '2', '3', '4'].map(approval))]);
  expect(due(items, new Set(), at, null).together).toBe(true);
  expect(due(items.slice(1), new Set(), at, null).together).toBe(false);
});

test('quiet hours may go over midnight', () => {
  expect([21, 22, 3, 7].map((hour) => isQuiet(hour, [22, 7]))).toEqual([false, true, true, false]);
  expect([8, 9, 17].map((hour) => isQuiet(hour, [9, 17]))).toEqual([false, true, false]);
  expect(isQuiet(3, null)).toBe(false);
});
