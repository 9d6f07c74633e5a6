// Owns who this page is to the daemon. A login has two halves: a cookie that scripts cannot read, and a key in this page's
// own storage, which is per port. Neither opens anything alone.
import { createSignal } from 'solid-js';
import { TrunklineError, UnreachableError } from 'trunkline-client';

const KEY = 'trunkline.login';

const read = (): string | null => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};

const [key, setKey] = createSignal(read());
const [isEnded, setEnded] = createSignal(false);

// Another tab of this browser signs in, or out: this one follows, and stays where it is.
addEventListener('storage', (event) => {
  if (event.key !== KEY) return;
  if (event.newValue === null && key() !== null) setEnded(true);
  setKey(event.newValue);
});

/** The header that carries the key. */
export const LOGIN_HEADER = 'trunkline-login';

/** The key of the login, or `null`: this browser is not signed in. */
export { key as loginKey };

/** Whether the login ended while the page was in use: it was revoked, or not used for too long. */
export { isEnded as hasLoginEnded };

/** Forgets the key: the daemon does not take it any more, or the person signs out. */
export function forgetLogin(how: 'ended' | 'signed-out'): void {
  setEnded(how === 'ended');
  try {
    localStorage.removeItem(KEY);
  } catch { /* a browser without storage has nothing to forget */ }
  setKey(null);
}

/** The name of this browser in the list of logins, from what it says about itself. */
export function browserName(agent: string): string {
  const browser = [['Edg/', 'Edge'], ['OPR/', 'Opera'], ['Firefox/', 'Firefox'], ['Chrome/', 'Chrome'], ['Safari/', 'Safari']].find(([mark]) => agent.includes(mark ?? ''));
  const system = [['iPhone', 'iPhone'], ['iPad', 'iPad'], ['Android', 'Android'], ['Mac OS', 'macOS'], ['Windows', 'Windows'], ['CrOS', 'ChromeOS'], ['Linux', 'Linux']]
    .find(([mark]) => agent.includes(mark ?? ''));
  return `${browser?.[1] ?? 'A browser'} on ${system?.[1] ?? 'a system without a name'}`;
}

/** Signs in with a ticket of `trunkline open`, or with the daemon's token. Throws what the daemon says. */
export async function signIn(by: { ticket: string } | { token: string }): Promise<void> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if ('token' in by) headers.authorization = `Bearer ${by.token}`;
  const body = JSON.stringify({ name: browserName(navigator.userAgent), ...('ticket' in by ? { ticket: by.ticket } : {}) });
  const response = await fetch('/v1/logins', { method: 'POST', headers, body })
    .catch((cause: unknown) => { throw new UnreachableError('no daemon answers', { cause }); });
  const answer: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw TrunklineError.of(response.status, answer);
  const made = (answer as { key: string }).key;
  try {
    localStorage.setItem(KEY, made);
  } catch { /* without storage the login lasts as long as the page */ }
  setEnded(false);
  setKey(made);
}

/** Ends the login at the daemon, and here. */
export async function signOut(): Promise<void> {
  const held = key();
  if (held !== null) await fetch('/v1/logins/current', { method: 'DELETE', headers: { [LOGIN_HEADER]: held } }).catch(() => undefined);
  forgetLogin('signed-out');
}
