// Owns who this login is, and what it may do. A viewer's login only watches: it sees no button that acts.
import { createSignal } from 'solid-js';
import { LOGIN_HEADER, loginKey } from './login';

/** A role, as the daemon names it. */
export type Role = 'operator' | 'viewer';

const [role, setRole] = createSignal<Role>('operator');

const [author, setAuthor] = createSignal('');

export { role };

/** Whether this login is the author `by` of a decision. */
export const isMine = (by: string): boolean => by !== '' && by === author();

/** Whether this login may do more than look. The daemon refuses what a viewer tries all the same. */
export const canAct = (): boolean => role() === 'operator';

const [isLearnt, setLearnt] = createSignal(false);

/** Whether this login may do more than look, and the daemon has said so: for what is asked unbidden and would be refused. */
export const mayAsk = (): boolean => isLearnt() && canAct();

/** Asks the daemon who this login is. A daemon that does not say leaves it as it was: it refuses by itself. */
export async function learnRole(): Promise<void> {
  const key = loginKey();
  if (key === null) return;
  try {
    const response = await fetch('/v1/logins/current', { headers: { [LOGIN_HEADER]: key }, credentials: 'same-origin' });
    if (!response.ok) return;
    const answer = await response.json() as { role?: unknown; author?: unknown };
    if (typeof answer.author === 'string') setAuthor(answer.author);
    if (answer.role === 'viewer' || answer.role === 'operator') setRole(answer.role);
    setLearnt(true);
  } catch { /* the page asks again with its next connection */ }
}
