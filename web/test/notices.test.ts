import { expect, test } from 'vitest';
import type { SessionSummary } from '../src/daemon/types';
import { due, isOver, isQuiet, isSeenAt, itemsOf, type Item } from '../src/notices/rules';

const session = (id: string, attention: object | null, approvals: object[] = [], more: object = {}): SessionSummary =>
  ({ id, title: id, cwd: '/x', first_prompt: null, attention, pending_approvals: approvals, unread: false, turns: 1, updated_at: '2026-01-01T00:00:00Z', ...more }) as unknown as SessionSummary;
const approval = (id: string, kind = 'tool') => ({ id, kind, tool_name: 'Bash', subject: 'Bash', requested_at: '2026-01-01T00:00:00Z' });
const at = Date.parse('2026-01-01T00:00:10Z');
const decision = { reason: 'decision', rank: 2, since: '2026-01-01T00:00:00Z', deadline: null };
const nobody = () => false;
const isAt = (address: string) => (item: Item) => isSeenAt(item, address);
const keys = (items: Item[]) => items.map((item) => item.key);
const shown = (items: Item[], told: string[] = [], now = at, seen: (item: Item) => boolean = nobody) => keys(due(items, new Set(told), [], now, seen).show);

test('each approval is told once, and its notice is over when it is decided', () => {
  const both = itemsOf([session('a', decision, [approval('1'), approval('2')])]);
  expect(shown(both)).toEqual(['approval 1', 'approval 2']);
  expect(shown(both, ['approval 1', 'approval 2'])).toEqual([]);
  const one = itemsOf([session('a', decision, [approval('2')])]);
  expect([isOver(['approval 1'], one, nobody), isOver(['approval 2'], one, nobody), isOver(['approval 1', 'approval 2'], one, nobody)]).toEqual([true, false, false]);
});

test('nothing is told of what a person looks at, and its notice is over', () => {
  const items = itemsOf([session('aa', decision, [approval('1')]), session('bb', { reason: 'failed', rank: 3, since: '2026-01-01T00:00:00Z' })]);
  expect(shown(items, [], at, isAt('/s/aa/changes'))).toEqual(['bb failed 2026-01-01T00:00:00Z']);
  expect(due(items, new Set(), [], at, isAt('/s/aa')).seen).toEqual(['approval 1']);
  expect(isOver(['approval 1'], items, isAt('/s/aa'))).toBe(true);
  // The page of decisions shows all decisions, and no failure.
  expect(shown(items, [], at, isAt('/needs/1'))).toEqual(['bb failed 2026-01-01T00:00:00Z']);
  expect(shown(items, [], at, isAt('/needless'))).toHaveLength(2);
});

test('silence is told after two minutes', () => {
  const silent = itemsOf([session('a', { reason: 'silent', rank: 4, since: '2026-01-01T00:00:00Z' })]);
  expect([shown(silent), shown(silent, [], at + 120_000).length]).toEqual([[], 1]);
});

test('a turn that ended is told until somebody has read it, and never for longer', () => {
  const unread = itemsOf([session('a', null, [], { unread: true, turns: 3 })]);
  expect(keys(unread)).toEqual(['done a 3']);
  expect(isOver(['done a 3'], unread, nobody)).toBe(false);
  expect(isOver(['done a 3'], itemsOf([session('a', null, [], { turns: 3 })]), nobody)).toBe(true);
  expect(isOver(['done a 3'], itemsOf([session('a', null, [], { unread: true, turns: 4 })]), nobody)).toBe(true);
});

test('more than three within ten seconds are one notice', () => {
  const items = itemsOf([session('a', decision, ['1', '2', '3', '4'].map((id) => approval(id)))]);
  const told = (n: number, ago: number) => keys(items).slice(0, n).map((key) => ({ key, at: at - ago }));
  const together = (n: number, ago: number) => due(items, new Set(keys(items).slice(0, n)), told(n, ago), at, nobody).together;
  expect(together(0, 0)).toEqual(keys(items));
  expect(together(3, 9_000)).toEqual(keys(items));
  expect(together(3, 11_000)).toBeNull();
  expect(due(items.slice(1), new Set(), [], at, nobody).together).toBeNull();
  // One that was decided meanwhile counts no more.
  expect(due(items.slice(1), new Set(keys(items).slice(1, 3)), told(3, 1_000), at, nobody).together).toBeNull();
});

test('a call can be denied in its notice, a question only be opened', () => {
  const items = itemsOf([session('a', decision, [approval('1'), approval('2', 'question')])]);
  expect(items.map(({ canDeny, address }) => [canDeny, address])).toEqual([[true, '/needs/1'], [false, '/needs/2']]);
});

test('quiet hours may go over midnight', () => {
  expect([21, 22, 3, 7].map((hour) => isQuiet(hour, [22, 7]))).toEqual([false, true, true, false]);
  expect([8, 9, 17].map((hour) => isQuiet(hour, [9, 17]))).toEqual([false, true, false]);
  expect(isQuiet(3, null)).toBe(false);
});
