// Owns reading the whole journal of a session, in pages, for what a few loaded records cannot answer.
import { rest } from '../daemon/daemon';

/** A record, as far as these readers look into it. */
export interface JournalEntry { seq: number; ts: string; src: string; data: unknown }

/** A page of it, and how far the reading is. */
export interface JournalPart { entries: JournalEntry[]; done: number; of: number }

const PAGE = 1_000;
/** A larger record comes as a stub: nobody waits for it unasked. */
const STUB_ABOVE = 1_000_000;

/** Reads on after record `after` to the newest one there is. Ends early when the signal is aborted. */
export async function* journal(sessionId: string, signal: AbortSignal, after = 0): AsyncGenerator<JournalPart> {
  for (let from = after; !signal.aborted;) {
    const query = { after: from, limit: PAGE, stub_above: STUB_ABOVE };
    const page = await rest.GET('/v1/sessions/{id}/events', { params: { path: { id: sessionId }, query }, signal });
    const entries = page.items as unknown as JournalEntry[];
    const last = entries.at(-1)?.seq ?? Math.max(page.next_after, page.head_seq);
    yield { entries, done: last, of: page.head_seq };
    if (last >= page.head_seq || last <= from) return;
    from = last;
  }
}
