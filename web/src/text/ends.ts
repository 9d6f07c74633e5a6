// Owns where a block has surely ended, seen from the lines after it: they are lexed then, once. Where it is not sure the lexer says.
import type { Token } from 'marked';

/** An empty line, and one at the left edge that goes on with no block. */
const AFTER_BLANK = /\n[ \t]*\n(?=[^\s\-*+>\d|<[])/g;
/** Begins a block though the line before it is not empty. */
const INTERRUPTS = /\n(?=(?:[-*+]|1[.)])[ \t]+[^\s*_-]|#{1,6}[ \t]+\S|> ?\S)/;
/** An empty line, or one of a list or a quote. */
const HAS_MORE = /^[ \t]*(?:$|[-*+>]|\d{1,9}[.)])/m;
const HEADING_LINE = /^ {0,3}#{1,6}(?:[ \t][^\n]*)?\n/;
/** Markup may have empty lines, and code in a fence anything. */
const UNSURE = /^ {0,3}<|^ {1,3}(?:`{3,}|~{3,})/m;

/** Whether a token is a heading of one line, which no line after it changes. */
export const isHeading = (token: Token | undefined): boolean => token?.type === 'heading' && HEADING_LINE.test(token.raw);

/** Where the blocks at the beginning of a text have ended, all of them; 0: they may go on. The first `complete` characters are whole lines. */
export function endOf(text: string, complete: number): number {
  const heading = HEADING_LINE.exec(text);
  if (heading !== null && heading[0].length <= complete) return heading[0].length;
  const fence = text.search(/^(?:`{3,}[^`\n]*|~{3,}[^\n]*)$/m);
  const given = fence > 0 ? text.slice(0, fence) : text;
  if (fence === 0 || UNSURE.test(given)) return 0;
  let end = 0;
  AFTER_BLANK.lastIndex = 0;
  while (AFTER_BLANK.exec(given) !== null) end = AFTER_BLANK.lastIndex;
  if (end > 0) return end;
  if (/^ {0,3}\[/.test(given)) return 0;
  const next = INTERRUPTS.exec(given);
  if (next === null) return 0;
  // A heading ends everything; the others go on with a list or a quote, and end a block of mere lines.
  return given[next.index + 1] === '#' || !HAS_MORE.test(given.slice(0, next.index)) ? next.index + 1 : 0;
}
