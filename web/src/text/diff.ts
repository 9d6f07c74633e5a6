// Owns the comparison of two texts: lines, and the words in lines that were changed.
import { diffArrays, diffWordsWithSpace } from 'diff';

/** A line of a comparison. `words` are the stretches that differ from its partner, as from and to. */
export interface DiffRow { kind: 'same' | 'added' | 'removed'; old: number | null; new: number | null; text: string; words: [number, number][] }

/** Lines that belong together, and how many equal lines are before them. */
export interface Hunk { skipped: number; rows: DiffRow[] }

const MOST_EDITS = 1_200;
const LONGEST_FOR_WORDS = 500;
const MOST_PAIRS = 400;
/** Lines that share less than this are two lines, and not one that was changed. */
const LEAST_ALIKE = 0.2;

const linesOf = (text: string): string[] => {
  const lines = text.replace(/\r\n/g, '\n').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
};

/** Compares two texts. Where they differ too much for a comparison of lines, all of one is removed and all of the other is added. */
export function compare(before: string, after: string): DiffRow[] {
  const old = linesOf(before);
  const fresh = linesOf(after);
  const parts = diffArrays(old, fresh, { maxEditLength: MOST_EDITS })
    ?? [{ value: old, removed: true, added: false }, { value: fresh, added: true, removed: false }];
  const rows: DiffRow[] = [];
  let oldLine = 0;
  let newLine = 0;
  for (const part of parts) {
    for (const text of part.value) {
      if (!part.added) oldLine += 1;
      if (!part.removed) newLine += 1;
      rows.push({
        kind: part.added ? 'added' : part.removed ? 'removed' : 'same',
        old: part.added ? null : oldLine, new: part.removed ? null : newLine, text, words: [],
      });
    }
  }
  markWords(rows);
  markEnds(rows, before, after);
  return rows;
}

/** A last line that only gained or lost its line end looks the same, and says so. */
function markEnds(rows: DiffRow[], before: string, after: string): void {
  if (rows.some((row) => row.kind !== 'same') || before === after) return;
  const last = rows.at(-1);
  if (last === undefined || before.endsWith('\n') === after.endsWith('\n')) return;
  const note = (has: boolean) => `${last.text}${has ? '' : ' (no line end)'}`;
  rows.pop();
  rows.push({ ...last, kind: 'removed', new: null, text: note(before.endsWith('\n')) }, { ...last, kind: 'added', old: null, text: note(after.endsWith('\n')) });
}

/** Pairs removed lines with the added ones behind them, in order, and marks the words that differ. */
function markWords(rows: DiffRow[]): void {
  let pairs = 0;
  for (let i = 0; i < rows.length; i += 1) {
    if (rows[i]?.kind !== 'removed') continue;
    const from = i;
    while (rows[i]?.kind === 'removed') i += 1;
    const between = i;
    while (rows[i]?.kind === 'added') i += 1;
    for (let k = 0; k < Math.min(between - from, i - between) && pairs < MOST_PAIRS; k += 1, pairs += 1) {
      markPair(rows[from + k] as DiffRow, rows[between + k] as DiffRow);
    }
    i -= 1;
  }
}

function markPair(removed: DiffRow, added: DiffRow): void {
  if (removed.text.length > LONGEST_FOR_WORDS || added.text.length > LONGEST_FOR_WORDS) return;
  let [a, b, shared] = [0, 0, 0];
  const [inRemoved, inAdded]: [number, number][][] = [[], []];
  for (const { value, added: isAdded, removed: isRemoved } of diffWordsWithSpace(removed.text, added.text)) {
    if (isAdded) { inAdded?.push([b, b + value.length]); b += value.length; }
    else if (isRemoved) { inRemoved?.push([a, a + value.length]); a += value.length; }
    else { a += value.length; b += value.length; shared += value.trim().length; }
  }
  if (shared < LEAST_ALIKE * Math.max(removed.text.trim().length, added.text.trim().length)) return;
  removed.words = inRemoved ?? [];
  added.words = inAdded ?? [];
}

/** The places of a comparison, with equal lines around each. */
export function hunksOf(rows: DiffRow[], around = 3): { hunks: Hunk[]; after: number } {
  const hunks: Hunk[] = [];
  let skippedTo = 0;
  let i = 0;
  while (i < rows.length) {
    if (rows[i]?.kind === 'same') { i += 1; continue; }
    const from = Math.max(skippedTo, i - around);
    let end = i;
    let equal = 0;
    for (let k = i; k < rows.length && equal <= 2 * around; k += 1) {
      if (rows[k]?.kind === 'same') equal += 1; else { equal = 0; end = k; }
    }
    const to = Math.min(rows.length, end + 1 + around);
    hunks.push({ skipped: from - skippedTo, rows: rows.slice(from, to) });
    skippedTo = to;
    i = to;
  }
  return { hunks, after: rows.length - skippedTo };
}

/** How many lines are added and removed. */
export function countsOf(rows: DiffRow[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const { kind } of rows) {
    if (kind === 'added') added += 1;
    if (kind === 'removed') removed += 1;
  }
  return { added, removed };
}
