// Owns what a row says: title, reason, step, time.
import type { SessionSummary } from '../daemon/types';

/** A directory as people write it: the home directory is `~`. */
export const place = (cwd: string): string => cwd.replace(/^(?:\/home|\/Users)\/[^/]+(?=\/|$)/, '~').replace(/^\/root(?=\/|$)/, '~');

/** The last part of a directory. */
export const lastPart = (cwd: string): string => cwd.replace(/\/+$/, '').split('/').at(-1) || '/';

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();

/** The title, else the start of the last prompt, else the directory. */
export const titleOf = (session: SessionSummary): string =>
  oneLine(session.title ?? '') || oneLine(session.last_prompt ?? '') || lastPart(session.cwd);
