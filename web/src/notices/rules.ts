// Owns which notices are due: one per item, at once for ranks 1 to 3 and after two minutes for rank 4, taken back when
// somebody decided, and one for all when many come together.
import type { SessionSummary } from '../daemon/types';

/** Something that a person may be told about. */
export interface Item {
  /** The same item has the same key, so that it is told once. */
  key: string;
  sessionId: string;
  rank: number;
  since: number;
  text: string;
  title: string;
}

const REASONS: Record<string, string> = {
  decision: 'waits for your decision', failed: 'failed', silent: 'has been silent for long',
  unasked_edit: 'changed a file without asking', budget: 'has nearly spent its budget',
};

const nameOf = (one: SessionSummary): string => one.title ?? one.first_prompt?.slice(0, 80) ?? one.cwd;

/** All that needs a person now. */
export function itemsOf(sessions: SessionSummary[]): Item[] {
  return sessions.flatMap((one) => {
    if (one.attention == null) return [];
    const { rank, reason } = one.attention;
    const base = { sessionId: one.id, rank, title: nameOf(one) };
    if (reason === 'decision' && one.pending_approvals.length > 0) {
      return one.pending_approvals.map((approval) => ({
        ...base, key: `approval ${approval.id}`, since: Date.parse(approval.requested_at), text: `${approval.tool_name ?? approval.kind}: ${approval.subject}`,
      }));
    }
    return [{ ...base, key: `${one.id} ${reason} ${one.attention.since}`, since: Date.parse(one.attention.since), text: REASONS[reason] ?? reason }];
  });
}

const LATE_RANK = 4;
const LATE_MS = 120_000;
const TOGETHER = 3;

/** Which notices to show and which to take back. `told` has the keys of those that were shown. */
export function due(items: Item[], told: ReadonlySet<string>, now: number, watched: string | null): { show: Item[]; takeBack: string[]; together: boolean } {
  const keys = new Set(items.map((item) => item.key));
  const show = items.filter((item) => !told.has(item.key) && item.sessionId !== watched && (item.rank < LATE_RANK || now - item.since >= LATE_MS));
  return { show, takeBack: [...told].filter((key) => !keys.has(key)), together: show.length > TOGETHER };
}

/** Whether an hour of the day is quiet; hours over midnight are meant as said. */
export const isQuiet = (hour: number, quiet: [number, number] | null): boolean => {
  if (quiet === null) return false;
  const [from, to] = quiet;
  return from <= to ? hour >= from && hour < to : hour >= from || hour < to;
};
