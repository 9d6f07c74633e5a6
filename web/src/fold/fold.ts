// Owns the fold: records in, a conversation out. Records may come in any order and more than once; what comes out is that of
// one undisturbed pass over them.
import { onAssistant, onLeftOutAnswer, onStreamEvent } from './stream';
import { Known } from './known';
import type { Folded, Line } from './model';
import { onBeside, onDaemonNote, onSystem, onText, onUnknown } from './notes';
import { beginOldest, onClientMessage, onCliUser, onLifecycle } from './prompts';
import { entryOf, isRaw, numOrNull, raw, str, strOrNull, type Raw } from './raw';
import { onClientControl, onControlAnswer, onTurnEnd } from './turns';
import { onAnswer, onApproval, onDecision, onLeftOutResult, onRequest, onToolProgress } from './tools';
import { Work } from './work';

/** Lines of the CLI that change nothing that is drawn. */
const SILENT = new Set(['control_cancel_request', 'keep_alive', 'transcript_mirror', 'autocompact_state', 'active_goal', 'auth_status']);

/** A record of the daemon, or a frame of joined pieces, as a line. */
export function lineOf(frame: Raw): Line | null {
  if (frame.type === 'trunkline.coalesced') {
    return { seq: Number(frame.first_seq), lastSeq: Number(frame.last_seq), ts: str(frame.ts), src: str(frame.src), by: null, data: frame.data };
  }
  const seq = numOrNull(frame.seq);
  if (seq === null) return null;
  // Up to there the daemon had nothing of the wanted kinds.
  if (frame.type === 'trunkline.cursor') return { seq, lastSeq: seq, ts: '', src: 'passed', by: null, data: null };
  // A fork begins with records of the session that it is a copy of.
  const copied = frame.src === 'daemon' && isRaw(frame.data) && frame.data.type === 'history' ? raw(frame.data.record) : frame;
  return { seq, lastSeq: seq, ts: str(copied.ts), src: str(copied.src), by: strOrNull(copied.by), data: copied.data };
}

/** A conversation that grows at both ends. */
export class Fold {
  /** All lines that count, in their order. Pieces that a whole line has replaced are let go. */
  private lines: Line[] = [];
  private readonly known = new Known();
  private work = new Work(0);
  private highest = 0;
  /** The facts of lines that were let go, which no later one has to say again. */
  private carried: Partial<Folded> = {};

  get folded(): Folded {
    return this.work.folded;
  }

  /** Takes lines, in any order. Those that are known do nothing. Whether anything is new. */
  add(lines: readonly Line[]): boolean {
    const fresh: Line[] = [];
    for (const line of lines) {
      if (this.known.has(line.seq, line.lastSeq)) continue;
      this.known.add(line.seq, line.lastSeq);
      fresh.push(line);
    }
    if (fresh.length === 0) return false;
    fresh.sort((one, other) => one.seq - other.seq);
    if (fresh[0]!.seq > this.work.folded.lastSeq) {
      for (const line of fresh) this.take(line);
    } else {
      this.lines = merged(this.lines, fresh);
      this.again();
    }
    return true;
  }

  /** How many lines it holds. */
  get size(): number {
    return this.lines.length;
  }

  /** Lets go of the oldest lines, so that `keep` are left, and those of the turn that they begin in. Nothing goes that a person
   * still waits for. Lines that went may be added again. Whether any went. */
  letGo(keep: number): boolean {
    const { folded } = this;
    const needed = [...folded.waiting, ...[...folded.calls.values()].filter((call) => call.status === 'asked' || call.agent?.status === 'running')];
    const oldest = needed.reduce((least, block) => Math.min(least, block.seq), this.lines[Math.max(0, this.lines.length - keep)]?.seq ?? 0);
    const at = this.lines.findLastIndex((line) => line.seq <= oldest && line.src === 'client' && raw(line.data).type === 'user');
    if (at <= 0) return false;
    const { todos, suggestion, rateLimit, model, permissionMode } = folded;
    const tasks = new Map([...folded.tasks].filter(([, task]) => task.endedAt === null));
    this.carried = { todos, suggestion, rateLimit, model, permissionMode, tasks };
    this.lines = this.lines.slice(at);
    this.known.forget(this.lines[0]!.seq);
    this.again();
    return true;
  }

  /** Puts the whole record in the place of one that was left out for its size. */
  replace(line: Line): void {
    const at = this.lines.findIndex((one) => one.seq === line.seq);
    if (at < 0) {
      this.add([line]);
      return;
    }
    this.lines[at] = line;
    this.again();
  }

  /** These numbers are missing in the journal for good. Pieces of whole messages, which a compaction takes out, say nothing more. */
  gap(first: number, last: number, reason: string): void {
    const src = reason === 'compacted' || reason === 'removed' ? reason : 'gap';
    this.add([{ seq: first, lastSeq: last, ts: '', src, by: null, data: null }]);
  }

  private again(): void {
    const { lines } = this;
    this.lines = [];
    // Rows that were drawn before must look changed.
    this.highest += 1_000_000_000;
    this.work = new Work(this.highest);
    Object.assign(this.folded, this.carried, { tasks: new Map([...this.carried.tasks ?? []].map(([id, task]) => [id, { ...task }])) });
    for (const line of lines) this.take(line);
  }

