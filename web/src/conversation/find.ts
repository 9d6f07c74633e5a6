// Owns what a search in a conversation has found so far, as plain functions: its hits, how far it is, and where a hit leads.
import type { FindHit, FindPage } from '../daemon/types';
import { count, many } from '../parts/time';

/** The hits, the newest first. */
export interface Found { hits: FindHit[]; done: number; of: number; missing: number; isBegun: boolean; isOver: boolean }

/** More hits are not shown: nobody reads them. */
export const MOST_HITS = 500;

/** Before the first page. */
export const NOTHING: Found = { hits: [], done: 0, of: 0, missing: 0, isBegun: false, isOver: false };

/** Adds the next page. */
export function withPage(found: Found, page: FindPage): Found {
  const missing = (page.missing ?? []).reduce((sum, gap) => sum + gap.last_seq - gap.first_seq + 1, found.missing);
  return {
    hits: [...found.hits, ...page.items].slice(0, MOST_HITS),
    done: page.head_seq - page.from_seq + 1, of: page.head_seq, missing, isBegun: true, isOver: page.next_cursor === null,
  };
}

/** How far the search for these words is, in words. */
export function progressOf(found: Found, words: string): string {
  if (words === '') return 'The whole conversation is searched, loaded or not.';
  if (!found.isBegun) return 'Looking…';
  const hits = found.hits.length >= MOST_HITS ? `The newest ${count(MOST_HITS)} hits` : many(found.hits.length, 'hit');
  const missing = found.missing > 0 ? ` ${many(found.missing, 'record is', 'records are')} missing.` : '';
  const isEnough = found.isOver || found.hits.length >= MOST_HITS;
  return isEnough ? `${hits}.${missing}` : `${hits}. Looking, ${count(found.done)} of ${count(found.of)}`;
}

/** The address of a hit: its record, or the sub-agent that said it. */
export function placeOfHit(sessionId: string, hit: FindHit): string {
  const agent = hit.parent_tool_use_id;
  return agent == null ? `/s/${sessionId}/r/${hit.seq}` : `/s/${sessionId}/agent/${encodeURIComponent(agent)}`;
}
