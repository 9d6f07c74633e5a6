// Owns which notices are due: one per item, at once for ranks 1 to 3 and after two minutes for rank 4, none of what a person looks
// at, and one for all when many come together.
import type { SessionSummary } from '../daemon/types';

/** Something that a person may be told about. */
export interface Item {
  /** The same item has the same key, so that it is told once. */
  key: string;
  sessionId: string;
  /** Its urgency; `null`: a turn has ended, and needs nobody. */
  rank: number | null;
  since: number;
  text: string;
  title: string;
  /** Where it is on the page. */
  address: string;
  /** The request that waits, if it is one. */
  approvalId: string | null;
  /** A person can say no to it without reading more. */
  canDeny: boolean;
}

const REASONS: Record<string, string> = {
  decision: 'waits for your decision', failed: 'failed', silent: 'has been silent for long',
  unasked_edit: 'changed a file without asking', budget: 'has nearly spent its budget',
};

const nameOf = (one: SessionSummary): string => one.title ?? one.first_prompt?.slice(0, 80) ?? one.cwd;

/** All that needs a person now, and the turns that ended and that nobody has seen. */
export function itemsOf(sessions: readonly SessionSummary[]): Item[] {
  return sessions.flatMap((one): Item[] => {
    const base = { sessionId: one.id, title: nameOf(one), address: `/s/${one.id}`, approvalId: null, canDeny: false };
    const ended = one.unread ? [{ ...base, key: `done ${one.id} ${one.turns}`, rank: null, since: Date.parse(one.updated_at), text: one.last_line?.text ?? '' }] : [];
    if (one.attention == null) return ended;
    const { rank, reason } = one.attention;
    if (reason === 'decision' && one.pending_approvals.length > 0) {
      return [...ended, ...one.pending_approvals.map((approval) => ({
        ...base, key: `approval ${approval.id}`, rank, since: Date.parse(approval.requested_at), text: REASONS.decision!, address: `/needs/${approval.id}`,
        approvalId: approval.id, canDeny: approval.kind === 'tool',
      }))];
    }
    return [...ended, { ...base, key: `${one.id} ${reason} ${one.attention.since}`, rank, since: Date.parse(one.attention.since), text: REASONS[reason] ?? reason }];
  });
}

/** Whether a person who looks at this address of the page sees an item there. The page of decisions shows all of them. */
export function isSeenAt(item: Item, pathname: string): boolean {
  if (/^\/needs(?:\/|$)/.test(pathname)) return item.approvalId !== null;
  return /^\/s\/([0-9a-f-]+)/.exec(pathname)?.[1] === item.sessionId;
}

const LATE_RANK = 4;
const LATE_MS = 120_000;
const TOGETHER = 3;
const TOGETHER_MS = 10_000;

/** A notice that was shown, for whether more of them are one. */
export interface Told { key: string; at: number }

/** The notices to show, and the items that are told without one. */
export interface Due {
  show: Item[];
  /** They are one notice, together with those that were shown just before. */
  together: string[] | null;
  /** Those that a person sees on the page. */
  seen: string[];
}

/** Which notices are due. `told` has the keys of what was told; `seen`: whether a person looks at it now. */
export function due(items: readonly Item[], told: ReadonlySet<string>, recent: readonly Told[], now: number, seen: (item: Item) => boolean): Due {
  const fresh = items.filter((item) => !told.has(item.key));
  const show = fresh.filter((item) => !seen(item) && ((item.rank ?? 0) < LATE_RANK || now - item.since >= LATE_MS));
  const burst = [
    ...recent.filter(({ key, at }) => now - at < TOGETHER_MS && items.some((item) => item.key === key && item.rank !== null)).map(({ key }) => key),
    ...show.filter((item) => item.rank !== null).map(({ key }) => key),
  ];
  return { show, together: burst.length > TOGETHER ? burst : null, seen: fresh.filter(seen).map(({ key }) => key) };
}

/** Whether a notice about these items is to be taken back: each was decided, or read, or a person looks at it. */
export const isOver = (keys: readonly string[], items: readonly Item[], seen: (item: Item) => boolean): boolean =>
  !keys.some((key) => { const item = items.find((one) => one.key === key); return item !== undefined && !seen(item); });

/** Whether an hour of the day is quiet; hours over midnight are meant as said. */
export const isQuiet = (hour: number, quiet: [number, number] | null): boolean => {
  if (quiet === null) return false;
  const [from, to] = quiet;
  return from <= to ? hour >= from && hour < to : hour >= from || hour < to;
};
