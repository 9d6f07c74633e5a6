// Owns the order of attention: which session stands where in the list, and why. Ties go by time, then by id.
import type { SessionSummary } from '../daemon/types';
import { isMuted, shownAs } from './state';

/** A group of the list. */
export type GroupName = 'needs' | 'to-read' | 'working' | 'ready' | 'at-rest';

/** Groups in their order, with their headings. */
export const GROUPS: readonly { name: GroupName; word: string }[] = [
  { name: 'needs', word: 'Needs you' },
  { name: 'to-read', word: 'To read' },
  { name: 'working', word: 'Working' },
  { name: 'ready', word: 'Ready' },
  { name: 'at-rest', word: 'At rest' },
];

/** Sessions of one directory inside a group. */
export interface Project { cwd: string; rows: SessionSummary[] }

/** A group with what is in it. All that needs a person is one project without a directory: urgency alone orders it. `counted`: of
 * its `size` rows so many are its number, which is that of the badge; `muted`: so many are put off, and stand behind the others. */
export interface Group { name: GroupName; word: string; size: number; counted: number; muted: number; projects: Project[] }

/** Whether a session is one of the number that list, badge and title tell: it waits for a decision or for a way out. A silence or
 * a budget, of the fourth rank, stands in the list, and its row says why. */
export const isCounted = (session: SessionSummary): boolean => session.attention != null && session.attention.rank <= 3;

/** The group of a session. A failure that was left is at rest. */
export function groupOf(session: SessionSummary): GroupName {
  if (session.attention != null || isMuted(session)) return 'needs';
  switch (shownAs(session)) {
    case 'working': case 'starting': case 'stopping': return 'working';
    case 'to-read': return 'to-read';
    case 'ready': return 'ready';
    default: return session.unread ? 'to-read' : 'at-rest';
  }
}

const time = (at: string | null | undefined): number => (at == null ? Infinity : Date.parse(at));
const byId = (a: SessionSummary, b: SessionSummary): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/** The need of a session: the one that it tells of, else the most urgent of those that are muted. */
export const needOf = (session: SessionSummary): SessionSummary['attention'] => session.attention ?? (isMuted(session) ? session.put_off : null);

/** Which of two needs comes first: the rank; of deadlines the soonest; else who waits longest. */
export function byNeed(a: SessionSummary, b: SessionSummary): number {
  const isBehind = Number(a.attention == null) - Number(b.attention == null);
  if (isBehind !== 0) return isBehind;
  const [one, other] = [needOf(a), needOf(b)];
  if (one == null || other == null) return byId(a, b);
  if (one.rank !== other.rank) return one.rank - other.rank;
  if (one.rank === 1 && one.deadline !== other.deadline) return time(one.deadline) - time(other.deadline);
  return time(one.since) - time(other.since) || byId(a, b);
}

/** When a session came into its state, for lists: the newest first. */
export function stateSince(session: SessionSummary): string {
  return needOf(session)?.since ?? session.turn?.started_at ?? session.parked?.since ?? session.updated_at;
}

/** The newest state first. A time is read once for each session, and not for each comparison. */
function newestFirst(rows: readonly SessionSummary[]): SessionSummary[] {
  return rows.map((session) => ({ session, since: time(stateSince(session)) }))
    .sort((one, other) => other.since - one.since || byId(one.session, other.session))
    .map(({ session }) => session);
}

/** All sessions in groups; a group without a session is left out. */
export function arrange(sessions: readonly SessionSummary[]): Group[] {
  const inGroups = new Map<GroupName, SessionSummary[]>();
  for (const session of sessions) {
    const name = groupOf(session);
    const rows = inGroups.get(name);
    if (rows === undefined) inGroups.set(name, [session]); else rows.push(session);
  }
  return GROUPS.flatMap(({ name, word }) => {
    const rows = inGroups.get(name);
    if (rows === undefined) return [];
    const projects = name === 'needs' ? [{ cwd: '', rows: rows.sort(byNeed) }] : inProjects(newestFirst(rows));
    const [counted, muted] = name === 'needs' ? [rows.filter(isCounted).length, rows.filter(isMuted).length] : [rows.length, 0];
    return [{ name, word, size: rows.length, counted, muted, projects }];
  });
}

/** Rows by directory; the directory of the first row comes first. */
function inProjects(rows: SessionSummary[]): Project[] {
  const projects = new Map<string, SessionSummary[]>();
  for (const row of rows) {
    const same = projects.get(row.cwd);
    if (same === undefined) projects.set(row.cwd, [row]); else same.push(row);
  }
  return [...projects].map(([cwd, of]) => ({ cwd, rows: of }));
}

/** The session that needs a person next, after the one that is open. */
export function nextNeeding(sessions: readonly SessionSummary[], open?: string): SessionSummary | undefined {
  const needing = sessions.filter((one) => one.attention != null).sort(byNeed);
  const at = needing.findIndex((one) => one.id === open);
  return at < 0 ? needing[0] : needing[(at + 1) % needing.length];
}
