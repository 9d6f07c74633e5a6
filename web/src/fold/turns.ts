// Owns the ends of turns: how each ended, in words, and what is said there that no answer said before.
import type { Block, Line } from './model';
import { entryOf, list, numOrNull, raw, str, type Raw } from './raw';
import { closeOpen } from './stream';
import type { Work } from './work';

const REASONS: Record<string, string> = {
  error_max_turns: 'It reached its limit of steps.',
  error_max_budget_usd: 'Its budget is spent.',
  error_max_structured_output_retries: 'It did not give an answer of the wanted form.',
};

/** Controls that are told in the conversation once the CLI has answered them: in words, when it did so and when it refused. */
const CONTROLS: Record<string, (request: Raw) => { done: string; refused: string }> = {
  set_model: (request) => ({ done: `Model: ${str(request.model) || 'the default'}`, refused: '' }),
  rewind_files: (request) => (request.dry_run === true ? { done: '', refused: '' } : { done: 'Files were set back to an earlier message', refused: 'Files were not set back' }),
};

/** The doer of something, in words. */
function who(by: string | null): string {
  if (by === null || by === '' || by === 'rest' || by.startsWith('ws:') || by.startsWith('login:')) return 'you';
  if (by.startsWith('rule:') || by.startsWith('expiry:')) return `the rule ${by.slice(by.indexOf(':') + 1)}`;
  if (by.startsWith('covered:')) return 'an earlier choice';
  if (by.startsWith('webhook:')) return 'a webhook';
  return by === 'daemon' ? 'the daemon' : by;
}

/** A control request that was written to the CLI. */
export function onClientControl(work: Work, line: Line, data: Raw): void {
  const request = raw(data.request);
  const subtype = str(request.subtype);
  if (subtype === 'interrupt') {
    if (work.folded.workingSince !== null) work.interruptedBy = line.by ?? '';
    return;
  }
  const words = entryOf(CONTROLS, subtype)?.(request);
  if (words !== undefined && line.by !== 'daemon') work.controls.set(str(data.request_id), words);
}

/** The CLI's answer to a control: it did as it was asked, or refused. */
export function onControlAnswer(work: Work, line: Line, data: Raw): void {
  const response = raw(data.response);
  const id = str(response.request_id);
  const words = work.controls.get(id);
  if (words === undefined) return;
  work.controls.delete(id);
  const payload = raw(response.response);
  const isDone = response.subtype === 'success' && payload.canRewind !== false;
  const why = str(response.error) || str(payload.error);
  if (isDone && words.done !== '') work.note(line, 'control', words.done);
  if (!isDone && words.refused !== '') work.note(line, 'control', why === '' ? words.refused : `${words.refused}: ${why}`, { tone: 'warning' });
}

/** A turn ended. */
export function onTurnEnd(work: Work, line: Line, data: Raw): void {
  const { folded } = work;
  closeOpen(work);
  endCalls(folded.blocks, work);
  const terminal = str(data.terminal_reason);
  const isError = data.is_error === true || str(data.subtype).startsWith('error');
  const isInterrupted = terminal.startsWith('aborted') || (isError && work.interruptedBy !== null);
  const result = str(data.result);
  const said = folded.blocks.slice(work.turnStart).filter((block) => block.kind === 'text').map((block) => block.text.trim());
  const isSaid = result.trim() === '' || said.includes(result.trim()) || said.join('\n\n').endsWith(result.trim());
  const failed = entryOf(REASONS, str(data.subtype)) ?? (list(data.errors).map(str).filter(Boolean).join('\n') || (isSaid ? 'It failed.' : ''));
  const usage = raw(data.usage);
  folded.blocks.push({
    kind: 'turn', key: `turn:${line.seq}`, seq: line.seq, at: line.ts, version: work.version,
    outcome: isInterrupted ? 'interrupted' : isError ? 'failed' : 'done',
    reason: isInterrupted ? `Interrupted by ${who(work.interruptedBy)}` : isError ? failed : '',
    costUsd: costOf(data), ms: numOrNull(data.duration_ms), text: isSaid || isInterrupted ? '' : result,
    tokens: numOrNull(usage.output_tokens),
  });
  endTurn(work);
}

/** The cost of this turn alone, where the CLI says it; its total is of the whole conversation. */
function costOf(data: Raw): number | null {
  const models = data.model_usage_since_last_result;
  if (models === undefined) return null;
  const costs = Object.values(raw(models)).map((one) => numOrNull(raw(one).costUSD) ?? 0);
  return costs.reduce((sum, one) => sum + one, 0);
}

/** All that ran has ended with the turn. */
export function endTurn(work: Work): void {
  const { folded } = work;
  folded.workingSince = null;
  folded.isCompacting = false;
  folded.retry = null;
  work.interruptedBy = null;
  work.turnStart = folded.blocks.length;
}

/** Calls that wait for a result get none any more. */
export function endCalls(blocks: Block[], work: Work): void {
  for (const block of blocks.slice(work.turnStart)) {
    if (block.kind !== 'call' || block.result !== null || block.status === 'denied') continue;
    block.status = 'stopped';
    block.partialJson = '';
    if (block.agent?.status === 'running') {
      block.agent.status = 'stopped';
      block.agent.current = null;
    }
    work.touch(block);
  }
}
