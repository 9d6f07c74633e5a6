// Owns finding in a conversation, as plain functions: which records say the words, and the turn that each belongs to.
import { saidIn, type Said } from './entry-text';
import type { JournalEntry } from './journal';

/** A place that says the words. */
export interface Hit { seq: number; ts: string; who: Said['who']; before: string; match: string; after: string }

const AROUND = 60;

/** The first place of each text of a record that says the words, in any case. */
export function hitsIn(entry: JournalEntry, words: string): Hit[] {
  const wanted = words.toLowerCase();
  if (wanted === '') return [];
  const hits: Hit[] = [];
  for (const said of saidIn(entry)) {
    const at = said.text.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const from = Math.max(0, at - AROUND);
    const end = at + words.length;
    const plain = (text: string) => text.replace(/\s+/g, ' ');
    hits.push({
      seq: entry.seq, ts: entry.ts, who: said.who,
      before: (from > 0 ? '…' : '') + plain(said.text.slice(from, at)),
      match: plain(said.text.slice(at, end)),
      after: plain(said.text.slice(end, end + AROUND)) + (end + AROUND < said.text.length ? '…' : ''),
    });
  }
  return hits;
}

/** The number of the turn that a record belongs to: turns begin at `firstSeqs`, in their order. Before the first one it is 1. */
export function turnOf(seq: number, firstSeqs: readonly number[]): number {
  let low = 0;
  let high = firstSeqs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((firstSeqs[middle] ?? 0) <= seq) low = middle + 1; else high = middle;
  }
  return Math.max(1, low);
}
