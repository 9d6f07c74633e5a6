// Owns the end of a login by the person: what they wrote on this browser goes with it. A login that somebody else ends leaves it.
import { clear } from 'idb-keyval';
import { forgetDrafts } from '../composer/draft';
import { forgetOutboxes } from '../composer/outbox';
import { signOut } from '../daemon/login';
import { forgetAllKept } from '../decision/kept';

/** Signs out, and forgets drafts, messages that were not sent, what was sent before, and answers that were not given. */
export async function signOutHere(): Promise<void> {
  await signOut();
  forgetDrafts();
  forgetOutboxes();
  forgetAllKept();
  await clear().catch(() => undefined);
}
