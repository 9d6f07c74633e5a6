// Owns what is drawn as a hairline: what the daemon notes, what the CLI says about itself, and kinds that are not known.
import type { Line } from './model';
import { list, numOrNull, raw, str, type Raw } from './raw';
import { closeOpen } from './stream';
import { onBackgroundTasks, onPermissionDenied, onTask } from './tools';
import { endCalls, endTurn } from './turns';
import type { Work } from './work';

const figures = (n: number | null): string => (n === null ? '?' : new Intl.NumberFormat('en').format(n));
const firstLine = (text: string): string => text.trimStart().split('\n', 1)[0] ?? '';
const json = (value: unknown): string => JSON.stringify(value, null, 2);

/** Kinds of `system` lines that change nothing that is drawn. */
const SILENT = new Set([
  'session_state_changed', 'commands_changed', 'control_request_progress', 'files_persisted', 'hook_started', 'hook_progress',
  'session_title_changed', 'elicitation_complete', 'session_metadata', 'vcs_state_changed', 'worker_shutting_down',
]);

/** A record of a kind that this page does not know. */
export function onUnknown(work: Work, line: Line, kind: string): void {
  work.note(line, 'unknown', `Something that this page does not know: ${kind || 'no type'}`, { detail: json(line.data) });
}

/** A line that is no JSON. Lines that follow each other are one note. */
export function onText(work: Work, line: Line): void {
  const text = str(line.data) || str(raw(line.data).text) || json(line.data);
  const last = work.folded.blocks.at(-1);
  if (last?.kind === 'note' && last.code === line.src) {
    last.detail += `\n${text}`;
    last.text = text;
    work.touch(last);
    return;
  }
  work.note(line, line.src, text, { detail: text, tone: line.src === 'stderr' ? 'warning' : 'quiet' });
}

/** A note of the daemon. */
export function onDaemonNote(work: Work, line: Line, data: Raw): void {
  switch (data.type) {
    case 'run_started': {
      work.runs += 1;
      const isFirst = line.seq === 1;
      if (isFirst) return;
      const words: Record<string, string> = { new: 'A process was started', resume: 'It goes on', fork: 'It goes on as a fork' };
      work.note(line, 'run_started', data.parked === undefined ? words[str(data.mode)] ?? 'It was started again' : 'Woken');
      return;
    }
    case 'run_exited': {
      over(work);
      const isWanted = data.intent !== undefined && data.intent !== null && data.intent !== 'none';
      const how = numOrNull(data.signal) === null ? `exit code ${figures(numOrNull(data.code))}` : `signal ${String(data.signal)}`;
      const isClean = isWanted || numOrNull(data.code) === 0;
      work.note(line, 'run_exited', isClean ? 'The process ended' : `The process ended: ${how}`, { detail: str(data.stderr_tail), tone: isClean ? 'quiet' : 'error' });
      return;
    }
    case 'run_lost':
      over(work);
      work.note(line, 'run_lost', 'The process was lost', { tone: 'error' });
      return;
    case 'start_failed':
      work.note(line, 'start_failed', `It could not be started: ${str(raw(data.reason).detail) || str(raw(data.reason).code)}`, { detail: json(data.reason), tone: 'error' });
      return;
    case 'notice':
      work.note(line, `notice:${str(data.code)}`, str(data.detail) || str(data.code).replaceAll('_', ' '), { detail: json(data), tone: data.code === 'records_missing' ? 'error' : 'quiet' });
      return;
    case 'fallback':
      work.note(line, 'fallback', `Nobody answered ${str(data.subtype).replaceAll('_', ' ')}: the stated answer was given`, { detail: json(data) });
      return;
    case 'state': {
      const due = raw(data.restart);
      if (data.state === 'parked') work.note(line, 'parked', 'Parked to save memory');
      else if (due.attempt !== undefined) work.note(line, 'restart', `It will be started again, try ${String(due.attempt)}`, { detail: str(raw(due.reason).detail) });
      return;
    }
    case 'stop_requested':
    case 'claimed':
    case 'call_decided':
      return;
    default:
      onUnknown(work, line, `daemon ${str(data.type)}`);
  }
}

/** The process is gone, and with it whatever it did. */
function over(work: Work): void {
  closeOpen(work);
  endCalls(work.folded.blocks, work);
  endTurn(work);
}

