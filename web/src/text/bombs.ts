// Owns which Markdown is not lexed, since it would hold up the page or overflow the lexer's stack: nested markers, deep indentation,
// endless lines, rows of marks, tables of very many cells. One pass over the text finds it, whatever the text is.
import { Lexer, type Token } from 'marked';

const MOST_MARKERS = 16;
const MOST_INDENT = 40;
const LONGEST_ROW_OF_MARKS = 399;
const LONGEST_LINE = 19_999;
/** A longer paragraph is text: each star in it is compared with each other one. */
export const LONGEST_PARAGRAPH = 12_000;
const MOST_PIPES = 24_000;
const LONGEST = 131_072;
/** How often each character is looked at, over all levels of nesting. */
const MOST_LEVELS = 12;

const MARKS = new Set(Array.from('[]*_`<~!', (mark) => mark.charCodeAt(0)));
const SPACE = 0x20;
const TAB = 0x09;

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;

/** Whether the line from `from` to `to` begins with too many markers of lists and quotes, or too many blanks. */
function isNested(text: string, from: number, to: number): boolean {
  let markers = 0;
  let at = from;
  for (;;) {
    const begin = at;
    while (at < to && (text.charCodeAt(at) === SPACE || text.charCodeAt(at) === TAB)) at += 1;
    if (begin === from && at - begin > MOST_INDENT) return true;
    const digits = at;
    while (at < to && at - digits < 9 && isDigit(text.charCodeAt(at))) at += 1;
    const isMarker = at < to && (at > digits ? '.)' : '-*+>').includes(text[at] as string);
    if (!isMarker) return false;
    at += 1;
    markers += 1;
    if (markers > MOST_MARKERS) return true;
  }
}

function hasRowOfMarks(text: string, from: number, to: number): boolean {
  let row = 0;
  for (let at = from; at < to; at += 1) {
    row = MARKS.has(text.charCodeAt(at)) ? row + 1 : 0;
    if (row > LONGEST_ROW_OF_MARKS) return true;
  }
  return false;
}

/** Where the first line begins that is not to be lexed; -1: there is none. */
export function bombAt(text: string): number {
  for (let from = 0; from <= text.length;) {
    const end = text.indexOf('\n', from);
    const to = end < 0 ? text.length : end;
    if (to - from > LONGEST_LINE || isNested(text, from, to) || (to - from > LONGEST_ROW_OF_MARKS && hasRowOfMarks(text, from, to))) return from;
    from = to + 1;
  }
  return -1;
}

const pipesOf = (text: string): number => {
  let pipes = 0;
  for (let at = text.indexOf('|'); at >= 0; at = text.indexOf('|', at + 1)) pipes += 1;
  return pipes;
};

/** Whether a text is too long to be lexed, or has too many cells. */
export const isTooLong = (text: string): boolean => text.length > LONGEST || (text.length > MOST_PIPES && pipesOf(text) > MOST_PIPES);

/** How many characters the lexer may go through for a text of this length. */
export const mostUsed = (length: number): number => length * MOST_LEVELS + LONGEST_PARAGRAPH;

class TooMuch extends Error {}

/** A lexer that gives up, by throwing, on what would take it long. It counts characters and no time: the same text is always the same. */
export class CarefulLexer extends Lexer {
  private left = 0;
  /** How many characters it went through, over all levels. */
  used = 0;

  override lex(text: string): ReturnType<Lexer['lex']> {
    if (isTooLong(text)) throw new TooMuch();
    this.left = mostUsed(text.length);
    return super.lex(text);
  }

  override blockTokens(text: string, ...more: [tokens?: Token[], lastParagraphClipped?: boolean]): never {
    this.spend(text.length);
    return super.blockTokens(text, ...more) as never;
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    this.spend(text.length);
    if (text.length <= LONGEST_PARAGRAPH) return super.inlineTokens(text, tokens);
    tokens.push({ type: 'text', raw: text, text, escaped: false });
    return tokens;
  }

  private spend(length: number): void {
    this.used += length;
    this.left -= length;
    if (this.left < 0) throw new TooMuch();
  }
}
