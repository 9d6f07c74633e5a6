// Owns the lines of the list: headings, directories and rows in one sequence, and how it holds still under a finger.
import type { Group, GroupName } from '../lobby/order';

/** A line. Its key tells lines apart, over all arrangements. */
export type Line =
  | { kind: 'group'; key: string; group: GroupName; word: string; size: number; counted: number; muted: number }
  | { kind: 'project'; key: string; group: GroupName; cwd: string; size: number }
  | { kind: 'row'; key: string; group: GroupName; id: string; inProject: boolean };

/** The lines of groups; of a folded one there is the heading alone. A directory with one row needs no heading. */
export function linesOf(groups: readonly Group[], folded: ReadonlySet<GroupName>): Line[] {
  const lines: Line[] = [];
  for (const { name, word, size, counted, muted, projects } of groups) {
    lines.push({ kind: 'group', key: `group ${name}`, group: name, word, size, counted, muted });
    if (folded.has(name)) continue;
    for (const { cwd, rows } of projects) {
      const inProject = cwd !== '' && rows.length > 1;
      if (inProject) lines.push({ kind: 'project', key: `project ${name} ${cwd}`, group: name, cwd, size: rows.length });
      for (const { id } of rows) lines.push({ kind: 'row', key: `row ${id}`, group: name, id, inProject });
    }
  }
  return lines;
}

const mutedIn = (line: Line): number => (line.kind === 'group' ? line.muted : 0);
const countedIn = (line: Line): number => (line.kind === 'group' ? line.counted : 0);

/** Whether two lists look the same. */
export function areSameLines(one: readonly Line[], other: readonly Line[]): boolean {
  return one.length === other.length && one.every((line, at) => {
    const last = other[at]!;
    if (line.key !== last.key || line.group !== last.group) return false;
    if (line.kind === 'row') return line.inProject === (last as typeof line).inProject;
    return line.size === (last as typeof line).size && mutedIn(line) === mutedIn(last) && countedIn(line) === countedIn(last);
  });
}

/** The picture of a list that holds still: the lines as they stood, and how many rows would stand elsewhere. */
export interface Held { lines: Line[]; moved: number }

/** Keeps lines where they stand while a person is in the list. Rows that are gone leave; new ones wait. */
export function heldLines(before: readonly Line[], wanted: readonly Line[], isThere: (id: string) => boolean): Held {
  const news = new Map(wanted.map((line) => [line.key, line]));
  const kept: Line[] = [];
  for (const line of before) {
    if (line.kind === 'row') {
      if (isThere(line.id)) kept.push(line);
      continue;
    }
    const now = news.get(line.key);
    const size = now !== undefined && now.kind !== 'row' ? now.size : 0;
    kept.push(line.kind === 'group' ? { ...line, size, counted: now === undefined ? 0 : countedIn(now), muted: now === undefined ? 0 : mutedIn(now) } : { ...line, size });
  }
  const lines = kept.filter((line, at) => {
    if (line.kind === 'row' || news.has(line.key)) return true;
    const next = kept[at + 1];
    return next !== undefined && next.kind === 'row' && next.group === line.group;
  });
  return { lines, moved: movedRows(lines, wanted) };
}

/** How many rows of `wanted` are new, in another group, or out of their order. */
function movedRows(shown: readonly Line[], wanted: readonly Line[]): number {
  const places = new Map<string, number>();
  for (const [at, line] of shown.entries()) if (line.kind === 'row') places.set(`${line.group} ${line.id}`, at);
  const kept: number[] = [];
  let rows = 0;
  for (const line of wanted) {
    if (line.kind !== 'row') continue;
    rows += 1;
    const at = places.get(`${line.group} ${line.id}`);
    if (at !== undefined) kept.push(at);
  }
  return rows - longestRising(kept);
}

/** The length of the longest rising part of a sequence: what need not move to sort it. */
function longestRising(numbers: readonly number[]): number {
  const ends: number[] = [];
  for (const n of numbers) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle] ?? 0) < n) low = middle + 1; else high = middle;
    }
    ends[low] = n;
  }
  return ends.length;
}
