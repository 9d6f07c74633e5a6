import { expect, test, vi } from 'vitest';

vi.mock('../src/lobby/lobby', () => ({ lobby: { byId: { read: { unread: false, turns: 1 }, unread: { unread: true, turns: 1 } } }, sessions: () => [] }));
vi.mock('../src/sessions/actions', async (whole) => ({ ...await whole<object>(), markRead: vi.fn(), markUnread: vi.fn() }));

const { markRead, markUnread } = await import('../src/sessions/actions');
const { bindingsOf, doings } = await import('../src/sessions/doings');

test('one key makes what is unread read, and the other way', () => {
  let meant = ['read'];
  const all = doings(vi.fn());
  const binding = bindingsOf(all, () => meant).find((one) => one.keys === 'u');
  expect(binding?.word).toBe('Mark as read / Mark as unread');
  binding?.run(new KeyboardEvent('keydown'));
  expect(markUnread).toHaveBeenCalledWith(['read']);
  meant = ['read', 'unread'];
  binding?.run(new KeyboardEvent('keydown'));
  expect(markRead).toHaveBeenCalledWith(['unread']);
});

test('no key is taken twice, and each action has a word', () => {
  const keys = bindingsOf(doings(vi.fn()), () => []).map((one) => one.keys);
  expect(new Set(keys).size).toBe(keys.length);
  expect(doings(vi.fn()).every((one) => one.word !== '')).toBe(true);
});