/** A `system` line of the CLI. */
export function onSystem(work: Work, line: Line, data: Raw): void {
  const { folded } = work;
  const subtype = str(data.subtype);
  switch (subtype) {
    case 'init':
      folded.model = str(data.model) || folded.model;
      folded.permissionMode = str(data.permissionMode) || folded.permissionMode;
      return;
    case 'status':
      folded.permissionMode = str(data.permissionMode) || folded.permissionMode;
      folded.isCompacting = data.status === 'compacting';
      if (data.compact_result === 'failed') work.note(line, 'compaction_failed', `It could not be compacted: ${str(data.compact_error)}`, { tone: 'error' });
      return;
    case 'thinking_tokens': {
      const open = [...folded.blocks].reverse().find((block) => block.kind === 'thinking' && block.isOpen);
      if (open?.kind === 'thinking') {
        open.tokens = numOrNull(data.estimated_tokens);
        work.touch(open);
      }
      return;
    }
    case 'task_started': case 'task_progress': case 'task_updated': case 'task_notification':
      onTask(work, line, data);
      return;
    case 'background_tasks_changed':
      onBackgroundTasks(work, line, data);
      return;
    case 'permission_denied':
      onPermissionDenied(work, line, data);
      return;
    case 'api_retry':
      folded.retry = {
        attempt: numOrNull(data.attempt) ?? 1, of: numOrNull(data.max_retries) ?? 0,
        reason: [str(data.error).replaceAll('_', ' '), data.error_status === null ? '' : String(data.error_status ?? '')].filter(Boolean).join(', '),
      };
      return;
    default:
      if (SILENT.has(subtype)) return;
      told(work, line, subtype, data);
  }
}

/** A note in a line of its own. */
function told(work: Work, line: Line, subtype: string, data: Raw): void {
  switch (subtype) {
    case 'compact_boundary': {
      const meta = raw(data.compact_metadata);
      const after = numOrNull(meta.post_tokens);
      const sizes = after === null ? `${figures(numOrNull(meta.pre_tokens))} tokens` : `${figures(numOrNull(meta.pre_tokens))} to ${figures(after)} tokens`;
      work.note(line, 'compaction', `Compacted${meta.trigger === 'auto' ? ' by itself' : ''}: ${sizes}`, { detail: json(meta) });
      return;
    }
    case 'hook_response': {
      const isFine = data.outcome === 'success';
      const output = str(data.output) || str(data.stdout) || str(data.stderr);
      if (isFine && output.trim() === '') return;
      work.note(line, 'hook', `Hook ${str(data.hook_name)}${isFine ? '' : `: ${str(data.outcome)}, exit ${figures(numOrNull(data.exit_code))}`}`, { detail: output, tone: isFine ? 'quiet' : 'error' });
      return;
    }
    case 'memory_recall': {
      const memories = list(data.memories).map((one) => [str(raw(one).path), str(raw(one).content)].filter(Boolean).join('\n'));
      work.note(line, 'memory', `Recalled ${memories.length} ${memories.length === 1 ? 'memory' : 'memories'}`, { detail: memories.join('\n\n') });
      return;
    }
    case 'informational':
    case 'model_fallback': case 'model_refusal_fallback': case 'model_refusal_no_fallback':
    case 'local_command_output': {
      const text = str(data.content);
      work.note(line, subtype, firstLine(text), { detail: text, tone: subtype.startsWith('model') || data.level === 'warning' ? 'warning' : 'quiet' });
      return;
    }
    case 'notification':
      work.note(line, subtype, str(data.text), { tone: data.priority === 'immediate' ? 'warning' : 'quiet' });
      return;
    case 'post_turn_summary': case 'task_summary': {
      const text = str(data.summary) || str(data.content) || str(data.title);
      work.note(line, 'summary', firstLine(text) || 'Summary', { detail: text || json(data) });
      return;
    }
    case 'plugin_install':
      if (data.status === 'failed') work.note(line, subtype, `The plugin ${str(data.name)} could not be installed`, { detail: str(data.error), tone: 'error' });
      return;
    case 'mirror_error': case 'session_writes_lost':
      work.note(line, subtype, subtype === 'mirror_error' ? 'The CLI could not mirror its transcript' : 'The CLI could not write its files: the disk is full', { detail: json(data), tone: 'error' });
      return;
    default:
      onUnknown(work, line, `system ${subtype}`);
  }
}

/** Takes a line that stands beside the messages: proposals, limits, summaries, a fresh start; says whether it was one of these. */
export function onBeside(work: Work, line: Line, data: Raw): boolean {
  switch (data.type) {
    case 'prompt_suggestion':
      work.folded.suggestion = str(data.suggestion) || null;
      return true;
    case 'tool_use_summary':
      work.note(line, 'summary', firstLine(str(data.summary)), { detail: str(data.summary) });
      return true;
    case 'conversation_reset':
      work.note(line, 'reset', 'A fresh conversation begins here');
      return true;
    case 'rate_limit_event': {
      const info = raw(data.rate_limit_info);
      const limit = { status: str(info.status), kind: str(info.rateLimitType) || null, resetsAt: numOrNull(info.resetsAt), utilization: numOrNull(info.utilization) };
      const isNews = work.folded.rateLimit?.status !== limit.status && limit.status !== 'allowed' && limit.status !== '';
      work.folded.rateLimit = limit;
      const share = limit.utilization === null ? '' : `: ${Math.round(limit.utilization * 100)} % of it is used`;
      if (isNews) work.note(line, 'rate_limit', limit.status === 'rejected' ? 'The limit of the account is reached' : `The limit of the account is near${share}`, { detail: json(info), tone: 'warning' });
      return true;
    }
    default:
      return false;
  }
}
