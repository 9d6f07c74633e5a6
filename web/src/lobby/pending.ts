// Owns which requests wait for a person, in their order, and the whole of each: nothing is decided of which a part is missing.
import { createMemo, createRoot, createSignal } from 'solid-js';
import { rest } from '../daemon/daemon';
import { lobby, sessions } from './lobby';
import type { Approval, ApprovalSummary, DecisionRequest, SessionSummary } from '../daemon/types';

/** A request that waits, with its session. */
export interface Waiting { summary: ApprovalSummary; session: SessionSummary }

const MOST_KEPT = 100;
const kept = new Map<string, Promise<Approval>>();

/** The requests of a session that wait, its sub-agents' included: the oldest first. */
export const waitingIn = (sessionId: string): ApprovalSummary[] => lobby.byId[sessionId]?.pending_approvals ?? [];

/** Those with a time limit come first, the soonest of them ahead; then the longest wait. */
export function byUrgency(a: Waiting, b: Waiting): number {
  const limit = ({ summary }: Waiting) => (summary.deadline === null ? Infinity : Date.parse(summary.deadline));
  return Math.sign(limit(a) - limit(b)) || a.summary.requested_at.localeCompare(b.summary.requested_at) || a.summary.id.localeCompare(b.summary.id);
}

/** All requests that wait, over all sessions, in the order of attention. */
export const waiting = createRoot(() => createMemo(() => sessions()
  .flatMap((session) => session.pending_approvals.map((summary): Waiting => ({ summary, session })))
  .sort(byUrgency)));

/** The whole of a request. Lists leave parts of large ones out; its own route has all of it. */
export function wholeOf(sessionId: string, id: string): Promise<Approval> {
  const known = kept.get(id);
  if (known !== undefined) return known;
  const asked = ask(sessionId, id);
  kept.set(id, asked);
  asked.catch(() => kept.delete(id));
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value as string);
  return asked;
}

/** A request as it is now, and not as it was. */
export function ask(sessionId: string, id: string): Promise<Approval> {
  return rest.GET('/v1/sessions/{id}/approvals/{approval_id}', { params: { path: { id: sessionId, approval_id: id } } });
}

/** A decision that was taken on this page, and how long its request had waited. */
export interface OwnDecision { waitedMs: number }

const [ownDecision, setOwnDecision] = createSignal<OwnDecision | undefined>(undefined, { equals: false });

/** The last decision that was taken on this page. */
export { ownDecision };

/** Decides. It throws what the daemon says, as when another person was first. */
export async function decide(sessionId: string, id: string, body: DecisionRequest): Promise<Approval> {
  const decided = await rest.POST('/v1/sessions/{id}/approvals/{approval_id}', { params: { path: { id: sessionId, approval_id: id } }, body });
  setOwnDecision({ waitedMs: Date.now() - Date.parse(decided.requested_at) });
  return decided;
}
