// Owns what a person can do with sessions of the list, one or many: each says what came of it.
import { createSignal } from 'solid-js';
import { requests } from '../lobby/acts';
import { rest, said } from '../daemon/daemon';
import { lobby } from '../lobby/lobby';
import { many } from '../parts/time';
import { toast } from '../parts/toasts';
import { titleOf } from '../lobby/words';

/** A dialog's question about sessions. */
export interface Asking { kind: 'rename' | 'tag' | 'snooze'; ids: string[] }

const [asking, setAsking] = createSignal<Asking | null>(null);
const [deleting, setDeleting] = createSignal<ReadonlySet<string>>(new Set());

export { asking, setAsking, deleting };

/** So long a deletion waits for its undoing. */
const UNDO_MS = 10_000;

const path = (id: string) => ({ params: { path: { id } } });
const nameOf = (ids: string[]): string => {
  const one = ids.length === 1 ? lobby.byId[ids[0] ?? ''] : undefined;
  return one === undefined ? many(ids.length, 'session') : titleOf(one);
};

/** Does one thing with each session, a few at a time; says what was done, and each thing that was not. */
async function each(ids: string[], done: string, work: (id: string) => Promise<unknown>): Promise<boolean> {
  const problems: string[] = [];
  const waiting = [...ids];
  const worker = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        await work(id);
      } catch (error) {
        problems.push(`${nameOf([id])}: ${said(error).text}`);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(4, ids.length) }, worker));
  if (problems.length < ids.length && done !== '') toast(`${done}: ${ids.length === 1 ? nameOf(ids) : many(ids.length - problems.length, 'session')}`);
  for (const problem of problems.slice(0, 3)) toast(problem, { isProblem: true });
  if (problems.length > 3) toast(`${many(problems.length - 3, 'other problem')}`, { isProblem: true });
  return problems.length === 0;
}

/** Ends the processes of sessions that do nothing. A message wakes them. */
export const park = (ids: string[]) => each(ids, 'Parked', requests.park);

/** Ends the processes of sessions. */
export const stop = (ids: string[]) => each(ids, 'Stopped', requests.stop);

/** Starts a session's process again; `fresh` begins a new conversation. */
export const resume = (ids: string[], fresh = false) => each(ids, 'Resumed', (id) => requests.resume(id, fresh));

/** Gives sessions a name, or takes it away. */
export const rename = (ids: string[], title: string) => each(ids, '', (id) => requests.rename(id, title));

/** Puts sessions into a group, or out of theirs. */
export const tag = (ids: string[], name: string) =>
  each(ids, '', (id) => rest.PATCH('/v1/sessions/{id}', { ...path(id), body: { tag: name.trim() || null } }));

/** Leaves what sessions need as it is, for as long as the reasons hold. */
export const leaveIt = (ids: string[]) => each(ids, 'Left as it is', requests.leaveIt);

/** The same for what clears by itself: the person is told again when there is another reason. */
export const keepWaiting = (ids: string[]) => each(ids, 'You are told when there is more', requests.leaveIt);

/** Puts off what sessions need. Decisions stay counted, as muted. */
export const snooze = (ids: string[], until: Date) =>
  each(ids, 'Snoozed', (id) => rest.PUT('/v1/sessions/{id}/put_off', { ...path(id), body: { how: 'snoozed', until: until.toISOString() } }));

/** Takes up again what was put off. */
export const takeUp = (ids: string[]) => each(ids, 'Taken up again', (id) => rest.DELETE('/v1/sessions/{id}/put_off', path(id)));

/** Marks sessions as unread: the end of the last turn is to read again. */
export const markUnread = (ids: string[]) => each(ids, '', (id) => rest.DELETE('/v1/sessions/{id}/seen', path(id)));

/** Marks sessions as read, up to their last record. */
export const markRead = (ids: string[]) => each(ids, '', (id) => {
  const head = lobby.byId[id]?.head_seq ?? 0;
  return rest.PUT('/v1/sessions/{id}/seen', { ...path(id), body: { seq: head } });
});

/** A new session that begins as a copy; answers its id. */
export async function fork(id: string): Promise<string | undefined> {
  try {
    return (await requests.fork(id)).id;
  } catch (error) {
    toast(`${nameOf([id])} was not forked: ${said(error).text}`, { isProblem: true });
    return undefined;
  }
}

/** Deletes sessions, in 10 s: until then they are only out of sight, and a page that closes has deleted nothing. */
export function remove(ids: string[]): void {
  const name = nameOf(ids);
  const back = () => setDeleting((all) => new Set([...all].filter((id) => !ids.includes(id))));
  setDeleting((all) => new Set([...all, ...ids]));
  const timer = setTimeout(() => {
    void each(ids, '', (id) => rest.DELETE('/v1/sessions/{id}', path(id))).finally(back);
  }, UNDO_MS);
  toast(`Deleted: ${name}`, { ms: UNDO_MS, act: { word: 'Undo (10 s)', run: () => { clearTimeout(timer); back(); } } });
}
