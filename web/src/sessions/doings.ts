// Owns which actions the sessions that are meant offer, with their words and keys: for keys, the menu of a row, and many rows.
import type { useNavigate } from '@solidjs/router';
import { lobby } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import type { SessionSummary } from '../daemon/types';
import type { Binding } from '../parts/keys';
import { toast } from '../parts/toasts';
import { fork, keepWaiting, leaveIt, markRead, markUnread, park, remove, resume, setAsking, stop, takeUp } from './actions';

/** Something that can be done with sessions. */
export interface Doing { word: string; keys: string; isDanger?: boolean; forMany: boolean; suits: (one: SessionSummary) => boolean; run: (ids: string[]) => void | Promise<unknown> }

const RESTS = new Set(['stopped', 'failed', 'parked']);

/** All actions, in the order of the menu. */
export function doings(navigate: ReturnType<typeof useNavigate>): Doing[] {
  const forkAndOpen = async (id: string | undefined) => {
    const made = id === undefined ? undefined : await fork(id);
    if (made !== undefined) navigate(`/s/${made}`);
  };
  const all: Doing[] = [
    { word: 'Mark as read', keys: 'u', forMany: true, suits: (one) => one.unread, run: (ids) => markRead(ids) },
    { word: 'Mark as unread', keys: 'u', forMany: true, suits: (one) => !one.unread && one.turns > 0, run: (ids) => markUnread(ids) },
    { word: 'Rename', keys: 'r', forMany: false, suits: () => true, run: (ids) => { setAsking({ kind: 'rename', ids }); } },
    { word: 'Tag', keys: 'l', forMany: true, suits: () => true, run: (ids) => { setAsking({ kind: 'tag', ids }); } },
    { word: 'Snooze', keys: 'z', forMany: true, suits: (one) => one.attention != null, run: (ids) => { setAsking({ kind: 'snooze', ids }); } },
    { word: 'Leave it', keys: 'Z', forMany: true, suits: (one) => one.attention != null && one.attention.rank >= 3 && one.attention.reason !== 'silent', run: (ids) => leaveIt(ids) },
    { word: 'Keep waiting', keys: 'Z', forMany: true, suits: (one) => one.attention?.reason === 'silent', run: (ids) => keepWaiting(ids) },
    { word: 'Take up again', keys: 'U', forMany: true, suits: (one) => one.put_off != null, run: (ids) => takeUp(ids) },
    { word: 'Park', keys: 'p', forMany: true, suits: (one) => one.state === 'idle', run: (ids) => park(ids) },
    { word: 'Resume', keys: 'R', forMany: true, suits: (one) => RESTS.has(one.state), run: (ids) => resume(ids) },
    { word: 'Start afresh', keys: '', forMany: false, suits: (one) => one.state === 'failed', run: (ids) => resume(ids, true) },
    { word: 'Fork', keys: 'F', forMany: false, suits: (one) => one.turns > 0, run: ([id]) => forkAndOpen(id) },
    { word: 'Stop', keys: 'Shift S', forMany: true, suits: (one) => one.state !== 'stopped' && one.state !== 'stopping', run: (ids) => stop(ids) },
    { word: 'Delete', keys: '#', forMany: true, isDanger: true, suits: () => true, run: remove },
  ];
  return canAct() ? all : [];
}

/** The word of the key of an action: those that share a key share the binding. */
export const keyWordOf = (all: readonly Doing[], keys: string): string => all.filter((one) => one.keys === keys).map((one) => one.word).join(' / ');

const suitedBy = (doing: Doing, ids: readonly string[]): string[] => ids.filter((id) => { const one = lobby.byId[id]; return one !== undefined && doing.suits(one); });

/** The keys of actions. The first of two with one key that suits is done: an unread one becomes read, and the other way. */
export function bindingsOf(all: readonly Doing[], meant: () => string[]): Binding[] {
  const byKey = new Map<string, Doing[]>();
  for (const one of all) if (one.keys !== '') byKey.set(one.keys, [...byKey.get(one.keys) ?? [], one]);
  return [...byKey].map(([keys, doings]) => ({
    keys, word: keyWordOf(all, keys),
    run: () => {
      const doing = doings.find((one) => suitedBy(one, meant()).length > 0) ?? doings[0];
      if (doing !== undefined) void doWith(doing, meant());
    },
  }));
}

/** Does it with those that it suits; says so when it suits none. */
export async function doWith(doing: Doing, ids: readonly string[]): Promise<void> {
  const suited = suitedBy(doing, ids);
  if (suited.length > 0) await doing.run(doing.forMany ? suited : suited.slice(0, 1));
  else if (ids.length > 0) toast(`${doing.word}: not possible in this state`);
}
