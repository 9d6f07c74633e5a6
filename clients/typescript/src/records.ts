/**
 * Owns the records of a journal: those kinds that programs use are typed, and all others pass as they are.
 *
 * The payload is the CLI's, byte for byte as JSON has it. Kinds and members may be added at any time.
 */

/** Where a record comes from. More may be added. */
export type Source = 'cli' | 'client' | 'daemon' | 'stdout_text' | 'stderr' | (string & {});

/** One record of a session's journal. */
export interface JournalRecord {
  /** Its number: contiguous from 1. */
  seq: number;
  /** When it was written, in RFC 3339. */
  ts: string;
  /** Where it comes from. */
  src: Source;
  /** The author of a line to the CLI, such as `rest` or `ws:<client id>`. */
  by?: string;
  /** A message of the CLI or to it, a note of the daemon, or a text. {@link cli} and {@link note} give it its type. */
  data: unknown;
}

interface Open {
  [member: string]: unknown;
}

/** A block of a message's content. */
export interface ContentBlock extends Open {
  type: 'text' | 'thinking' | 'tool_use' | 'tool_result' | 'image' | (string & {});
  text?: string;
  id?: string;
  name?: string;
  input?: Record<string, unknown>;
  tool_use_id?: string;
  content?: unknown;
  is_error?: boolean;
}

interface OfConversation extends Open {
  uuid?: string;
  session_id?: string;
  /** The call of the sub-agent that says it; `null` for the main one. */
  parent_tool_use_id?: string | null;
}

/** The messages of the CLI, by their `type`. */
export interface CliMessages {
  assistant: OfConversation & {
    type: 'assistant';
    message: Open & { id: string; model: string; role: 'assistant'; content: ContentBlock[]; stop_reason?: string | null };
  };
  user: OfConversation & {
    type: 'user';
    message: Open & { role: 'user'; content: string | ContentBlock[] };
    tool_use_result?: unknown;
  };
  result: OfConversation & {
    type: 'result';
    subtype: 'success' | 'error_during_execution' | 'error_max_turns' | 'error_max_budget_usd' | (string & {});
    is_error: boolean;
    result?: string;
    duration_ms: number;
    num_turns: number;
    total_cost_usd: number;
    usage: Open & { input_tokens: number; output_tokens: number };
    structured_output?: unknown;
  };
  system: OfConversation & { type: 'system'; subtype: 'init' | 'status' | 'compact_boundary' | (string & {}) };
  stream_event: OfConversation & {
    type: 'stream_event';
    event: Open & { type: string; delta?: Open & { type?: string; text?: string } };
  };
  control_request: Open & {
    type: 'control_request'; request_id: string;
    request: Open & { subtype: 'can_use_tool' | 'hook_callback' | 'mcp_message' | 'elicitation' | (string & {}) };
  };
  control_response: Open & { type: 'control_response'; response: Open & { subtype: string; request_id: string } };
  control_cancel_request: Open & { type: 'control_cancel_request'; request_id: string };
}

/** The notes of the daemon, by their `type`. */
export interface Notes {
  run_started: Open & { type: 'run_started'; run_id: string; mode: string };
  run_exited: Open & { type: 'run_exited'; run_id: string; code: number | null; signal: number | null; killed: boolean };
  run_lost: Open & { type: 'run_lost'; run_id: string };
  start_failed: Open & { type: 'start_failed'; reason: Open };
  stop_requested: Open & { type: 'stop_requested'; by: string };
  state: Open & {
    type: 'state';
    state: 'starting' | 'idle' | 'busy' | 'waiting' | 'stopping' | 'stopped' | 'failed' | 'parked' | (string & {});
  };
  approval: Open & {
    type: 'approval'; approval_id: string; request_id: string; seq: number; kind: string; subject: string;
  };
  decision: Open & { type: 'decision'; approval_id: string; state: string; by: string };
  fallback: Open & { type: 'fallback'; request_id: string; subtype: string; reason?: string };
  notice: Open & { type: 'notice'; code: string; detail?: string };
}

function dataOf(record: JournalRecord, src: Source, type: string): unknown {
  const { data } = record;
  const isIt = record.src === src && typeof data === 'object' && data !== null && (data as { type?: unknown }).type === type;
  return isIt ? data : undefined;
}

/** The message of the CLI in a record, if it is one of this type. */
export function cli<T extends keyof CliMessages>(record: JournalRecord, type: T): CliMessages[T] | undefined {
  return dataOf(record, 'cli', type) as CliMessages[T] | undefined;
}

/** The note of the daemon in a record, if it is one of this type. */
export function note<T extends keyof Notes>(record: JournalRecord, type: T): Notes[T] | undefined {
  return dataOf(record, 'daemon', type) as Notes[T] | undefined;
}

/** The text that the agent says in a record; empty where it says none. */
export function said(record: JournalRecord): string {
  const blocks = cli(record, 'assistant')?.message.content ?? [];
  return blocks.map((block) => (block.type === 'text' ? (block.text ?? '') : '')).join('');
}
