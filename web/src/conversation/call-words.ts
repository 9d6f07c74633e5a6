// Owns what is said of a call in one line: its kind, its first words, and its figures.
import type { CallBlock } from '../fold/model';
import { inputOf } from '../fold/partial-json';
import { entryOf, isRaw, list, numOrNull, raw, str } from '../fold/raw';
import { clock, count, many, span } from '../parts/time';

/** The kinds of cards. */
export type CardKind = 'command' | 'edit' | 'write' | 'read' | 'search' | 'fetch' | 'websearch' | 'mcp' | 'todo' | 'plan' | 'question' | 'agent' | 'other';

const KINDS: Record<string, CardKind> = {
  Bash: 'command', PowerShell: 'command', Edit: 'edit', MultiEdit: 'edit', NotebookEdit: 'edit', Write: 'write', Read: 'read', Grep: 'search', Glob: 'search',
  LS: 'search', WebFetch: 'fetch', web_fetch: 'fetch', WebSearch: 'websearch', web_search: 'websearch', TodoWrite: 'todo', ExitPlanMode: 'plan', AskUserQuestion: 'question', Agent: 'agent', Task: 'agent',
};

/** The kind of a call's card. */
export const kindOf = (call: CallBlock): CardKind => (call.agent !== null ? 'agent' : entryOf(KINDS, call.name) ?? (call.name.startsWith('mcp__') ? 'mcp' : 'other'));

/** A card in one line. */
export interface CardLine {
  /** The kind in a word, for those who hear it. */
  word: string;
  /** The words before the subject, such as "Read"; empty for a command, which has its mark. */
  verb: string;
  /** The subject: a path, a command, a query. */
  subject: string;
  /** Whether the subject is code. */
  isCode: boolean;
  /** Figures, in their order. */
  figures: string[];
}

const STATUS: Record<CallBlock['status'], string> = {
  writing: 'being written', running: 'running', asked: 'needs you', done: 'done', failed: 'failed', denied: 'denied', stopped: 'stopped',
};

/** The status in words. */
export const statusWord = (call: CallBlock): string => STATUS[call.status];

/** The last two parts of a path: enough to know the file. */
export function shortPath(path: string): string {
  const parts = path.split('/').filter(Boolean);
  return parts.length <= 2 ? path : parts.slice(-2).join('/');
}

/** The exit code of a command that failed; `null`: it is not said. */
export function exitOf(call: CallBlock): number | null {
  const found = /^(?:Error: )?Exit code (\d+)/.exec(call.result?.text ?? '');
  return found === null ? null : Number(found[1]);
}

/** The output of a command. */
export function outputOf(call: CallBlock): string {
  const { result } = call;
  if (result === null) return '';
  const typed = raw(result.typed);
  if (typeof typed.stdout === 'string') return [typed.stdout, str(typed.stderr)].filter(Boolean).join('\n');
  return result.text.replace(/^Exit code \d+\n?/, '').replace(/^\(Bash completed with no output\)$/, '');
}

/** The pages that a search of the web found, as the tool says or the API itself. */
export function titlesOf(call: CallBlock): { title: string; url: string }[] {
  const typed = call.result?.typed;
  const found = isRaw(typed) ? list(typed.results).flatMap((one) => list(raw(one).content)) : list(typed);
  return found.map(raw).filter((one) => str(one.url) !== '').map((one) => ({ title: str(one.title) || str(one.url), url: str(one.url) }));
}

const linesIn = (text: string): number => (text === '' ? 0 : text.split('\n').length - (text.endsWith('\n') ? 1 : 0));
const firstLine = (text: string): string => text.trimStart().split('\n', 1)[0] ?? '';

