// Owns the draft of a new session: what its form holds, what the daemon is asked for, and what is wrong with it.
import { TrunklineError, newUuid } from 'trunkline-client';
import { said } from '../daemon/daemon';
import type { CreateRequest, LaunchOptions } from '../daemon/types';
import { MODES } from '../parts/mode-words';
import { PAGE_OPTIONS } from './launch';

/** The form's content, as text. */
export interface Draft {
  /** Where its conversation comes from: `new`, `resume`, or the id of the session of which it is a fork. */
  from: string;
  conversation: string;
  cwd: string;
  prompt: string;
  model: string;
  mode: string;
  effort: string;
  title: string;
  tag: string;
  labels: string;
  allowed: string;
  disallowed: string;
  budget: string;
  servers: { name: string; json: string }[];
}

/** An empty form. */
export const EMPTY: Draft = {
  from: 'new', conversation: '', cwd: '', prompt: '', model: '', mode: '', effort: '', title: '', tag: '', labels: '', allowed: '', disallowed: '', budget: '', servers: [],
};

/** How much effort goes into an answer. */
export const EFFORTS: readonly NonNullable<LaunchOptions['effort']>[] = ['low', 'medium', 'high', 'xhigh', 'max'];

/** Problems by the field at which they stand. */
export type Problems = Partial<Record<keyof Draft | 'form', string>>;

const lines = (text: string): string[] => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');

/** The request for a draft, or what is wrong with it. */
export function requestOf(draft: Draft): { request: CreateRequest } | { problems: Problems } {
  const problems: Problems = {};
  const options: LaunchOptions = { ...PAGE_OPTIONS };
  if (!draft.cwd.trim().startsWith('/')) problems.cwd = 'An absolute path, such as /home/me/project.';
  if (draft.model.trim() !== '') options.model = draft.model.trim();
  const mode = MODES.find((one) => one.mode === draft.mode)?.mode;
  if (mode !== undefined) options.permission_mode = mode as NonNullable<LaunchOptions['permission_mode']>;
  const effort = EFFORTS.find((one) => one === draft.effort);
  if (effort !== undefined) options.effort = effort;
  if (lines(draft.allowed).length > 0) options.allowed_tools = lines(draft.allowed);
  if (lines(draft.disallowed).length > 0) options.disallowed_tools = lines(draft.disallowed);
  if (draft.budget.trim() !== '') {
    const budget = Number(draft.budget);
    if (Number.isFinite(budget) && budget > 0) options.max_budget_usd = budget;
    else problems.budget = 'A number of US dollars above 0.';
  }
  if (draft.from === 'resume') {
    if (draft.conversation.trim() === '') problems.conversation = 'The CLI\'s own id of the conversation.';
    else options.resume = draft.conversation.trim();
  }
  const labels: Record<string, string> = {};
  for (const line of lines(draft.labels)) {
    const at = line.indexOf('=');
    if (at < 1) problems.labels = `"${line}" is no label: write key=value, one a line.`;
    else labels[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  const servers: Record<string, Record<string, unknown>> = {};
  for (const { name, json } of draft.servers) {
    if (name.trim() === '' && json.trim() === '') continue;
    const read = objectOf(json);
    if (name.trim() === '') problems.servers = 'Each server has a name.';
    else if (read === undefined) problems.servers = `"${name}" is no JSON object, such as {"command": "my-server"}.`;
    else servers[name.trim()] = read;
  }
  if (Object.keys(servers).length > 0) options.mcp_servers = servers as NonNullable<LaunchOptions['mcp_servers']>;
  if (Object.keys(problems).length > 0) return { problems };
  const request: CreateRequest = { cwd: draft.cwd.trim(), options };
  if (draft.prompt.trim() !== '') request.prompt = draft.prompt;
  if (draft.title.trim() !== '') request.title = draft.title.trim();
  if (draft.tag.trim() !== '') request.tag = draft.tag.trim();
  if (Object.keys(labels).length > 0) request.labels = labels;
  return { request };
}

function objectOf(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : undefined;
  } catch {
    return undefined;
  }
}

const FIELDS: [prefix: string, field: keyof Draft][] = [
  ['options.model', 'model'], ['options.permission_mode', 'mode'], ['options.effort', 'effort'], ['options.allowed_tools', 'allowed'],
  ['options.disallowed_tools', 'disallowed'], ['options.max_budget_usd', 'budget'], ['options.mcp_servers', 'servers'], ['options.resume', 'conversation'],
  ['cwd', 'cwd'], ['prompt', 'prompt'], ['title', 'title'], ['tag', 'tag'], ['labels', 'labels'],
];

/** The field that the daemon means, by the name that it gives it. */
export const fieldOf = (name: string | null | undefined): keyof Problems =>
  FIELDS.find(([prefix]) => name === prefix || name?.startsWith(`${prefix}.`) || name?.startsWith(`${prefix}[`))?.[1] ?? 'form';

/** The daemon's refusal, in words at the field that it means. */
export function problemsOf(error: unknown): Problems {
  const named = error instanceof TrunklineError ? (error.problem as { field?: string | null }).field ?? (error.code.includes('cwd') ? 'cwd' : null) : null;
  return { [fieldOf(named)]: said(error).text };
}

/** The keys of requests, for one form: the same request again gets the first answer, so that a lost one makes no second session. */
export function requestKeys(): (body: unknown) => string {
  let key = { of: '', name: '' };
  return (body) => {
    const of = JSON.stringify(body);
    if (key.of !== of) key = { of, name: newUuid() };
    return key.name;
  };
}

const NAME = 'trunkline.new-session';

/** The draft of before, if it was not sent. Servers may hold secrets and are not kept. */
export function keptDraft(): Partial<Draft> {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? '{}') as Partial<Draft>;
  } catch {
    return {};
  }
}

/** Keeps a draft; `null` forgets it. */
export function keepDraft(draft: Draft | null): void {
  try {
    if (draft === null) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, JSON.stringify({ ...draft, servers: [] }));
  } catch { /* it lasts as long as the page */ }
}
