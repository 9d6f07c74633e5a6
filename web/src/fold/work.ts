// Owns the state of a fold while it goes over the records: what is open, and who belongs to whom.
import type { Agent, Block, CallBlock, Folded, Line, NoteBlock, PromptBlock, TextBlock, ThinkingBlock } from './model';
import { PartCutter } from './parts';
import { str } from './raw';

/** A request of the CLI to its host. */
export interface CliRequest { seq: number; subtype: string; toolUseId: string | null; toolName: string; input: Record<string, unknown>; agentId: string | null }

/** The message that is being streamed in a thread. */
interface OpenMessage { id: string; blocks: Map<number, Streamed> }
export type Streamed = TextBlock | ThinkingBlock | CallBlock;

/** An empty conversation. */
export const nothing = (): Folded => ({
  blocks: [], calls: new Map(), tasks: new Map(), todos: [], waiting: [], suggestion: null, rateLimit: null, model: null,
  permissionMode: null, workingSince: null, isCompacting: false, retry: null, firstSeq: 0, lastSeq: 0,
});

/** All that a fold knows while it goes over the records. */
export class Work {
  readonly folded: Folded = nothing();
  readonly open = new Map<string | null, OpenMessage>();
  readonly cutters = new Map<TextBlock, PartCutter>();
  readonly prompts = new Map<string, PromptBlock>();
  readonly requests = new Map<string, CliRequest>();
  readonly asked = new Map<string, CallBlock | NoteBlock>();
  /** Streamed blocks that wait for their whole line, by their message. */
  readonly unfinished = new Map<string, (TextBlock | ThinkingBlock)[]>();
  /** The blocks of a message that are whole, to count them. */
  readonly wholeLines = new Map<string, number>();
  /** Where the turn that runs began in `blocks`. */
  turnStart = 0;
  interruptedBy: string | null = null;
  /** Controls that the CLI has not answered, with the words for either answer. */
  readonly controls = new Map<string, { done: string; refused: string }>();
  runs = 0;

  /** `version` is where the versions of new blocks begin: beyond all that were drawn before. */
  constructor(readonly version: number) {}

  /** The blocks of the agent, or of the sub-agent of this call. */
  thread(parent: string | null, line: Line): Block[] {
    return parent === null ? this.folded.blocks : this.agentOf(parent, line).blocks;
  }

  /** The sub-agent of a call. A call that is not loaded yet has a place here until it is. */
  agentOf(id: string, line: Line): Agent {
    const call = this.call(id, line, null);
    if (call.agent === null) {
      call.agent = {
        kind: str(call.input.subagent_type) || 'agent', task: str(call.input.description), taskId: null, steps: 0, tokens: null,
        ms: null, current: null, report: '', blocks: [], status: 'running',
      };
      this.touch(call);
    }
    return call.agent;
  }

  /** The call with this id, made if it is not known. */
  call(id: string, line: Line, parent: string | null): CallBlock {
    const known = this.folded.calls.get(id);
    if (known !== undefined) return known;
    const made: CallBlock = {
      kind: 'call', key: `call:${id}`, seq: line.seq, at: line.ts, version: this.version, id, name: '', input: {}, partialJson: '',
      status: 'running', result: null, asked: null, agent: null, parent, taskId: null, isInBackground: false, changedBy: null, ms: null,
    };
    this.folded.calls.set(id, made);
    this.thread(parent, line).push(made);
    return made;
  }

  /** A hairline in the agent's own thread. */
  note(line: Line, code: string, text: string, more: Partial<NoteBlock> = {}): NoteBlock {
    const made: NoteBlock = {
      kind: 'note', key: `note:${line.seq}`, seq: line.seq, at: line.ts, version: this.version, code, text, detail: '', tone: 'quiet',
      leftOutBytes: null, approvalId: null, endedBy: '', ...more,
    };
    this.folded.blocks.push(made);
    return made;
  }

  /** A block has changed. */
  touch(block: Block): void {
    block.version += 1;
    // A sub-agent is drawn in its call.
    if (block.kind === 'call' && block.parent !== null) {
      const parent = this.folded.calls.get(block.parent);
      if (parent !== undefined) this.touch(parent);
    }
  }

  /** Something of a sub-agent's thread has changed. */
  touchParent(parent: string | null): void {
    const call = parent === null ? undefined : this.folded.calls.get(parent);
    if (call !== undefined) this.touch(call);
  }

  /** A turn runs. */
  begin(line: Line): void {
    if (this.folded.workingSince !== null) return;
    this.folded.workingSince = line.ts;
  }
}
