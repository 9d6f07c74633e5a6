/** Owns the frames of `trunkline.v1` that are no records. */
import type { Approval, Problem, QueuedPrompt, SessionView } from './types.js';

/** The first frame of a connection: the session at the moment at which the records after `after` begin to follow. */
export interface SnapshotFrame {
  type: 'trunkline.snapshot';
  /** The connection's id. */
  connection_id: string;
  /** The name under which it is attached. */
  client_id: string;
  /** The last record that is history of this connection. */
  head_seq: number;
  /** The records after this number follow. */
  after: number;
  /** The session. */
  session: SessionView;
  /** The open questions of the agent to people. */
  pending_approvals: Approval[];
  /** The other requests of the CLI that a client may answer: 256 at most. */
  pending_requests: PendingRequest[];
  /** How many more of these are open. */
  waiting_requests: number;
  /** The messages that wait in the daemon, in their order. */
  queue: QueuedPrompt[];
  /** The clients that are attached, this one too. */
  clients: AttachedClient[];
}

/** A client that is attached to a session. */
export interface AttachedClient {
  /** Its connection, by the id that its own snapshot has. */
  connection_id: string;
  /** The name that it gave itself. */
  client_id: string | null;
  /** The name of the login that it came with, such as that of a browser. */
  login: string | null;
  role: string;
}

/** A request of the CLI that a client may answer. */
export interface PendingRequest {
  request_id: string;
  seq: number;
  subtype: string;
  /** Whose it is; `null`: anyone's. */
  client_id: string | null;
  request: CliRequest;
  request_truncated: boolean;
}

/** The request of a `control_request` of the CLI. */
export interface CliRequest {
  subtype: string;
  callback_id?: string;
  input?: Record<string, unknown>;
  tool_use_id?: string;
  server_name?: string;
  message?: JsonRpc;
  [member: string]: unknown;
}

/** A message of MCP. */
export interface JsonRpc {
  id?: number | string | null;
  method?: string;
  params?: Record<string, unknown>;
}

/** These records come next and are missing. */
export interface GapFrame {
  type: 'trunkline.gap';
  /** The first record that is missing. */
  first_seq: number;
  /** The last one. */
  last_seq: number;
  /**
   * Why: the journal was damaged (`lost`), a compaction took out pieces of messages that are there as a whole (`compacted`), or
   * they are older than what the daemon keeps (`removed`). Daemons of earlier versions do not say.
   */
  reason?: 'lost' | 'compacted' | 'removed' | (string & {});
}

/** The daemon ends or starts again. */
export interface ShutdownFrame {
  type: 'trunkline.shutdown';
  /** The pause in milliseconds before another try makes sense. */
  reconnect_after_ms: number;
}

/** The messages that wait in the daemon have changed. */
export interface QueueFrame {
  type: 'trunkline.queue';
  /** Those that wait now, in their order. */
  queue: QueuedPrompt[];
}

/** A client was attached, or left. */
export interface ClientsFrame {
  type: 'trunkline.clients';
  /** Those that are attached now, the first one first. */
  clients: AttachedClient[];
}

/** A line of ours is in the journal. */
export interface AckFrame {
  type: 'trunkline.ack';
  for: string;
  request_id?: string;
}

/** A line of ours was not taken. */
export interface ErrorFrame extends Problem {
  type: 'trunkline.error';
  request_id?: string;
}

/** The answer to a control request of ours. */
export interface ResponseFrame {
  type: 'control_response';
  response: { subtype: string; request_id: string; error?: string; response?: unknown };
}

/** A frame that is no record. More types may be added. */
export type Frame =
  | SnapshotFrame | GapFrame | ShutdownFrame | AckFrame | QueueFrame | ClientsFrame | ErrorFrame | ResponseFrame | { type: 'trunkline.pong' };
