import { createRoot } from 'solid-js';
import { createStore } from 'solid-js/store';
import { beforeEach, expect, test, vi } from 'vitest';

const { base } = vi.hoisted(() => ({ base: new Map<string, unknown>() }));
vi.mock('idb-keyval', () => ({
  get: (key: string) => Promise.resolve(base.get(key)), set: (key: string, value: unknown) => { base.set(key, value); return Promise.resolve(); },
  del: (key: string) => { base.delete(key); return Promise.resolve(); }, keys: () => Promise.resolve([...base.keys()]), clear: () => { base.clear(); return Promise.resolve(); },
  update: (key: string, next: (old: unknown) => unknown) => { base.set(key, next(base.get(key))); return Promise.resolve(); },
}));
const { posts, live } = vi.hoisted(() => ({ posts: [] as string[], live: { is: true } }));
vi.mock('../src/daemon/link', () => ({ isLive: () => live.is, ride: () => () => undefined }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error), code: 'x', mayHaveHadEffect: false }),
  rest: { POST: (_: string, { body }: { body: { text: string } }) => { posts.push(body.text); return Promise.resolve({}); }, GET: () => Promise.resolve({ items: [] }) },
}));

import { emptyDraft, type Draft } from '../src/composer/content';
import { openDraft } from '../src/composer/draft';
import { createEditing } from '../src/composer/editing';
import { isUnsentIn, openOutboxes, outgoing, post } from '../src/composer/outbox';
import type { QueuedPrompt } from '../src/daemon/types';
import { signOutHere } from '../src/settings/sign-out';

const queued = { uuid: 'q', held: false, content: 'the queued one', text: 'the queued one' } as unknown as QueuedPrompt;
const settled = () => new Promise((resolve) => { setTimeout(resolve, 0); });

/** A box with the draft `mine` and a queue that answers a change so. */
function box(answer: 'done' | 'gone' | 'refused', first = 'mine') {
  const [draft, setDraft] = createStore<Draft>({ ...emptyDraft(), text: first });
  const holds: boolean[] = [];
  const made = createRoot((leave) => ({
    leave,
    ...createEditing('s', { draft, change: setDraft }, { hold: (_, held) => { holds.push(held); return Promise.resolve('done'); }, change: () => Promise.resolve(answer) }),
  }));
  return { ...made, draft, holds, write: (text: string) => setDraft({ text }) };
}

beforeEach(() => { base.clear(); posts.length = 0; live.is = true; });

test('who goes to another session in an edit finds the draft of before, and the message waits no longer', async () => {
  const one = box('done');
  one.begin(queued);
  expect(one.draft.text).toBe('the queued one');
  one.write('half changed');
  one.leave();
  await settled();
  expect([one.draft.text, one.holds, base.get('edit/s')]).toEqual(['mine', [true, false], undefined]);
  // The words are not lost: Up in an empty box finds them.
  expect(base.get('history')).toEqual(['half changed']);
});

test('an edit that a reload cut off goes on, and its end brings the draft of before', async () => {
  const cut = box('done');
  cut.begin(queued);
  await settled();
  const after = box('done', 'half changed');
  await settled();
  expect(after.editing()?.uuid).toBe('q');
  await after.save();
  expect([after.draft.text, after.holds, after.editing()]).toEqual(['mine', [false], null]);
});

test('a message that the agent has already leaves both texts, and another refusal leaves the edit', async () => {
  const gone = box('gone');
  gone.begin(queued);
  gone.write('changed');
  await gone.save();
  expect([gone.draft.text, gone.editing()]).toEqual(['mine\n\nchanged', null]);
  const refused = box('refused');
  refused.begin(queued);
  refused.write('changed');
  await refused.save();
  expect([refused.draft.text, refused.editing()?.before.text]).toEqual(['changed', 'mine']);
});

test('what an earlier page did not send is sent from any page, and its row says so until then', async () => {
  base.set('outbox/far', [{ uuid: 'u', draft: { ...emptyDraft(), text: 'left behind' }, way: 'send', state: 'sending' }]);
  live.is = false;
  await openOutboxes();
  await settled();
  expect([isUnsentIn('far'), isUnsentIn('other'), posts]).toEqual([true, false, []]);
  live.is = true;
  post('far', { ...emptyDraft(), text: 'and one more' }, 'send');
  await settled();
  await settled();
  expect([posts, isUnsentIn('far'), base.get('outbox/far')]).toEqual([['left behind', 'and one more'], false, undefined]);
});

test('signing out forgets drafts, messages and what was sent', async () => {
  live.is = false;
  vi.stubGlobal('fetch', () => Promise.resolve(new Response()));
  openDraft('d').change({ text: 'a secret' });
  post('d', { ...emptyDraft(), text: 'another' }, 'send');
  base.set('history', ['a third']);
  localStorage.setItem('trunkline.answer.a', '{}');
  await signOutHere();
  await new Promise((resolve) => { setTimeout(resolve, 300); });
  expect([[...base.keys()], openDraft('d').draft.text, outgoing('d'), localStorage.getItem('trunkline.answer.a')]).toEqual([[], '', [], null]);
  vi.unstubAllGlobals();
});
