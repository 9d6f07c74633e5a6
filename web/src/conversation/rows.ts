// Owns which rows the transcript has: blocks in their turns, ended turns folded to their work line, and agents at work together
// as one group.
import type { Block, CallBlock, Folded, NoteBlock, PromptBlock, TextBlock, ThinkingBlock, TurnBlock } from '../fold/model';
import { isPersons } from '../lobby/request';

/** The work of a turn, in figures. */
export interface WorkDone {
  steps: number;
  files: number;
  failed: number;
  ms: number | null;
  costUsd: number | null;
  /** Since when it works; `null`: it has ended. */
  since: string | null;
  current: CallBlock | null;
}

/** One row of the transcript. `version` is another one when it is to be drawn anew. */
export type Row = { key: string; seq: number; version: number | string } & (
  | { kind: 'prompt'; block: PromptBlock }
  | { kind: 'text'; block: TextBlock; part: number }
  | { kind: 'thinking'; block: ThinkingBlock }
  | { kind: 'call'; block: CallBlock }
  | { kind: 'group'; calls: CallBlock[] }
  | { kind: 'note'; block: NoteBlock }
  | { kind: 'turn'; block: TurnBlock }
  | { kind: 'work'; work: WorkDone; isOpen: boolean }
  | { kind: 'new'; since: string }
  | { kind: 'begin'; since: string });

/** How the reader has it. */
export interface View {
  /** Turns that ended up to this record are folded. */
  foldUpTo: number;
  /** Turns that the reader opened or folded, by the key of their work line. */
  chosen: ReadonlyMap<string, boolean>;
  /** Records after this one are new; 0: none is. */
  newAfter: number;
  /** There are older records that are not loaded. */
  hasOlder: boolean;
  /** A record to show: its turn is open, unless the reader folds it. */
  marked?: number | null;
}

/** More agents than that, one after the other, are a group. */
const LONE_AGENTS = 2;

/** The rows of a conversation. */
export function rowsOf(folded: Folded, echoes: readonly PromptBlock[], view: View): Row[] {
  const rows: Row[] = [];
  const { blocks } = folded;
  if (!view.hasOlder && blocks.length > 0) rows.push({ kind: 'begin', key: 'begin', seq: 0, version: 0, since: blocks[0]!.at });
  let from = 0;
  while (from < blocks.length) {
    let to = from;
    while (to < blocks.length && blocks[to]!.kind !== 'turn') to += 1;
    const end = blocks[to];
    const turn = blocks.slice(from, Math.min(to + 1, blocks.length));
    turnRows(rows, turn, end?.kind === 'turn' ? end : null, folded, view, view.hasOlder && from === 0);
    from = to + 1;
  }
  const isIdle = folded.workingSince === null;
  for (const block of isIdle ? folded.waiting : []) rows.push(plain(block));
  for (const block of echoes) if (isIdle) rows.push(plain(block));
  markNew(rows, blocks, view.newAfter);
  return rows;
}

/** The rows of one turn. `isPart`: it began before the oldest record that is loaded. */
function turnRows(rows: Row[], turn: Block[], end: TurnBlock | null, folded: Folded, view: View, isPart: boolean): void {
  const calls = turn.filter((block): block is CallBlock => block.kind === 'call');
  // By its end, as older records of the same turn may come before the first block that is there.
  const key = `work:${(end ?? turn[0]!).key}`;
  const isMarked = view.marked != null && end !== null && turn[0]!.seq <= view.marked && view.marked <= end.seq;
  const isOpen = view.chosen.get(key) ?? (isMarked || !(end !== null && end.seq <= view.foldUpTo));
  let firstOfWork = turn.findIndex((block) => block.kind !== 'prompt' && block.kind !== 'note');
  if (firstOfWork < 0) firstOfWork = turn.length;
  const stays = isOpen || calls.length === 0 ? null : staying(turn);
  const shown: Block[] = [];
  for (const [index, block] of turn.entries()) {
    // The work line of a part would stay above all that comes before it, and take the reader along.
    if (index === firstOfWork && calls.length > 0 && !(isPart && isOpen && view.chosen.get(key) !== true)) {
      flush(rows, shown.splice(0));
      const work = workOf(calls, end, folded);
      const version = `${isOpen} ${work.steps} ${work.files} ${work.failed} ${work.since} ${work.current?.key} ${work.current?.version}`;
      rows.push({ kind: 'work', key, seq: block.seq, version, work, isOpen });
    }
    if (block === end && end.outcome === 'done' && end.text === '' && calls.length > 0) continue;
    if (stays === null || stays.has(block)) shown.push(block);
  }
  flush(rows, shown);
}

