// Owns the shapes of a folded conversation: blocks in their order, made of the journal's records and of nothing else.

/** One record of the journal, or the pieces of a message that the daemon joined (`lastSeq` beyond `seq`). */
export interface Line {
  seq: number;
  lastSeq: number;
  ts: string;
  src: string;
  by: string | null;
  data: unknown;
}

/** A part of the conversation that is drawn as one thing. */
export type Block = PromptBlock | TextBlock | ThinkingBlock | CallBlock | NoteBlock | TurnBlock;

interface Common {
  /** The same for the same thing, however the records came. */
  key: string;
  /** The record that it stands at, for links; 0: not in the journal yet. */
  seq: number;
  /** When it came, as the journal says. */
  at: string;
  /** Rises with each change. */
  version: number;
}

/** An image of a record. */
export interface Picture { mediaType: string; base64: string }

/** How far a prompt is. */
export type PromptState = 'sending' | 'sent' | 'queued' | 'started' | 'cancelled';

/** A message of a person, or of a program in a person's place. */
export interface PromptBlock extends Common {
  kind: 'prompt';
  uuid: string | null;
  /** Its sender: `rest`, `ws:<client id>`, …; `null`: this page, and the journal does not have it yet. */
  by: string | null;
  text: string;
  pictures: Picture[];
  state: PromptState;
  /** The CLI made it by itself, as when a task in the background ends. */
  isOfTheCli: boolean;
  /** The size of its record, where that is too large to come unasked: text and pictures are missing. */
  leftOutBytes: number | null;
}

/** A piece of Markdown that can be drawn by itself. All but the last one never change. */
export interface Part { text: string; isClosed: boolean }

/** Words of the agent. */
export interface TextBlock extends Common {
  kind: 'text';
  text: string;
  parts: Part[];
  /** More of it comes. */
  isOpen: boolean;
  /** It was cut by an interruption. */
  isCut: boolean;
  /** It tells of a fault of the API, under this name. */
  fault: string | null;
  /** The output of a command of the CLI itself, such as `/cost`. */
  isLocalCommand: boolean;
  /** The beginning is not loaded. */
  lacksBeginning: boolean;
}

/** Thoughts of the agent. */
export interface ThinkingBlock extends Common {
  kind: 'thinking';
  text: string;
  isOpen: boolean;
  ms: number | null;
  /** How many tokens it has taken so far; `null`: unknown. */
  tokens: number | null;
  lacksBeginning: boolean;
}

/** How far a call is. */
export type CallStatus = 'writing' | 'running' | 'asked' | 'done' | 'failed' | 'denied' | 'stopped';

/** The result of a call. */
export interface CallResult {
  text: string;
  pictures: Picture[];
  isError: boolean;
  /** The tool's own form of it (`tool_use_result`), if it has one. */
  typed: unknown;
  seq: number;
  at: string;
  /** Its size, if it is too large to come unasked. */
  leftOutBytes: number | null;
}

/** A question to a person about a call, and how it ended. */
export interface Asked {
  approvalId: string;
  /** The record of the request. */
  requestSeq: number;
  state: string;
  /** The decider; `null` while it waits. */
  by: string | null;
  at: string;
}

/** A sub-agent at work. */
export interface Agent {
  kind: string;
  task: string;
  taskId: string | null;
  steps: number;
  tokens: number | null;
  ms: number | null;
  /** Its present step, in words; `null`: none. */
  current: string | null;
  /** Its last words, once it has ended; empty: they are not known. */
  report: string;
  /** Its steps, in their order. */
  blocks: Block[];
  status: 'running' | 'done' | 'failed' | 'stopped';
}

/** A call of a tool. */
export interface CallBlock extends Common {
  kind: 'call';
  id: string;
  name: string;
  /** Its arguments; empty while they are being written. */
  input: Record<string, unknown>;
  /** Its input as JSON, as far as it is written; empty once it is whole. */
  partialJson: string;
  status: CallStatus;
  result: CallResult | null;
  asked: Asked | null;
  agent: Agent | null;
  /** The call that this one is part of; `null`: the agent's own. */
  parent: string | null;
  /** The task that the CLI made of it, if it runs long or in the background. */
  taskId: string | null;
  isInBackground: boolean;
  /** The one who changed its input before it was allowed, as the daemon names them. `input` is what ran. */
  changedBy: string | null;
  /** How long it took, or takes, as far as the CLI says. */
  ms: number | null;
}

/** Something that is drawn as a hairline: a restart, a compaction, a line on stderr, a kind that is not known. */
export interface NoteBlock extends Common {
  kind: 'note';
  code: string;
  text: string;
  /** More about it, on request. */
  detail: string;
  tone: 'quiet' | 'warning' | 'error';
  /** A record that was left out for its size: it can be loaded. */
  leftOutBytes: number | null;
  approvalId: string | null;
  /** The one who ended what was asked, as the daemon names them; empty while it waits. */
  endedBy: string;
}

/** The end of a turn. */
export interface TurnBlock extends Common {
  kind: 'turn';
  outcome: 'done' | 'failed' | 'interrupted';
  /** Why, in words, if it is not simply done. */
  reason: string;
  costUsd: number | null;
  ms: number | null;
  /** The result's text where no answer before said the same. */
  text: string;
  tokens: number | null;
}

/** A task in the background. */
export interface Task {
  id: string;
  kind: string;
  description: string;
  toolUseId: string | null;
  status: string;
  startedAt: string;
  endedAt: string | null;
  summary: string;
  current: string | null;
  tokens: number | null;
  isInBackground: boolean;
}

/** One item of the to-do list. */
export interface Todo { text: string; doing: string; status: 'pending' | 'in_progress' | 'completed' }

/** A limit of the account, as the CLI told it last. */
export interface RateLimit { status: string; kind: string | null; resetsAt: number | null; utilization: number | null }

/** The whole. */
export interface Folded {
  blocks: Block[];
  /** All calls, of sub-agents too, by their id. */
  calls: Map<string, CallBlock>;
  tasks: Map<string, Task>;
  todos: Todo[];
  /** The prompts that wait for a turn. */
  waiting: PromptBlock[];
  /** The CLI's proposal for the next message. */
  suggestion: string | null;
  rateLimit: RateLimit | null;
  model: string | null;
  permissionMode: string | null;
  /** Since when a turn runs; `null`: none does. */
  workingSince: string | null;
  isCompacting: boolean;
  /** The API is asked again: which try this is. */
  retry: { attempt: number; of: number; reason: string } | null;
  firstSeq: number;
  lastSeq: number;
}