  private take(line: Line): void {
    const { work } = this;
    apply(work, line);
    const { folded } = work;
    if (line.src !== 'passed' && (folded.firstSeq === 0 || line.seq < folded.firstSeq)) folded.firstSeq = line.seq;
    if (line.lastSeq > folded.lastSeq) folded.lastSeq = line.lastSeq;
    this.keep(line);
  }

  private keep(line: Line): void {
    if (this.lines.at(-1)?.src === 'passed') this.lines.pop();
    const data = raw(line.data);
    const type = line.src === 'cli' ? data.type : undefined;
    if (type === 'stream_event' && joined(this.lines, line)) return;
    if (type === 'assistant' && data['trunkline.stub'] === undefined && this.work.unfinished.size === 0 && this.work.open.size <= 1) dropPieces(this.lines);
    this.lines.push(line);
  }
}

/** Joins a piece to the one before it, where both belong to one block. */
function joined(lines: Line[], line: Line): boolean {
  const before = lines.at(-1);
  if (before?.src !== 'cli' || before.lastSeq !== line.seq - 1) return false;
  const one = raw(before.data);
  const other = raw(line.data);
  if (one.type !== 'stream_event' || one.parent_tool_use_id !== other.parent_tool_use_id) return false;
  const first = raw(one.event);
  const second = raw(other.event);
  if (first.type !== 'content_block_delta' || second.type !== 'content_block_delta' || first.index !== second.index) return false;
  const a = raw(first.delta);
  const b = raw(second.delta);
  const member = entryOf({ text_delta: 'text', thinking_delta: 'thinking', input_json_delta: 'partial_json' }, str(a.type));
  if (member === undefined || a.type !== b.type) return false;
  const data = { ...one, event: { ...first, delta: { ...a, [member]: str(a[member]) + str(b[member]) } } };
  lines[lines.length - 1] = { ...before, lastSeq: line.lastSeq, data };
  return true;
}

/** Lets go of the pieces at the end that whole lines have replaced. The start of a message stays: more blocks may follow. */
function dropPieces(lines: Line[]): void {
  for (let at = lines.length - 1; at >= 0 && lines.length - at < 64; at -= 1) {
    const line = lines[at]!;
    const data = raw(line.data);
    if (line.src !== 'cli') continue;
    if (data.type === 'assistant' || data.type === 'result') return;
    const event = raw(data.event);
    if (data.type === 'stream_event' && event.type === 'content_block_delta') lines.splice(at, 1);
  }
}

/** Two lists in one, both in their order. */
function merged(lines: Line[], fresh: Line[]): Line[] {
  const last = fresh.at(-1)!;
  if (lines.length > 0 && last.seq < lines[0]!.seq) return [...fresh, ...lines];
  return [...lines, ...fresh].sort((one, other) => one.seq - other.seq);
}

function apply(work: Work, line: Line): void {
  const { data } = line;
  if (line.src === 'passed' || line.src === 'compacted') return;
  if (line.src === 'removed') {
    work.note(line, 'gap', `Records ${line.seq} to ${line.lastSeq} are no longer kept`);
    return;
  }
  if (line.src === 'gap') {
    work.note(line, 'gap', `Records ${line.seq} to ${line.lastSeq} are missing in the journal`, { tone: 'error' });
    return;
  }
  if (line.src === 'stderr' || line.src === 'stdout_text') {
    onText(work, line);
    return;
  }
  if (!isRaw(data)) {
    onUnknown(work, line, 'text');
    return;
  }
  if (line.src === 'daemon') onDaemon(work, line, data);
  else if (line.src === 'client') onClient(work, line, data);
  else if (line.src === 'cli') onCli(work, line, data);
  else onUnknown(work, line, line.src);
}

function onDaemon(work: Work, line: Line, data: Raw): void {
  if (data.type === 'approval') onApproval(work, line, data);
  else if (data.type === 'decision') onDecision(work, line, data);
  else onDaemonNote(work, line, data);
}

function onClient(work: Work, line: Line, data: Raw): void {
  if (data.type === 'user') onClientMessage(work, line, data);
  else if (data.type === 'control_request') onClientControl(work, line, data);
  else if (data.type === 'control_response') onAnswer(work, line, data);
}

function onCli(work: Work, line: Line, data: Raw): void {
  const stub = data['trunkline.stub'];
  if (isRaw(stub)) {
    const bytes = numOrNull(stub.bytes) ?? 0;
    if (data.type === 'user' && work.prompts.has(str(data.uuid))) onCliUser(work, line, data);
    else if (data.type === 'user') onLeftOutResult(work, line, data, bytes);
    else if (data.type === 'result') onTurnEnd(work, line, data);
    else if (data.type === 'assistant') onLeftOutAnswer(work, line, data, bytes);
    return;
  }
  switch (data.type) {
    case 'assistant': beginOldest(work, line); onAssistant(work, line, data); break;
    case 'stream_event': beginOldest(work, line); onStreamEvent(work, line, data); break;
    case 'user': onCliUser(work, line, data); break;
    case 'result': beginOldest(work, line); onTurnEnd(work, line, data); break;
    case 'system': onSystem(work, line, data); break;
    case 'control_request': onRequest(work, line, data); break;
    case 'control_response': onControlAnswer(work, line, data); break;
    case 'command_lifecycle': onLifecycle(work, line, data); break;
    case 'tool_progress': onToolProgress(work, data); break;
    default:
      if (!SILENT.has(str(data.type)) && !onBeside(work, line, data)) onUnknown(work, line, str(data.type));
  }
}
