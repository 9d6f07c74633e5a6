/** Owns the records between the socket and the loop: a bounded queue. The overflow is read again from the journal. */
import type { JournalRecord } from './records.js';

/** Records that wait for a loop that is slower than the session, and their characters in JSON. */
const MOST = 4096;
const MOST_CHARACTERS = 16 * 1024 * 1024;

/** Reads a page of the journal after a record, whose time is told where it is known, and tells after which record the next one begins. */
type Page = (after: number, afterTs: string | undefined) => Promise<{ records: JournalRecord[]; after: number }>;

export class Backlog {
  /** The last record that the loop was given. */
  given: number | undefined;
  /** Its time; nothing where it did not come itself. */
  givenTs: string | undefined;
  private waiting: { record: JournalRecord; characters: number }[] = [];
  private characters = 0;
  /** The last record that is in the queue or went through it, and the last one that there is. */
  private queued: number | undefined;
  private queuedTs: string | undefined;
  private head = 0;
  private isOver = false;
  private error: unknown;
  private reading: Promise<void> | undefined;
  private sleepers: (() => void)[] = [];

  constructor(private readonly page: Page) {}

  /** The first record will be the one after this. */
  begin(after: number, afterTs?: string): void {
    if (this.queued !== undefined) return;
    this.given = this.queued = after;
    this.givenTs = this.queuedTs = afterTs;
  }

  push(record: JournalRecord, characters: number): void {
    this.head = record.seq;
    if (this.queued !== undefined && record.seq <= this.queued) return;
    // After one that did not fit, none does: their order would be lost.
    const isNext = this.queued === undefined || record.seq === this.queued + 1;
    const hasRoom = this.waiting.length < MOST && this.characters + characters <= MOST_CHARACTERS;
    if (isNext && (hasRoom || this.waiting.length === 0)) {
      this.queued = record.seq;
      this.queuedTs = record.ts;
      this.waiting.push({ record, characters });
      this.characters += characters;
    }
    this.wake();
  }

  /** The records up to this one are missing. */
  skip(seq: number): void {
    // Where some did not fit before, the journal tells of the gap again.
    if ((this.queued === undefined || this.queued >= this.head) && seq > (this.queued ?? 0)) {
      this.queued = seq;
      this.queuedTs = undefined;
    }
    this.head = Math.max(this.head, seq);
  }

  /** No more comes. With an error the loop fails once it has what is here. */
  end(error: unknown): void {
    this.isOver = true;
    this.error = error;
    if (error === undefined) this.waiting = [];
    this.wake();
  }

  /** The next record; nothing at the end. */
  async next(): Promise<JournalRecord | undefined> {
    for (;;) {
      const first = this.waiting.shift();
      if (first) {
        this.characters -= first.characters;
        this.given = first.record.seq;
        this.givenTs = first.record.ts;
        return first.record;
      }
      if (this.isOver) {
        if (this.error !== undefined) throw this.error;
        return undefined;
      }
      if (this.queued !== undefined && this.queued < this.head) {
        // One of several that wait for a record reads for all.
        this.reading ??= this.read(this.queued).finally(() => { this.reading = undefined; });
        await this.reading;
      } else {
        await new Promise<void>((resolve) => this.sleepers.push(resolve));
      }
    }
  }

  private async read(after: number): Promise<void> {
    const page = await this.page(after, this.queuedTs).catch((error: unknown) => {
      if (!this.isOver) throw error;
    });
    if (!page || this.isOver) return;
    // The daemon bounds the size of a page.
    this.waiting.push(...page.records.map((record) => ({ record, characters: 0 })));
    const last = page.records.at(-1);
    this.queued = Math.max(this.queued ?? after, page.after);
    this.queuedTs = last?.seq === this.queued ? last.ts : undefined;
  }

  private wake(): void {
    for (const resolve of this.sleepers.splice(0)) resolve();
  }
}
