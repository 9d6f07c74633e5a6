// Owns the short names of the API's shapes that the page uses.
import type { components } from 'trunkline-client';

type Schemas = components['schemas'];
export type Session = Schemas['Session'];
export type SessionSummary = Schemas['SessionSummary'];
export type Approval = Schemas['Approval'];
export type AttachedClient = Schemas['AttachedClient'];
export type ApprovalSummary = Schemas['ApprovalSummary'];
export type Attention = Schemas['Attention'];
export type DecisionRequest = Schemas['DecisionRequest'];
export type FindHit = Schemas['FindHit'];
export type FindPage = Schemas['FindPage'];
export type QueuedPrompt = Schemas['QueuedPrompt'];
export type LobbyFrame = Schemas['LobbyFrame'];
export type LaunchOptions = Schemas['LaunchOptions'];
export type CreateRequest = Schemas['CreateRequest'];
export type SessionState = Schemas['SessionState'];
export type Readiness = Schemas['Readiness'];
export type Usage = Schemas['Usage'];
export type RateLimit = Schemas['AccountRateLimit'];