/** The parts of a folded turn that stay: prompts, the final text, failures and decisions of people. */
function staying(turn: Block[]): Set<Block> {
  const lastCall = turn.findLastIndex((block) => block.kind === 'call' || block.kind === 'thinking');
  return new Set(turn.filter((block, index) => {
    switch (block.kind) {
      case 'prompt': case 'turn': return true;
      case 'text': return index > lastCall || block.fault !== null;
      case 'note': return block.tone === 'error' || block.approvalId !== null;
      case 'call': return block.status === 'failed' || block.status === 'denied' || isPersons(block.asked?.by ?? null);
      default: return false;
    }
  }));
}

const FILE_TOOLS = new Set(['Edit', 'Write', 'MultiEdit', 'NotebookEdit']);

function workOf(calls: CallBlock[], end: TurnBlock | null, folded: Folded): WorkDone {
  const files = new Set(calls.filter((call) => FILE_TOOLS.has(call.name) && call.status === 'done').map((call) => call.input.file_path ?? call.input.notebook_path));
  const running = calls.findLast((call) => call.status === 'running' || call.status === 'writing' || call.status === 'asked') ?? null;
  return {
    steps: calls.length, files: files.size, failed: calls.filter((call) => call.status === 'failed').length, ms: end?.ms ?? null,
    costUsd: end?.costUsd ?? null, since: end === null ? folded.workingSince : null, current: running,
  };
}

/** Blocks become rows: a text one for each of its parts, agents beside each other a group. */
function flush(rows: Row[], blocks: Block[]): void {
  for (let at = 0; at < blocks.length; at += 1) {
    const block = blocks[at]!;
    switch (block.kind) {
      case 'text':
        for (const [part, { text }] of block.parts.entries()) {
          const isClosed = block.parts[part]!.isClosed;
          if (text.trim() !== '') rows.push({ kind: 'text', key: `${block.key}/${part}`, seq: block.seq, version: isClosed && !block.isCut ? text.length : block.version, block, part });
        }
        break;
      case 'call': {
        let to = at;
        while (isAgent(blocks[to])) to += 1;
        if (to - at > LONE_AGENTS) {
          const calls = blocks.slice(at, to) as CallBlock[];
          rows.push({ kind: 'group', key: `group:${block.key}`, seq: block.seq, version: calls.map((call) => call.version).join(), calls });
          at = to - 1;
        } else rows.push(plain(block));
        break;
      }
      default: rows.push(plain(block));
    }
  }
}

/** The row of a block that is one row. */
function plain(block: Exclude<Block, TextBlock>): Row {
  return { kind: block.kind, key: block.key, seq: block.seq, version: block.version, block } as Row;
}

/** Whether a row would be drawn as it is drawn. */
export function isSameRow(one: Row | undefined, other: Row | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  const blockOf = (row: Row) => ('block' in row ? row.block : null);
  return one.key === other.key && one.version === other.version && one.kind === other.kind && (one.kind === 'text' || blockOf(one) === blockOf(other));
}

const isAgent = (block: Block | undefined): boolean => block?.kind === 'call' && block.agent !== null;

function markNew(rows: Row[], blocks: Block[], newAfter: number): void {
  if (newAfter === 0) return;
  const at = rows.findIndex((row) => row.seq > newAfter && row.kind !== 'work');
  const before = blocks.findLast((block) => block.seq <= newAfter);
  if (at > 0 && before !== undefined) rows.splice(at, 0, { kind: 'new', key: 'new', seq: newAfter, version: 0, since: before.at });
}
