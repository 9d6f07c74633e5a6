// Owns what a row says: title, reason or step, and the time in that state.
import type { Approval, SessionSummary } from '../daemon/types';
import { isShell, mcpOf } from './request';
import { clock, span } from '../parts/time';
import { needOf, stateSince } from './order';

/** A directory as people write it: the home directory is `~`. */
export const place = (cwd: string): string => cwd.replace(/^(?:\/home|\/Users)\/[^/]+(?=\/|$)/, '~').replace(/^\/root(?=\/|$)/, '~');

/** The last part of a directory or a file. */
export const lastPart = (path: string): string => path.replace(/\/+$/, '').split('/').at(-1) || '/';

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();

/** The title, else the start of the first prompt, else the directory. */
export const titleOf = (session: SessionSummary): string =>
  oneLine(session.title ?? '') || oneLine(session.first_prompt ?? '') || lastPart(session.cwd);

/** Words, and a command, path or the like in the type of code. */
export interface Saying { words: string; code: string }

const FILE_TOOLS: Record<string, string> = { Edit: 'Change', MultiEdit: 'Change', NotebookEdit: 'Change', Write: 'Make', Read: 'Read' };

/** The input of the tool that an approval is about. */
export function inputOf(approval: Approval): Record<string, unknown> {
  const { input } = approval.request;
  return typeof input === 'object' && input !== null ? input as Record<string, unknown> : {};
}

/** The subject of a decision. Until its request is known, the list's short word has to do. */
export function askedOf(kind: string, subject: string, approval: Approval | undefined): Saying {
  const input = approval === undefined ? {} : inputOf(approval);
  switch (kind) {
    case 'question': {
      const first = approval?.questions?.[0] as { question?: unknown } | undefined;
      return { words: `Asks ${typeof first?.question === 'string' ? oneLine(first.question) : 'a question'}`, code: '' };
    }
    case 'plan': return { words: 'A plan to review', code: '' };
    case 'elicitation': return { words: oneLine(`${subject} asks: ${approval?.message ?? 'fill in a form'}`), code: '' };
    case 'tool': case 'deferred': break;
    default: return { words: `Asks: ${subject}`, code: '' };
  }
  if (isShell(subject) && typeof input.command === 'string') return { words: 'Run', code: input.command };
  const mcp = mcpOf(subject);
  if (mcp !== null) return { words: `Use ${mcp.server}: ${mcp.tool}`, code: '' };
  const file = input.file_path ?? input.notebook_path;
  if (typeof file === 'string') return { words: FILE_TOOLS[subject] ?? subject, code: file };
  if (typeof input.url === 'string') return { words: 'Fetch', code: input.url };
  return subject === 'Bash' ? { words: 'Run a command', code: '' } : { words: `Use ${subject}`, code: '' };
}

/** The last words or deed of the agent. */
function lastOf(session: SessionSummary): Saying {
  const last = session.last_line;
  if (last == null) return { words: '', code: '' };
  return last.kind === 'tool' ? { words: last.tool === 'Bash' ? 'Run' : (last.tool ?? ''), code: oneLine(last.text) } : { words: oneLine(last.text), code: '' };
}

/** Why a session is where it stands: the reason of a need, the current step, or its last line. */
export function sayingOf(session: SessionSummary, approval: Approval | undefined, now: number): Saying {
  const need = needOf(session);
  switch (need?.reason) {
    case 'decision': {
      const [first] = session.pending_approvals;
      return first === undefined ? { words: 'Asks', code: '' } : askedOf(first.kind, first.subject, approval);
    }
    case 'failed': return { words: `It stopped: ${oneLine(session.reason?.detail ?? session.reason?.code ?? 'no reason is known')}`, code: '' };
    case 'silent': return { words: `Silent for ${span(now - Date.parse(need.since))}`, code: '' };
    case 'unasked_edit': return { words: 'It changed a file without asking, though it should.', code: '' };
    case 'budget': return { words: 'Most of its budget is spent', code: '' };
    default: break;
  }
  if (session.restart != null) return { words: `Starts again: ${oneLine(session.restart.reason.detail)}`, code: '' };
  if (session.start_queue_position != null) return { words: `Waits for its start, place ${session.start_queue_position}`, code: '' };
  const last = lastOf(session);
  if (last.words !== '' || last.code !== '') return last;
  return { words: session.turns === 0 && session.turn == null ? 'Nothing was said yet' : '', code: '' };
}

/** How many more decisions a session waits for than the one that its row shows. */
export const moreDecisions = (session: SessionSummary): number => Math.max(0, session.pending_approvals.length + session.waiting_approvals - 1);

const LAST_MINUTES_MS = 600_000;

/** The time in that state: a turn's clock runs, and a deadline counts down in its last ten minutes. */
export function timeOf(session: SessionSummary, now: number): string {
  const deadline = needOf(session)?.deadline;
  if (deadline != null) {
    const left = Date.parse(deadline) - now;
    if (left < LAST_MINUTES_MS) return `${clock(Math.max(0, left))} left`;
  }
  if (needOf(session) == null && session.turn != null) return clock(now - Date.parse(session.turn.started_at));
  const ms = now - Date.parse(stateSince(session));
  return ms < 5_000 ? 'now' : span(ms);
}

/** How a need was put off, if it was. */
export function putOffOf(session: SessionSummary): string {
  const put = session.put_off;
  if (put == null) return '';
  if (put.how === 'left') return put.reason === 'silent' ? 'Kept waiting' : 'Left as it is';
  if (put.until == null) return 'Snoozed';
  return `Snoozed until ${new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: 'numeric', minute: '2-digit' }).format(Date.parse(put.until))}`;
}
