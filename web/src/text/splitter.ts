// Owns how Markdown that arrives in pieces is cut into chunks: a chunk is closed once, and is never looked at again. Each final
// part of the open block is lexed once, the rest now and then, and nothing inside a code fence.
import type { Links, Token, Tokens } from 'marked';
import { bombAt, isTooLong } from './bombs';
import { endOf, isHeading } from './ends';
import { grow, sketch, whole, withWords, type Head } from './head';
import { came, lex, mayLook } from './lexing';

/** A part of a Markdown text that does not change any more. */
export type Chunk =
  | { id: number; kind: 'tokens'; tokens: Token[]; raw: string }
  | { id: number; kind: 'code'; language: string; text: string; raw: string }
  | { id: number; kind: 'plain'; text: string; raw: string };

type NewChunk = Chunk extends infer One ? (One extends Chunk ? Omit<One, 'id'> : never) : never;

/** The part that is still being written. */
export type OpenPart =
  | { kind: 'tokens'; tokens: Token[] }
  | { kind: 'code'; language: string; text: string }
  | { kind: 'plain'; text: string };

const FENCE = /^ {0,3}(?:(`{3,})([^`\n]*)|(~{3,})([^\n]*))(?:\n|$)/;
const FENCE_BEGINS = /^ {0,3}(?:`{1,}[^`\n]*$|`{3}|~~~)/;
const FENCE_AT_EDGE = /^(?:`{3,}[^`\n]*|~{3,}[^\n]*)$/m;
const BLANK_LINES = /^(?:[ \t]*\n)+/;
const BLANK_LINE = /^[ \t]*\n/m;
/** From this size on an open part is shown as plain text until it closes. */
const MOST_LEXED_OPEN = 16_384;
const MOST_FOR_LINKS = 65_536;
const ITEMS_PER_CHUNK = 20;
/** The open rest is looked at again when it has grown by so much. */
const GROWN_BY = 1.5;
/** Words that look the same when they are not lexed. */
const MARKER = /^(?:[-*+]|\d{1,9}[.)]|#{1,6})[ \t]+/;
const PLAIN_WORDS = /^[\p{L}\p{N} .,;'"()?!]*$/u;

/** Where the code that begins a text ends; `null`: it does not yet. */
function fenceEnd(text: string, from: number, marker: string): { textEnd: number; end: number } | null {
  const closing = new RegExp(`^ {0,3}${marker[0] === '`' ? '`' : '~'}{${marker.length},}[ \\t]*(?:\\n|$)`, 'gm');
  closing.lastIndex = from;
  const match = closing.exec(text);
  return match === null ? null : { textEnd: match.index, end: match.index + match[0].length };
}

/** Cuts one Markdown text. */
export class Splitter {
  /** The closed parts, in order. */
  readonly chunks: Chunk[] = [];
  private tail = '';
  /** The final part of the open block; `tail` follows it. */
  private head: Head | null = null;
  /** Whether the open block cannot have a head. */
  private isHeadless = false;
  /** How long the rest must be before more of it may be final. */
  private againFrom = 0;
  private look: { length: number; tokens: Token[] } | null = null;
  private whole = '';
  private heldReturn = false;
  private links: Links = {};
  private sawLinks = false;
  private nextId = 0;
  private fence: { marker: string; language: string; from: number; scanned: number } | null = null;
  private isPlain = false;
  private linesSeen = -1;
  private linesTried = 0;
  private isEnded = false;

  /** Takes what came. */
  push(text: string): void {
    let more = this.heldReturn ? `\r${text}` : text;
    this.heldReturn = more.endsWith('\r');
    if (this.heldReturn) more = more.slice(0, -1);
    more = more.replace(/\r\n?/g, '\n');
    came(more.length);
    this.tail += more;
    if (this.whole.length <= MOST_FOR_LINKS) this.whole += more;
  }

  /** Closes what is complete. */
  flush(): void {
    while (this.step(this.tail.lastIndexOf('\n') + 1, false));
    while (this.settle());
  }

  /** Nothing follows: everything is closed. Links that were explained later are resolved. */
  end(): void {
    if (this.isEnded) return;
    this.isEnded = true;
    if (this.heldReturn) this.tail += '\n';
    this.heldReturn = false;
    while ((this.tail !== '' || this.head !== null) && this.step(this.tail.length, true));
    if (this.tail !== '') this.close({ kind: 'plain', text: this.tail, raw: this.tail });
    if (this.sawLinks && this.whole.length <= MOST_FOR_LINKS) this.resolveLinks();
  }

  /** The part that is still open, for drawing. */
  open(): OpenPart | null {
    if (this.head === null && this.tail.trim() === '') return null;
    if (this.fence !== null) return { kind: 'code', language: this.fence.language, text: this.tail.slice(this.fence.from) };
    if (this.isPlain || this.openLength > MOST_LEXED_OPEN || bombAt(this.tail) >= 0) return { kind: 'plain', text: (this.head?.raw ?? '') + this.tail };
    const rest = this.tail;
    const given = (this.head?.standIn ?? '') + rest;
    if (!PLAIN_WORDS.test(rest.replace(MARKER, '')) && rest.length > (this.look?.length ?? 0) * GROWN_BY && this.head?.kind !== 'table' && mayLook(given.length)) {
      const lexed = lex(given, this.links);
      const first = lexed === null || this.head === null ? null : whole(this.head, lexed);
      if (lexed !== null && (this.head === null || first !== null)) this.look = { length: rest.length, tokens: first === null ? lexed.tokens : [first, ...lexed.tokens.slice(1)] };
    }
    return { kind: 'tokens', tokens: this.look === null ? sketch(this.head, rest) : withWords(this.look.tokens, rest.slice(this.look.length)) };
  }

  /** How long the open part is. */
  get openLength(): number {
    return (this.head?.raw.length ?? 0) + this.tail.length;
  }

  /** Does one thing with the complete lines; whether there is more to do. */
  private step(complete: number, isEnd: boolean): boolean {
    if (complete === 0 && !(isEnd && this.head !== null)) return false;
    if (this.fence !== null) return this.closeFence(complete, isEnd);
    if (this.isPlain) return this.closePlain(isEnd);
    const blank = this.head === null ? BLANK_LINES.exec(this.tail)?.[0].length ?? 0 : 0;
    if (blank > 0 && blank < this.tail.length) {
      // No block is open that they could be part of.
      this.take(blank);
      return true;
    }
    const fence = this.head === null ? FENCE.exec(this.tail.slice(0, Math.min(complete, 512))) : null;
    if (fence !== null && (fence[0].endsWith('\n') || isEnd)) {
      this.fence = { marker: fence[1] ?? fence[3] ?? '', language: (fence[2] ?? fence[4] ?? '').trim().split(/\s/)[0] ?? '', from: fence[0].length, scanned: fence[0].length };
      this.linesSeen = -1;
      return true;
    }
    if (isEnd) return this.closeTokens(this.tail.slice(0, complete), true);
    if (complete === this.linesSeen) return false;
    this.linesSeen = complete;
    const before = this.head?.standIn ?? '';
    const given = before + this.tail.slice(0, complete);
    const end = endOf(before + this.tail, given.length);
    if (end > before.length) return this.closeTokens(this.tail.slice(0, end - before.length), true);
    const isDue = given.search(FENCE_AT_EDGE) > 0 || bombAt(given) >= 0;
    if (!isDue && (complete > MOST_LEXED_OPEN || this.head !== null || complete < this.linesTried * GROWN_BY || !mayLook(complete))) return false;
    this.linesTried = complete;
    return this.closeTokens(this.tail.slice(0, complete), false);
  }

  /** Takes more of the open block as final; whether there may be more of it. */
  private settle(): boolean {
    if (this.fence !== null || this.isPlain || this.isHeadless || this.tail.length <= this.againFrom || (this.head === null && FENCE_BEGINS.test(this.tail))) return false;
    const growth = bombAt(this.tail) < 0 ? grow(this.head, this.tail) : 'none';
    this.againFrom = growth === 'refused' ? this.tail.length * GROWN_BY : this.tail.length;
    if (typeof growth === 'string') return false;
    this.tail = this.tail.slice(growth.length);
    this.head = growth.head;
    this.againFrom = 0;
    this.linesSeen = -1;
    this.look = null;
    if (isTooLong(this.head.raw)) { this.unsettle(); return false; }
    return true;
  }

  /** The part taken for final is not, or is too much: the block is lexed as a whole. */
  private unsettle(): true {
    this.tail = (this.head?.raw ?? '') + this.tail;
    this.head = null;
    this.isHeadless = true;
    this.linesSeen = -1;
    this.look = null;
    return true;
  }

  private closeFence(complete: number, isEnd: boolean): boolean {
    const fence = this.fence;
    if (fence === null) return false;
    const end = fenceEnd(this.tail.slice(0, complete), fence.scanned, fence.marker);
    if (end === null && !isEnd) {
      fence.scanned = Math.max(fence.scanned, complete);
      return false;
    }
    const textEnd = end?.textEnd ?? this.tail.length;
    const text = this.tail.slice(fence.from, textEnd).replace(/\n$/, '');
    this.close({ kind: 'code', language: fence.language, text, raw: this.tail.slice(0, end?.end ?? this.tail.length) });
    this.take(end?.end ?? this.tail.length);
    this.fence = null;
    return this.tail !== '';
  }

  private closePlain(isEnd: boolean): boolean {
    const from = this.tail.search(/\S/);
    const blank = from < 0 ? null : BLANK_LINE.exec(this.tail.slice(from));
    if (blank === null && !isEnd) return false;
    const end = blank === null ? this.tail.length : from + blank.index;
    this.close({ kind: 'plain', text: this.tail.slice(0, end).replace(/\n$/, ''), raw: this.tail.slice(0, end) });
    this.take(end);
    this.isPlain = false;
    return this.tail !== '';
  }

  /** Closes the blocks of these lines: all of them, or but the last, which may go on. */
  private closeTokens(lines: string, closesAll: boolean): boolean {
    const before = this.head?.standIn ?? '';
    const complete = before + lines;
    // A fence at the left edge ends whatever is before it, and has a way of its own.
    const fenceAt = complete.search(FENCE_AT_EDGE);
    const text = fenceAt > 0 ? complete.slice(0, fenceAt) : complete;
    const bomb = bombAt(text);
    const hasBomb = bomb >= 0;
    if (this.head !== null && (hasBomb || isTooLong(this.head.raw + lines))) return this.unsettle();
    const lexable = hasBomb ? text.slice(0, bomb) : text;
    const lexed = lex(lexable, this.links);
    if (lexed === null && this.head !== null) return this.unsettle();
    if (lexed === null) { this.isPlain = true; return true; }
    if (Object.keys(lexed.links).length > 0) this.sawLinks = true;
    const first = this.head === null ? null : whole(this.head, lexed);
    if (this.head !== null && first === null) return this.unsettle();
    const { tokens } = lexed;
    let last = tokens.length - 1;
    while (last >= 0 && tokens[last]?.type === 'space') last -= 1;
    const closesLast = !hasBomb ? closesAll || fenceAt > 0 : /(?:^|\n)[ \t]*\n$/.test(lexable) || isHeading(tokens[last]);
    let taken = 0;
    for (const [i, token] of tokens.entries()) {
      const isFence = token.type === 'code' && FENCE.test(token.raw);
      if (isFence || (i >= last && !closesLast)) {
        this.take(taken);
        if (hasBomb && !isFence) this.isPlain = true;
        return isFence || hasBomb;
      }
      this.closeToken(i === 0 && first !== null ? first : token);
      taken += token.raw.length - (i === 0 ? before.length : 0);
      if (i === 0) this.head = null;
    }
    this.take(taken);
    if (hasBomb) this.isPlain = true;
    return this.tail !== '' && (hasBomb || fenceAt > 0 || lines.length > taken || closesAll);
  }

  /** Closes a token; a long list is several chunks. */
  private closeToken(token: Token): void {
    if (token.type === 'space' || token.type === 'def') return;
    const list = token as Tokens.List;
    if (token.type !== 'list' || list.items.length <= ITEMS_PER_CHUNK) {
      this.close({ kind: 'tokens', tokens: [token], raw: token.raw });
      return;
    }
    for (let i = 0; i < list.items.length; i += ITEMS_PER_CHUNK) {
      const items = list.items.slice(i, i + ITEMS_PER_CHUNK);
      const start = list.ordered ? (list.start === '' ? 1 : list.start) + i : list.start;
      const raw = items.map((item) => item.raw).join('');
      this.close({ kind: 'tokens', tokens: [{ ...list, items, start, raw }], raw });
    }
  }

  private close(chunk: NewChunk): void {
    if (chunk.raw.trim() === '') return;
    this.chunks.push({ ...chunk, id: this.nextId });
    this.nextId += 1;
  }

  private take(length: number): void {
    this.tail = this.tail.slice(length);
    this.linesSeen = -1;
    if (length === 0 && this.head !== null) return;
    this.linesTried = 0;
    this.againFrom = 0;
    this.look = null;
    if (length > 0) this.isHeadless = false;
  }

  private resolveLinks(): void {
    const again = new Splitter();
    again.links = bombAt(this.whole) >= 0 ? this.links : lex(this.whole, {})?.links ?? {};
    again.nextId = this.nextId;
    again.tail = this.whole;
    while (again.tail !== '' && again.step(again.tail.length, true));
    this.chunks.splice(0, this.chunks.length, ...again.chunks);
  }
}
