import { expect, test, vi } from 'vitest';

vi.mock('../src/lobby/lobby', () => ({ lobby: { byId: { read: { unread: false, turns: 1 }, unread: { unread: true, turns: 1 } } }, sessions: () => [] }));
vi.mock('../src/sessions/actions', async (whole) => ({ ...await whole<object>(), markRead: vi.fn(), markUnread: vi.fn() }));

const { markRead, markUnread } = await import('../src/sessions/actions');
const { bindingsOf, doings, keyWordOf } = await import('../src/sessions/doings');
const { changeKey, hintOf, titleWith, useLetters } = await import('../src/parts/keys');

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

test('hints beside buttons show the person\'s own keys, and no key that does nothing', () => {
  const all = doings(vi.fn());
  const hint = (word: string) => { const one = all.find((doing) => doing.word === word)!; return hintOf(keyWordOf(all, one.keys), one.keys); };
  expect([hint('Mark as read'), hint('Delete'), hintOf('Palette', 'Ctrl k'), titleWith('Interrupt', 'Interrupt', 'Escape')]).toEqual(['u', '#', 'Ctrl K', 'Interrupt (Esc)']);
  // The settings and the sheet change the key by the word of its binding.
  const binding = bindingsOf(all, () => []).find((one) => one.keys === 'u')!;
  changeKey(binding.word, 'Alt u');
  expect([hint('Mark as read'), hint('Mark as unread')]).toEqual(['Alt U', 'Alt U']);
  changeKey('Model', '');
  expect(titleWith('Model', 'Model', 'M')).toBe('Model');
  useLetters(false);
  expect([hint('Mark as read'), hint('Delete'), hintOf('Sessions', 'g s'), hintOf('Stop', 'Shift S'), hintOf('Palette', 'Ctrl k')]).toEqual(['Alt U', '', '', '', 'Ctrl K']);
  useLetters(true);
  changeKey(binding.word, null);
  changeKey('Model', null);
  expect(hint('Mark as read')).toBe('u');
});
