// Owns the requests of the decisions that rows show: the lobby names them, and their content is asked for once.
import { createStore } from 'solid-js/store';
import { rest } from '../daemon/daemon';
import type { Approval, SessionSummary } from '../daemon/types';

const [asked, setAsked] = createStore<Record<string, Approval | undefined>>({});
const underWay = new Set<string>();

/** The oldest decision of a session with its request, once that is known. */
export function askedBy(session: SessionSummary): Approval | undefined {
  const first = session.pending_approvals[0];
  if (first === undefined) return undefined;
  const known = asked[first.id];
  if (known === undefined && !underWay.has(first.id)) void ask(session.id, first.id);
  return known;
}

async function ask(id: string, approvalId: string): Promise<void> {
  underWay.add(approvalId);
  try {
    const path = { id, approval_id: approvalId };
    setAsked(approvalId, await rest.GET('/v1/sessions/{id}/approvals/{approval_id}', { params: { path } }));
  } catch { /* the row shows the short word, and Review */ }
}