/** The words of a card that is folded. */
export function lineOfCall(call: CallBlock): CardLine {
  const input = inputOf(call);
  const typed = raw(call.result?.typed);
  const path = shortPath(str(input.file_path) || str(input.notebook_path) || str(input.path));
  const time = call.result !== null && call.ms !== null && call.ms >= 100 ? [duration(call.ms)] : [];
  const leftOut = call.result?.leftOutBytes != null ? ['large'] : [];
  switch (kindOf(call)) {
    case 'command': {
      const exit = exitOf(call);
      const lines = linesIn(outputOf(call));
      const command = str(input.command);
      const more = linesIn(command) - 1;
      return {
        word: 'Command', verb: '', subject: firstLine(command), isCode: true,
        figures: [...(more > 0 ? [`+${many(more, 'line')}`] : []), ...(exit !== null ? [`exit ${exit}`] : []), ...time, ...(lines > 0 ? [many(lines, 'line')] : []), ...leftOut],
      };
    }
    case 'edit': {
      const { added, removed } = changed(call);
      return { word: 'Change', verb: 'Change', subject: path, isCode: true, figures: added + removed > 0 ? [`+${count(added)} −${count(removed)}`] : [] };
    }
    case 'write': {
      const lines = linesIn(str(input.content));
      const { added, removed } = changed(call);
      const isNew = typed.type !== 'update';
      return { word: 'Write', verb: isNew ? 'Make' : 'Change', subject: path, isCode: true, figures: isNew ? ['new', many(lines, 'line')] : [`+${count(added)} −${count(removed)}`] };
    }
    case 'read': {
      const file = raw(typed.file);
      const start = numOrNull(file.startLine) ?? numOrNull(input.offset);
      const lines = numOrNull(file.numLines) ?? numOrNull(input.limit);
      const total = numOrNull(file.totalLines);
      const part = start !== null && lines !== null && (start > 1 || (total !== null && lines < total)) ? [`${start}-${start + lines - 1}`] : lines !== null ? [many(lines, 'line')] : [];
      return { word: 'Read', verb: 'Read', subject: path, isCode: true, figures: [...part, ...leftOut] };
    }
    case 'search': {
      const files = numOrNull(typed.numFiles);
      const hits = numOrNull(typed.numMatches) ?? numOrNull(typed.numLines);
      const found = hits !== null && files !== null && hits > 0 ? [`${many(hits, 'hit')} in ${many(files, 'file')}`] : files !== null ? [many(files, 'file')] : [];
      return { word: 'Search', verb: 'Search', subject: str(input.pattern) || path, isCode: true, figures: [...found, ...leftOut] };
    }
    case 'fetch': return { word: 'Fetch', verb: 'Fetch', subject: hostOf(str(input.url)), isCode: true, figures: time };
    case 'websearch': {
      const pages = titlesOf(call).length;
      return { word: 'Web search', verb: 'Search the web', subject: str(input.query), isCode: false, figures: [...(pages > 0 ? [many(pages, 'page')] : []), ...time] };
    }
    case 'todo': {
      const todos = list(input.todos).map(raw);
      const done = todos.filter((todo) => todo.status === 'completed').length;
      const now = todos.find((todo) => todo.status === 'in_progress');
      return { word: 'Plan', verb: `Plan ${done}/${todos.length}`, subject: str(now?.activeForm) || str(now?.content), isCode: false, figures: [] };
    }
    case 'plan': return { word: 'Plan', verb: 'A plan', subject: firstLine(str(input.plan)).replace(/^#+\s*/, ''), isCode: false, figures: [] };
    case 'question': {
      const questions = list(input.questions).map(raw);
      return { word: 'Question', verb: 'Asked', subject: str(questions[0]?.question), isCode: false, figures: questions.length > 1 ? [`+${questions.length - 1} more`] : [] };
    }
    case 'agent': {
      const agent = call.agent;
      return {
        word: 'Agent', verb: `Agent · ${agent?.kind ?? (str(input.subagent_type) || 'general')}`, subject: agent?.task ?? str(input.description), isCode: false,
        figures: [...(agent !== null && agent.steps > 0 ? [many(agent.steps, 'step')] : []), ...(agent?.tokens ? [`${count(agent.tokens)} tokens`] : []), ...(agent?.ms && agent.status !== 'running' ? [clock(agent.ms)] : [])],
      };
    }
    case 'mcp': {
      const [, server = '', ...tool] = call.name.split('__');
      return { word: 'Tool', verb: `${server} · ${tool.join('__')}`, subject: firstArgument(input), isCode: false, figures: [...time, ...leftOut] };
    }
    default: return { word: call.name || 'Tool', verb: call.name || 'Tool', subject: firstArgument(input), isCode: false, figures: [...time, ...leftOut] };
  }
}

/** How long it took: `0.4 s`, `12.4 s`, `2:10`. */
function duration(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return ms < 3_600_000 ? clock(ms) : span(ms);
}

function hostOf(url: string): string {
  try {
    return new URL(url).host || url;
  } catch {
    return url;
  }
}

function firstArgument(input: Record<string, unknown>): string {
  const first = Object.values(input).find((value) => typeof value === 'string' || typeof value === 'number');
  return firstLine(String(first ?? '')).slice(0, 200);
}

/** The lines that a change adds and takes away, as the tool says. */
function changed(call: CallBlock): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const hunk of list(raw(call.result?.typed).structuredPatch)) {
    for (const line of isRaw(hunk) ? list(hunk.lines) : []) {
      if (str(line).startsWith('+')) added += 1; else if (str(line).startsWith('-')) removed += 1;
    }
  }
  return { added, removed };
}

/** The texts before and after a change, as much of them as is known. */
export function sidesOf(call: CallBlock): { before: string; after: string; firstLine: number | null } {
  const input = inputOf(call);
  const typed = raw(call.result?.typed);
  const original = typeof typed.originalFile === 'string' ? typed.originalFile : null;
  if (call.name === 'Write') return { before: original ?? '', after: str(input.content), firstLine: 1 };
  const [old, fresh] = [str(input.old_string), str(input.new_string)];
  if (original !== null && old !== '' && original.includes(old) && original.length < 400_000) {
    const after = input.replace_all === true ? original.split(old).join(fresh) : original.replace(old, () => fresh);
    return { before: original, after, firstLine: 1 };
  }
  const first = numOrNull(raw(list(typed.structuredPatch)[0]).oldStart);
  return { before: old, after: fresh || str(input.new_source), firstLine: first };
}
