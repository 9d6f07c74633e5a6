/** Owns the names of the API's types that programs use most. All others are in `components['schemas']`. */
import type { components } from './api.js';

type Schemas = components['schemas'];

/** Something that the agent asks a person. */
export type Approval = Schemas['Approval'];
export type QueuedPrompt = Schemas['QueuedPrompt'];
/** The decision about an approval. */
export type Decision = Schemas['DecisionRequest'];
/** A session to be made. */
export type CreateRequest = Schemas['CreateRequest'];
/** A fork to be made. */
export type ForkRequest = Schemas['ForkRequest'];
/** The stable code of a problem. Codes may be added. */
export type ErrorCode = Schemas['ErrorCode'];
/** A fault, as a problem (RFC 9457). */
export type Problem = Schemas['Problem'];
/** A message to the agent. */
export type Message = Schemas['SendRequest'];
/** A message was taken. */
export type SendReply = Schemas['SendReply'];
/** A session as it is now. */
export type SessionView = Schemas['Session'];
/** A finished turn with its costs. */
export type Turn = Schemas['Turn'];
