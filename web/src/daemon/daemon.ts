// Owns the page's way to the daemon's routes: the generated client, with this login's key in every request.
import { Trunkline, TrunklineError, UnreachableError } from 'trunkline-client';
import { LOGIN_HEADER, forgetLogin, loginKey } from './login';

async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const held = loginKey();
  if (held !== null) headers.set(LOGIN_HEADER, held);
  const response = await fetch(input, { ...init, headers, credentials: 'same-origin' });
  // A login that was revoked, or has ended, is not tried again.
  if (response.status === 401 && held !== null && held === loginKey()) forgetLogin('ended');
  return response;
}

/** The daemon that serves this page. */
export const daemon = new Trunkline({ url: location.origin, fetch: send });

/** Every route, typed: `rest.GET('/v1/sessions/{id}', { params: { path: { id } } })`. Throws a `TrunklineError`. */
export const rest = daemon.rest;

/** A ticket for a socket or a file: browsers send no header of ours with one. */
export const ticket = async (path: string): Promise<string> => (await rest.POST('/v1/tickets', { body: { path } })).ticket;

/** An error in words: what happened, and whether it may have had an effect. The code is for "Details". */
export interface Said { text: string; code: string; mayHaveHadEffect: boolean }

/** A proxy says these of a daemon that is not there. */
const GATEWAY = new Set([502, 503, 504]);
const NO_ANSWER = 'The daemon does not answer.';
const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
const sentence = (text: string): string => (text === '' ? '' : `${text[0]?.toUpperCase()}${text.slice(1)}${/[.?!…]$/.test(text) ? '' : '.'}`);

/** The title of a problem and its detail as one text; a title that the detail says again is left out. */
export function problemWords(title: string | undefined, detail: string | undefined): string {
  const known = new Set(wordsOf(detail ?? ''));
  if (detail !== undefined && wordsOf(title ?? '').every((word) => known.has(word))) return sentence(detail);
  return [title, detail].filter(Boolean).map((text) => sentence(text ?? '')).join(' ');
}

/** Says an error in words for people. */
export function said(error: unknown): Said {
  if (error instanceof TrunklineError) {
    const { title, detail, type } = error.problem as { title?: string; detail?: string; type?: string };
    const words = type === 'about:blank' && GATEWAY.has(error.status) ? NO_ANSWER : problemWords(title, detail);
    const mayHaveHadEffect = (error.problem as { side_effect_possible?: boolean }).side_effect_possible === true;
    return { text: words || error.message, code: error.code, mayHaveHadEffect };
  }
  const text = error instanceof UnreachableError ? NO_ANSWER : error instanceof Error ? error.message : String(error);
  return { text, code: 'unreachable', mayHaveHadEffect: true };
}
