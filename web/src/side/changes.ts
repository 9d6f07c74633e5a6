// Owns which files the edits of a session changed, and what they held before and hold after, as the results of its tools say.
// Changes by commands are not known.
import type { JournalEntry } from './journal';

/** A file that was changed. */
export interface ChangedFile {
  path: string;
  /** Its content before the first change; `null`: it was made; `undefined`: the records do not say. */
  before: string | null | undefined;
  /** Its content after the last one; `undefined`: the records do not say. */
  after: string | undefined;
  /** Lines that the changes added and removed, one after the other. */
  added: number;
  removed: number;
  changes: number;
  /** The record of the last change. */
  seq: number;
}

/** A change, as one result says it. */
export interface Change { path: string; before: string | null | undefined; after: string | undefined; added: number; removed: number; seq: number }

type Open = Record<string, unknown>;
const open = (value: unknown): Open => (typeof value === 'object' && value !== null ? value as Open : {});
const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const lineCount = (content: string): number => (content === '' ? 0 : content.split('\n').length - (content.endsWith('\n') ? 1 : 0));

/** The change that a record tells of, or `null`. */
export function changeIn(entry: JournalEntry): Change | null {
  const data = open(entry.data);
  return entry.src === 'cli' && data.type === 'user' ? changeOf(data.tool_use_result, entry.seq) : null;
}

/** The change that a tool's own result tells of, or `null`. */
export function changeOf(toolUseResult: unknown, seq: number): Change | null {
  const result = open(toolUseResult);
  const path = text(result.filePath) ?? text(result.notebook_path);
  if (path === undefined) return null;
  const isEdit = Array.isArray(result.structuredPatch) || typeof result.oldString === 'string' || typeof result.updated_file === 'string';
  if (!isEdit) return null;
  const original = 'originalFile' in result ? result.originalFile : result.original_file;
  const before = original === null ? null : text(original);
  const after = text(result.content) ?? text(result.updated_file) ?? edited(text(original), result);
  let [added, removed] = [0, 0];
  for (const hunk of Array.isArray(result.structuredPatch) ? result.structuredPatch : []) {
    for (const line of (open(hunk).lines as unknown[] | undefined) ?? []) {
      if (String(line).startsWith('+')) added += 1;
      if (String(line).startsWith('-')) removed += 1;
    }
  }
  if (before === null && after !== undefined) added = lineCount(after);
  return { path, before, after, added, removed, seq };
}

function edited(original: string | undefined, result: Open): string | undefined {
  const [from, to] = [text(result.oldString), text(result.newString)];
  if (original === undefined || from === undefined || to === undefined) return undefined;
  if (from === '') return to;
  const at = original.indexOf(from);
  if (at < 0) return undefined;
  return result.replaceAll === true ? original.split(from).join(to) : original.slice(0, at) + to + original.slice(at + from.length);
}

/** Adds changes to what is known, in the order of their records; one that is known already counts once. */
export function withChanges(files: ReadonlyMap<string, ChangedFile>, changes: readonly Change[]): Map<string, ChangedFile> {
  const next = new Map(files);
  for (const change of changes) {
    const known = next.get(change.path);
    if (known === undefined) next.set(change.path, { ...change, changes: 1 });
    else if (change.seq > known.seq) {
      next.set(change.path, {
        ...known, after: change.after, added: known.added + change.added, removed: known.removed + change.removed, changes: known.changes + 1, seq: change.seq,
      });
    }
  }
  return next;
}

/** A path inside of the session's directory, from there; any other as it is. */
export const fromCwd = (path: string, cwd: string): string => {
  const base = cwd.endsWith('/') ? cwd : `${cwd}/`;
  return path.startsWith(base) ? path.slice(base.length) : path;
};
