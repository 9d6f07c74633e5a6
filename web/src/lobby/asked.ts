// Owns the requests of the decisions that rows show: the lobby names them, and each is asked for once, and again after a failure.
import { createSignal } from 'solid-js';
import type { Approval, SessionSummary } from '../daemon/types';
import { wholeOf } from './pending';

/** As many as there are sessions in the page's picture: a smaller number would let go what rows still show. */
const MOST_KEPT = 2_000;
const ASK_AGAIN_MS = 5_000;
const [asked, setAsked] = createSignal<ReadonlyMap<string, Approval>>(new Map());
const underWay = new Set<string>();
const [again, setAgain] = createSignal(0);

/** The oldest decision of a session with its request, once that is known. */
export function askedBy(session: SessionSummary): Approval | undefined {
  const first = session.pending_approvals[0];
  if (first === undefined) return undefined;
  const known = asked().get(first.id);
  again();
  if (known === undefined && !underWay.has(first.id)) void ask(session.id, first.id);
  return known;
}

/** Asks for it. The oldest ones are let go; until it is there, the row shows the short word, and Review. */
async function ask(id: string, approvalId: string): Promise<void> {
  underWay.add(approvalId);
  try {
    const approval = await wholeOf(id, approvalId);
    setAsked((all) => new Map([...[...all].slice(1 - MOST_KEPT), [approvalId, approval]]));
    underWay.delete(approvalId);
  } catch {
    setTimeout(() => { underWay.delete(approvalId); setAgain((n) => n + 1); }, ASK_AGAIN_MS);
  }
}
