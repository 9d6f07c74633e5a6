import { createRoot, createEffect } from 'solid-js';
import { beforeEach, expect, test, vi } from 'vitest';
import type { Frame, Rider } from '../src/daemon/link';
import type { SessionSummary } from '../src/daemon/types';

let rider: Rider;
vi.mock('../src/daemon/link', () => ({
  ride: (one: Rider) => { rider = one; return () => undefined; }, isLive: () => true, connection: () => ({ kind: 'live', since: 0 }), send: () => true,
}));
const { lobby, sessions, watchLobby } = await import('../src/lobby/lobby');

const AT = new Date(Date.UTC(2026, 0, 1)).toISOString();
const session = (id: string, more: Partial<SessionSummary> = {}): SessionSummary => ({
  id, labels: {}, cwd: '/home/me/shop', state: 'idle', unread: false, seen_seq: 1, is_silent: false, simulated: true, parent_deleted: false, turns: 1, cost_usd: 0,
  turns_with_unknown_cost: 0, pending_approvals: [], waiting_approvals: 0, queued_prompts: 0, head_seq: 9, created_at: AT, updated_at: AT, ...more,
});
const snapshot = (all: SessionSummary[]): Frame => ({ type: 'trunkline.lobby', event_id: 'e0', build: 'b', total: all.length, sessions: all });
/** Has the list hear a frame. */
const hear = (frame: Frame) => rider.frame(frame, 0);
const news = (change: string, id: string, now?: SessionSummary): Frame => ({ type: 'trunkline.session', event_id: 'e1', change, session_id: id, session: now });

beforeEach(() => {
  watchLobby();
  hear(snapshot(Array.from({ length: 1_000 }, (_, n) => session(String(n)))));
});

test('a change of one session is told to those who look at it, and those who look at another hear nothing', () => {
  const heard: string[] = [];
  const dispose = createRoot((end) => {
    createEffect(() => { heard.push(`one ${lobby.byId['1']?.state}`); });
    createEffect(() => { heard.push(`other ${lobby.byId['2']?.state}`); });
    return end;
  });
  hear(news('changed', '1', session('1', { state: 'busy' })));
  dispose();
  expect(heard).toEqual(['one idle', 'other idle', 'one busy']);
});

test('a session that ends its turn is another one than before, so that a notice can compare the two', () => {
  const before = sessions();
  hear(news('changed', '1', session('1', { unread: true })));
  expect([before[1]?.unread, sessions()[1]?.unread]).toEqual([false, true]);
});

test('sessions are made and deleted, and are counted once', () => {
  hear(news('made', 'new', session('new')));
  hear(news('made', 'new', session('new')));
  expect([lobby.total, sessions().length, lobby.byId.new?.id]).toEqual([1_001, 1_001, 'new']);
  for (const id of ['new', '1', '1']) hear(news('deleted', id));
  expect([lobby.total, sessions().length, lobby.byId['1']]).toEqual([999, 999, undefined]);
});

test('no session has a name that every object has', () => {
  for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) expect(lobby.byId[name]).toBe(undefined);
});
