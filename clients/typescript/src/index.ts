/**
 * A client of Trunkline: the whole API with its types, and a socket that comes back by itself.
 * @packageDocumentation
 */
export type { components, paths } from './api.js';
export { Attachment, type ApprovalContext, type AttachOptions, type Hook, type HookContext } from './attachment.js';
export { Session, Trunkline, type TrunklineOptions } from './client.js';
export { ClosedError, HistoryDiffersError, TrunklineError, UnreachableError } from './errors.js';
export type { Frame, GapFrame, ShutdownFrame, SnapshotFrame } from './frames.js';
export type { FindOptions } from './reach.js';
export type { McpServer, McpTool, ToolAnnotations, ToolResult } from './mcp.js';
export { cli, note, said, type CliMessages, type JournalRecord, type Notes, type Source } from './records.js';
export type { Rest } from './rest.js';
export type * from './types.js';
export { newUuid } from './uuid.js';
