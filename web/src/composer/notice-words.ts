// Owns what the line above the prompt box says about a session that a person may have to do something about, as a plain function.
import type { SessionSummary } from '../daemon/types';
import { span } from '../parts/time';

/** A way on, each with a button. */
export type NoticeAct = 'resume' | 'fork' | 'fresh_start' | 'interrupt' | 'keep-waiting' | 'leave-it';

/** The words of a notice. */
export interface Notice { text: string; tone: 'failed' | 'need' | 'quiet'; acts: NoticeAct[] }

/** The words of the buttons. */
export const ACT_WORDS: Record<NoticeAct, string> = {
  resume: 'Resume', fork: 'Fork', fresh_start: 'Start afresh', interrupt: 'Interrupt', 'keep-waiting': 'Keep waiting', 'leave-it': 'Leave it',
};

const REASONS: Record<string, string> = {
  start_failed: 'it could not be started', start_timed_out: 'it did not get ready in time', conversation_not_found: 'its conversation is not there any more',
  conversation_in_use: 'another process has its conversation', conversation_taken: 'another session has its conversation',
  conversation_not_kept: 'its conversation was not kept', budget_spent: 'its budget is spent', cli_exited: 'the agent ended by itself',
  cli_killed: 'the agent was killed', keeper_lost: 'its process was lost', permission_mode_refused: 'its mode was refused',
  choices_not_restored: 'its settings could not be given back', cli_silent: 'the agent did not answer any more', stdout_closed: 'the agent could not be heard any more',
};

/** Why a session failed, in words. */
export const reasonInWords = (reason: { code: string; detail: string }): string =>
  REASONS[reason.code] ?? (reason.detail.split('\n')[0]?.trim() || reason.code.replaceAll('_', ' '));

const listed = (words: string[]): string => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')}, or ${words.at(-1)}`);
const QUESTIONS: Partial<Record<NoticeAct, string>> = { resume: 'resume', fork: 'fork', fresh_start: 'start afresh' };

/** The most urgent thing to say about a session; `null`: nothing. `waysOut` are those of a failed one, best first. */
export function noticeOf(session: SessionSummary, now: number, waysOut: readonly NoticeAct[] = ['resume', 'fork', 'fresh_start']): Notice | null {
  const reason = session.attention?.reason;
  if (session.restart != null) {
    const ms = Date.parse(session.restart.at) - now;
    return { text: `It ended, and starts again ${ms > 0 ? `in ${span(ms)}` : 'now'}.`, tone: 'quiet', acts: [] };
  }
  if (session.state === 'failed') {
    const asks = listed(waysOut.map((one) => QUESTIONS[one] ?? '').filter(Boolean));
    const question = asks === '' ? '' : ` ${asks[0]?.toUpperCase()}${asks.slice(1)}?`;
    return { text: `It stopped: ${session.reason ? reasonInWords(session.reason) : 'nobody knows why'}.${question}`, tone: 'failed', acts: [...waysOut, ...(reason === 'failed' ? ['leave-it' as const] : [])] };
  }
  if (session.is_silent || reason === 'silent') {
    const since = session.attention?.reason === 'silent' ? session.attention.since : session.last_line?.at;
    const time = since === undefined ? 'a long time' : longSpan(now - Date.parse(since));
    if (session.put_off?.reason === 'silent') return { text: `Silent for ${time}.`, tone: 'quiet', acts: ['interrupt'] };
    return { text: `Silent for ${time}. Keep waiting, or interrupt?`, tone: 'need', acts: ['keep-waiting', 'interrupt'] };
  }
  if (reason === 'unasked_edit') return { text: 'It changed a file without asking, though it should.', tone: 'need', acts: ['leave-it'] };
  if (reason === 'budget') return { text: 'Most of its budget is spent.', tone: 'need', acts: ['leave-it'] };
  if (session.state === 'parked') {
    const why = session.parked?.reason === 'asked' ? 'Parked.' : 'Parked to save memory.';
    return { text: `${why} A message wakes it.`, tone: 'quiet', acts: [] };
  }
  if (session.state === 'stopped') return { text: 'It is stopped. Resume it, or send a message to do both.', tone: 'quiet', acts: ['resume'] };
  if (session.start_queue_position != null) return { text: `It waits for room to start: place ${session.start_queue_position}.`, tone: 'quiet', acts: [] };
  return null;
}

function longSpan(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000));
  return minutes < 120 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : span(ms);
}
