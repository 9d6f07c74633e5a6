// Owns what a person does to a session from the page: each act is one request, which buttons show while it is under way, and a
// refusal is said in a message.
import { createSignal } from 'solid-js';
import { titleOf } from './words';
import { toast } from '../parts/toasts';
import { rest, said } from '../daemon/daemon';
import { lobby } from './lobby';
import type { Session } from '../daemon/types';

/** The agent CLI takes a while to make a copy; its words go when it is made. */
const LONGEST_FORK_MS = 120_000;

/** Does it. `undefined`: the daemon refused, and the person has been told. */
export async function attempt<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    const { text, mayHaveHadEffect } = said(error);
    toast(mayHaveHadEffect ? `${text} It may have been done all the same.` : text, { isProblem: true });
    return undefined;
  }
}

/** Acts that take a while, with the words that buttons have meanwhile. */
export const BUSY_WORDS = { interrupt: 'Interrupting…', stop: 'Stopping…', park: 'Parking…', resume: 'Resuming…', fork: 'Making a copy…' } as const;
type SlowAct = keyof typeof BUSY_WORDS;

const [goingOn, setGoingOn] = createSignal<readonly string[]>([]);

/** Whether an act of a session is under way, wherever on the page it was begun. */
export const isDoing = (act: SlowAct, id: string): boolean => goingOn().includes(`${act} ${id}`);

function during<T>(act: SlowAct, id: string, work: Promise<T>): Promise<T> {
  const one = `${act} ${id}`;
  setGoingOn((all) => [...all, one]);
  return work.finally(() => setGoingOn((all) => all.toSpliced(all.indexOf(one), 1)));
}

/** The forks that are being made, each once: a second press gets the copy of the first. */
const underWay = new Map<string, Promise<Session>>();

/** Makes a copy, and says so while the agent CLI makes it. */
function makeFork(id: string, at?: string): Promise<Session> {
  const place = `${id} ${at ?? ''}`;
  const known = underWay.get(place);
  if (known !== undefined) return known;
  const from = lobby.byId[id];
  const name = from === undefined ? null : titleOf(from);
  const away = toast(name === null ? 'Making a copy…' : `Making a copy of “${name}”…`, { ms: LONGEST_FORK_MS });
  const body = { ...(at === undefined ? {} : { at }), ...(name === null ? {} : { title: `Fork of ${name}`.slice(0, 1_024) }) };
  const made = during('fork', id, rest.POST('/v1/sessions/{id}/fork', { ...of(id), body })).finally(() => { underWay.delete(place); away(); });
  underWay.set(place, made);
  return made;
}

const of = (id: string) => ({ params: { path: { id } } });

/** The requests themselves: each throws what the daemon says. */
export const requests = {
  interrupt: (id: string) => during('interrupt', id, rest.POST('/v1/sessions/{id}/interrupt', of(id))),
  stop: (id: string) => during('stop', id, rest.POST('/v1/sessions/{id}/stop', of(id))),
  park: (id: string) => during('park', id, rest.POST('/v1/sessions/{id}/park', of(id))),
  resume: (id: string, fresh = false): Promise<Session> => during('resume', id, rest.POST('/v1/sessions/{id}/resume', { ...of(id), body: fresh ? { fresh } : {} })),
  fork: makeFork,
  rename: (id: string, title: string) => rest.PATCH('/v1/sessions/{id}', { ...of(id), body: { title: title.trim() || null } }),
  leaveIt: (id: string) => rest.PUT('/v1/sessions/{id}/put_off', { ...of(id), body: { how: 'left' } }),
};

/** Interrupts the turn. Queued messages stay. */
export const interrupt = (id: string) => attempt(requests.interrupt(id));
/** Ends the process. */
export const stop = (id: string) => attempt(requests.stop(id));
/** Ends the process of a session that does nothing; the next message starts it. */
export const park = (id: string) => attempt(requests.park(id));
/** Starts a process, with the same conversation, or `fresh` with a new one. */
export const resume = (id: string, fresh = false) => attempt(requests.resume(id, fresh));
/** Makes a copy, up to a message if one is named. */
export const fork = (id: string, at?: string) => attempt(requests.fork(id, at));
/** Gives it another name; an empty one takes the name away. */
export const rename = (id: string, title: string) => attempt(requests.rename(id, title));
/** Puts off the reasons for which it needs a person, as long as those of now hold. */
export const leaveIt = (id: string) => attempt(requests.leaveIt(id));
