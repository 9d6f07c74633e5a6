// Owns what a person does to a session from the page: each act is one request, and a refusal is said in a message.
import { toast } from '../shell/toasts';
import { rest, said } from './daemon';
import type { Session } from './types';

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

const of = (id: string) => ({ params: { path: { id } } });

/** Interrupts the turn. What is queued stays. */
export const interrupt = (id: string) => attempt(rest.POST('/v1/sessions/{id}/interrupt', of(id)));
/** Ends the process. */
export const stop = (id: string) => attempt(rest.POST('/v1/sessions/{id}/stop', of(id)));
/** Ends the process of a session that does nothing; the next message starts it. */
export const park = (id: string) => attempt(rest.POST('/v1/sessions/{id}/park', of(id)));
/** Starts a process, with the same conversation, or `fresh` with a new one. */
export const resume = (id: string, fresh = false): Promise<Session | undefined> =>
  attempt(rest.POST('/v1/sessions/{id}/resume', { ...of(id), body: fresh ? { fresh } : {} }));
/** Makes a copy, up to a message if one is named. */
export const fork = (id: string, at?: string): Promise<Session | undefined> =>
  attempt(rest.POST('/v1/sessions/{id}/fork', { ...of(id), body: at === undefined ? {} : { at } }));
/** Gives it another name; an empty one takes the name away. */
export const rename = (id: string, title: string) =>
  attempt(rest.PATCH('/v1/sessions/{id}', { ...of(id), body: { title: title.trim() === '' ? null : title.trim() } }));
/** Puts off what it needs, as long as the reasons of now hold. */
export const leaveIt = (id: string) => attempt(rest.PUT('/v1/sessions/{id}/put_off', { ...of(id), body: { how: 'left' } }));
