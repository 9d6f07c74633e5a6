// Owns what a request is about, in the page's words: its kind of card, its question, and the one line of a list.
import { isMine } from '../daemon/role';
import type { Approval, ApprovalSummary } from '../daemon/types';

/** How a request is drawn. */
export type CardKind = 'command' | 'change' | 'make' | 'tool' | 'question' | 'plan' | 'form' | 'visit' | 'dialog';

const asObject = (value: unknown): Record<string, unknown> => (value !== null && typeof value === 'object' && !Array.isArray(value) ? value as Record<string, unknown> : {});

/** The input of the call that is asked about. */
export const inputOf = (approval: Approval): Record<string, unknown> => asObject(asObject(approval.request).input ?? asObject(approval.request).tool_input);

/** The tool that is asked about; empty where it is none. */
export const toolOf = (approval: Pick<Approval, 'tool_name' | 'subject' | 'kind'>): string => approval.tool_name ?? (approval.kind === 'deferred' || approval.kind === 'tool' ? approval.subject : '');

/** Whether a tool runs the lines that it is given. Another tool's argument `command` is a word of its own. */
export const isShell = (tool: string): boolean => tool === 'Bash' || tool === 'PowerShell';

/** The server and the tool of an MCP tool's name. */
export function mcpOf(tool: string): { server: string; tool: string } | null {
  const match = /^mcp__(.+?)__(.+)$/.exec(tool);
  return match === null ? null : { server: match[1] ?? '', tool: match[2] ?? '' };
}

/** Which card a request has. */
export function cardKindOf(approval: Approval): CardKind {
  switch (approval.kind) {
    case 'question': return 'question';
    case 'plan': return 'plan';
    case 'elicitation': return approval.mode === 'url' ? 'visit' : 'form';
    case 'dialog': return 'dialog';
    default: break;
  }
  const input = inputOf(approval);
  const tool = toolOf(approval);
  if (isShell(tool) && typeof input.command === 'string') return 'command';
  if (tool === 'Write' && typeof input.content === 'string') return 'make';
  if (/^(?:Edit|MultiEdit|NotebookEdit)$/.test(tool)) return 'change';
  return 'tool';
}

/** A path as people write it inside a directory. */
export const shortPath = (path: string, cwd: string): string => (path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path);

/** The host of an address; the whole of one that has none. */
export function hostOf(address: string): string {
  try {
    return new URL(address).host || address;
  } catch {
    return address;
  }
}

/** The file that a request is about. */
export function pathOf(approval: Approval): string | null {
  const { file_path: file, notebook_path: notebook, path } = inputOf(approval);
  return [file, notebook, path].find((one): one is string => typeof one === 'string') ?? null;
}

/** The question at the head of a card. */
export function questionOf(approval: Approval, cwd: string): string {
  const tool = toolOf(approval);
  const path = pathOf(approval);
  const input = inputOf(approval);
  switch (cardKindOf(approval)) {
    case 'command': return 'Run a command?';
    case 'change': return path === null ? `Use ${tool}?` : `Change ${shortPath(path, cwd)}?`;
    case 'make': return path === null ? 'Make a file?' : `Make ${shortPath(path, cwd)}?`;
    case 'plan': return 'A plan to review';
    case 'question': return String(asObject(approval.questions?.[0]).question ?? 'A question');
    case 'form': return `${approval.display_name ?? approval.subject} asks`;
    case 'visit': return `Visit a page for ${approval.display_name ?? approval.subject}?`;
    case 'dialog': return approval.title ?? `The agent shows ${approval.subject}`;
    default: break;
  }
  const mcp = mcpOf(tool);
  if (mcp !== null) return `Use ${mcp.server}: ${mcp.tool}?`;
  if (typeof input.url === 'string') return `Fetch a page from ${hostOf(input.url)}?`;
  if (tool === 'WebSearch') return 'Search the web?';
  if (/^(?:Read|NotebookRead)$/.test(tool) && path !== null) return `Read ${shortPath(path, cwd)}?`;
  if (/^(?:Glob|Grep|LS)$/.test(tool)) return path === null ? 'Look through files?' : `Look through ${shortPath(path, cwd)}?`;
  return `Use ${tool || approval.subject}?`;
}

/** A request as a row says it: a word, and the rest in one line. */
export function lineOf(approval: Approval, cwd: string): { word: string; text: string } {
  const input = inputOf(approval);
  const path = pathOf(approval);
  switch (cardKindOf(approval)) {
    case 'command': return { word: 'Run', text: String(input.command) };
    case 'change': return { word: 'Change', text: shortPath(path ?? toolOf(approval), cwd) };
    case 'make': return { word: 'Make', text: shortPath(path ?? '', cwd) };
    case 'question': return { word: 'Asks', text: questionOf(approval, cwd) };
    case 'plan': return { word: 'Plan', text: (approval.plan ?? '').replace(/^[\s#*-]+/, '').split('\n')[0] ?? '' };
    case 'form': case 'visit': return { word: 'Asks', text: approval.message ?? approval.subject };
    case 'dialog': return { word: 'Shows', text: approval.subject };
    default: break;
  }
  const mcp = mcpOf(toolOf(approval));
  if (typeof input.url === 'string') return { word: 'Fetch', text: input.url };
  return { word: 'Use', text: mcp === null ? [toolOf(approval) || approval.subject, shortPath(path ?? '', cwd)].filter(Boolean).join(' ') : `${mcp.server}: ${mcp.tool}` };
}

/** The words of a row before the whole request is there. */
export function briefOf(summary: ApprovalSummary): { word: string; text: string } {
  if (summary.kind === 'question') return { word: 'Asks', text: 'a question' };
  if (summary.kind === 'plan') return { word: 'Plan', text: 'to review' };
  if (summary.kind === 'elicitation') return { word: 'Asks', text: summary.subject };
  return { word: 'Use', text: summary.tool_name ?? summary.subject };
}

/** Whether a decision is one of a person, or of a program of theirs. */
export const isPersons = (by: string | null): boolean => by !== null && /^(rest$|login:|ws:)/.test(by);

const ID = /^[0-9a-f-]{36}$/;

/** The decider in words: `phone`, `the rule no-env`, `you`. */
export function whoOf(by: string): string {
  if (isMine(by)) return 'you';
  const [kind, ...rest] = by.split(':');
  const name = rest.join(':');
  switch (kind) {
    case 'rest': return 'somebody';
    case 'login': case 'ws': return ID.test(name) ? 'somebody' : name;
    case 'rule': return `the rule ${name}`;
    case 'expiry': return `the time limit of the rule ${name}`;
    case 'covered': return 'another decision that covers it';
    case 'webhook': return `the hook at place ${name}`;
    case 'fixed': return `the fixed answer of the hook at place ${name}`;
    case 'cli': return 'the agent';
    case 'daemon': return 'the daemon';
    default: return by;
  }
}

const ENDS: Record<string, string> = {
  allowed: 'Allowed', denied: 'Denied', cancelled: 'Cancelled', withdrawn: 'Taken back', abandoned: 'Its process ended', changed: 'Changed', overruled: 'Overruled',
};

/** How a request ended, in a line: `Allowed by phone`. */
export function endOf(approval: Approval): string {
  const word = ENDS[approval.state] ?? approval.state;
  const by = approval.resolution?.by;
  if (approval.state === 'withdrawn' || approval.state === 'abandoned' || by === undefined) return approval.state === 'withdrawn' ? 'It no longer waits for this.' : `${word}.`;
  return `${word} by ${whoOf(by)}`;
}
