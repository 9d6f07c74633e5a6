// Owns how Markdown that arrives in pieces is cut into chunks: a chunk is closed once, and is never looked at again. Only the
// open rest is lexed, and inside a code fence nothing is.
import type { Links, Token, Tokens } from 'marked';
import { CarefulLexer, bombAt } from './bombs';

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
const FENCE_AT_EDGE = /^(?:`{3,}[^`\n]*|~{3,}[^\n]*)$/m;
const BLANK_LINE = /^[ \t]*\n/m;
/** From this size on an open part is shown as plain text until it closes. */
const MOST_LEXED_OPEN = 16_384;
const MOST_FOR_LINKS = 65_536;
const ITEMS_PER_CHUNK = 20;

/** Lexes a text, or says that it cannot. */
function lex(text: string, links: Links): { tokens: Token[]; links: Links } | null {
  const lexer = new CarefulLexer({ gfm: true, breaks: false });
  Object.assign(lexer.tokens.links, links);
  try {
    return { tokens: lexer.lex(text), links: lexer.tokens.links };
  } catch {
    return null;
  }
}

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
  private whole = '';
  private heldReturn = false;
  private links: Links = {};
  private sawLinks = false;
  private nextId = 0;
  private fence: { marker: string; language: string; from: number; scanned: number } | null = null;
  private isPlain = false;
  private linesSeen = -1;
  private isEnded = false;

  /** Takes what came. */
  push(text: string): void {
    let more = this.heldReturn ? `\r${text}` : text;
    this.heldReturn = more.endsWith('\r');
    if (this.heldReturn) more = more.slice(0, -1);
    more = more.replace(/\r\n?/g, '\n');
    this.tail += more;
    if (this.whole.length <= MOST_FOR_LINKS) this.whole += more;
  }

  /** Closes what is complete. */
  flush(): void {
    while (this.step(this.tail.lastIndexOf('\n') + 1, false));
  }

  /** Nothing follows: everything is closed. Links that were explained later are resolved. */
  end(): void {
    if (this.isEnded) return;
    this.isEnded = true;
    if (this.heldReturn) this.tail += '\n';
    this.heldReturn = false;
    while (this.tail !== '' && this.step(this.tail.length, true));
    if (this.tail !== '') this.close({ kind: 'plain', text: this.tail, raw: this.tail });
    if (this.sawLinks && this.whole.length <= MOST_FOR_LINKS) this.resolveLinks();
  }

  /** The part that is still open, for drawing. */
  open(): OpenPart | null {
    if (this.tail.trim() === '') return null;
    if (this.fence !== null) return { kind: 'code', language: this.fence.language, text: this.tail.slice(this.fence.from) };
    if (this.isPlain || this.tail.length > MOST_LEXED_OPEN || bombAt(this.tail) >= 0) return { kind: 'plain', text: this.tail };
    const lexed = lex(this.tail, this.links);
    return lexed === null ? { kind: 'plain', text: this.tail } : { kind: 'tokens', tokens: lexed.tokens };
  }

  /** How long the open part is. */
  get openLength(): number {
    return this.tail.length;
  }

  /** Does one thing with the complete lines; whether there is more to do. */
  private step(complete: number, isEnd: boolean): boolean {
    if (complete === 0) return false;
    if (this.fence !== null) return this.closeFence(complete, isEnd);
    if (this.isPlain) return this.closePlain(isEnd);
    const fence = FENCE.exec(this.tail.slice(0, Math.min(complete, 512)));
    if (fence !== null && (fence[0].endsWith('\n') || isEnd)) {
      this.fence = { marker: fence[1] ?? fence[3] ?? '', language: (fence[2] ?? fence[4] ?? '').trim().split(/\s/)[0] ?? '', from: fence[0].length, scanned: fence[0].length };
      this.linesSeen = -1;
      return true;
    }
    if (!isEnd && complete === this.linesSeen) return false;
    this.linesSeen = complete;
    if (!isEnd && complete > MOST_LEXED_OPEN && !this.mayHaveClosed(complete)) return false;
    return this.closeTokens(this.tail.slice(0, complete), isEnd);
  }

  /** Whether a large block has ended: a line at the left edge, which is no list's, behind an empty one. */
  private mayHaveClosed(complete: number): boolean {
    return /\n[ \t]*\n[^\s\-*+>\d|]/.test(this.tail.slice(0, complete));
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

  private closeTokens(complete: string, isEnd: boolean): boolean {
    // A fence at the left edge ends whatever is before it, and has a way of its own.
    const fenceAt = complete.search(FENCE_AT_EDGE);
    const text = fenceAt > 0 ? complete.slice(0, fenceAt) : complete;
    const bomb = bombAt(text);
    const hasBomb = bomb >= 0;
    const lexable = hasBomb ? text.slice(0, bomb) : text;
    const lexed = lex(lexable, this.links);
    if (lexed === null) { this.isPlain = true; return true; }
    if (Object.keys(lexed.links).length > 0) this.sawLinks = true;
    const { tokens } = lexed;
    let last = tokens.length - 1;
    while (last >= 0 && tokens[last]?.type === 'space') last -= 1;
    const closesLast = !hasBomb ? isEnd || fenceAt > 0 : /(?:^|\n)[ \t]*\n$/.test(lexable);
    let taken = 0;
    for (const [i, token] of tokens.entries()) {
      const isFence = token.type === 'code' && FENCE.test(token.raw);
      if (isFence || (i >= last && !closesLast)) {
        this.take(taken);
        if (hasBomb && !isFence) this.isPlain = true;
        return isFence || hasBomb;
      }
      this.closeToken(token);
      taken += token.raw.length;
    }
    this.take(taken);
    if (hasBomb) this.isPlain = true;
    return this.tail !== '' && (hasBomb || fenceAt > 0);
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
