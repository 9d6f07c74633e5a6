// Owns messages on their way: each is kept in the browser's database until the daemon says that it has it. Its id makes sure
// that it is said once, however often it is sent.
import { del, get, keys, set } from 'idb-keyval';
import { createEffect, createRoot, on } from 'solid-js';
import { createStore, reconcile, unwrap } from 'solid-js/store';
import { newUuid } from 'trunkline-client';
import { rest, said } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { bodyOf, type Draft } from './content';

/** How a message goes: in its turn, at once in the middle of a turn, after the turn, or with a start of the process first. */
export type Way = 'send' | 'now' | 'queue' | 'resume';

/** A message on its way. */
export interface Outgoing {
  uuid: string;
  draft: Draft;
  way: Way;
  /** `waiting`: there is no connection. `failed`: the daemon did not take it. */
  state: 'waiting' | 'sending' | 'failed';
  /** Why it was not taken, in words. */
  problem?: string;
}

/** A daemon that does not answer is tried again after this time, and at once when the connection is back. */
const TRY_AGAIN_MS = 5_000;

const [boxes, setBoxes] = createStore<Record<string, Outgoing[]>>({});
const read = new Set<string>();

/** The messages of a session that are on their way, first one first. */
export const outgoing = (sessionId: string): Outgoing[] => boxes[sessionId] ?? [];

const PLACE = 'outbox/';
const keyOf = (sessionId: string): string => `${PLACE}${sessionId}`;

function keep(sessionId: string): void {
  const all = outgoing(sessionId).map((one) => structuredClone(unwrap(one)));
  (all.length === 0 ? del(keyOf(sessionId)) : set(keyOf(sessionId), all)).catch(() => undefined);
}

const change = (sessionId: string, next: (all: Outgoing[]) => Outgoing[]): void => {
  setBoxes(sessionId, next(outgoing(sessionId)));
  keep(sessionId);
};

const alter = (sessionId: string, uuid: string, part: Partial<Outgoing>): void =>
  change(sessionId, (all) => all.map((one) => (one.uuid === uuid ? { ...one, ...part } : one)));

/** Reads what an earlier page left, and sends it: nobody knows whether it arrived, and its id keeps it from running twice. */
export async function openOutbox(sessionId: string): Promise<void> {
  if (read.has(sessionId)) return;
  read.add(sessionId);
  const kept = await get<Outgoing[]>(keyOf(sessionId)).catch(() => undefined);
  if (kept === undefined) return;
  const known = new Set(outgoing(sessionId).map((one) => one.uuid));
  const left = kept.filter((one) => !known.has(one.uuid)).map((one): Outgoing => (one.state === 'failed' ? one : { ...one, state: 'waiting' }));
  change(sessionId, (all) => [...left, ...all]);
  void flush(sessionId);
}

/** Reads what an earlier page left in all sessions, and sends it. */
export async function openOutboxes(): Promise<void> {
  for (const key of await keys<string>().catch(() => [])) if (key.startsWith(PLACE)) void openOutbox(key.slice(PLACE.length));
}

/** Whether something of a session was not sent, and is not about to be. */
export const isUnsentIn = (sessionId: string): boolean => outgoing(sessionId).some((one) => one.state === 'failed' || (one.state === 'waiting' && !isLive()));

/** Forgets all messages. */
export function forgetOutboxes(): void {
  setBoxes(reconcile({}));
}

/** Sends a message. It is in the outbox until the daemon has it. Returns its id. */
export function post(sessionId: string, draft: Draft, way: Way): string {
  const made: Outgoing = { uuid: newUuid(), draft: structuredClone(unwrap(draft)), way, state: 'waiting' };
  change(sessionId, (all) => [...all, made]);
  void flush(sessionId);
  return made.uuid;
}

/** Sends a message again that was not taken. */
export function postAgain(sessionId: string, uuid: string): void {
  alter(sessionId, uuid, { state: 'waiting' });
  void flush(sessionId);
}

/** Takes a message out of the outbox. */
export function drop(sessionId: string, uuid: string): void {
  change(sessionId, (all) => all.filter((one) => one.uuid !== uuid));
}

const busy = new Set<string>();

/** Sends what waits, in order. A message that fails does not hold up those behind it. */
async function flush(sessionId: string): Promise<void> {
  if (busy.has(sessionId)) return;
  busy.add(sessionId);
  try {
    for (;;) {
      const next = outgoing(sessionId).find((one) => one.state === 'waiting');
      if (next === undefined || !isLive()) return;
      alter(sessionId, next.uuid, { state: 'sending' });
      try {
        await give(sessionId, next);
        drop(sessionId, next.uuid);
      } catch (error) {
        const { text, code } = said(error);
        if (code === 'unreachable') {
          alter(sessionId, next.uuid, { state: 'waiting' });
          setTimeout(() => void flush(sessionId), TRY_AGAIN_MS);
          return;
        }
        alter(sessionId, next.uuid, { state: 'failed', problem: text });
      }
    }
  } finally {
    busy.delete(sessionId);
  }
}

async function give(sessionId: string, message: Outgoing): Promise<void> {
  const params = { path: { id: sessionId } };
  const body = { ...bodyOf(message.draft), uuid: message.uuid };
  if (message.way === 'queue') {
    await rest.POST('/v1/sessions/{id}/prompts', { params, body });
    return;
  }
  if (message.way === 'resume') await resume(sessionId);
  await rest.POST('/v1/sessions/{id}/messages', { params, body: message.way === 'now' ? { ...body, priority: 'now' } : body });
}

/** Starts the process. Somebody else may have been first, which is as good. */
async function resume(sessionId: string): Promise<void> {
  try {
    await rest.POST('/v1/sessions/{id}/resume', { params: { path: { id: sessionId } } });
  } catch (error) {
    if (said(error).code !== 'session_already_live') throw error;
  }
}

createRoot(() => createEffect(on(isLive, (live) => {
  if (live) for (const sessionId of Object.keys(boxes)) void flush(sessionId);
})));
