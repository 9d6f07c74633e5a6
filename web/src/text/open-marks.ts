// Owns where a paragraph that is still being written can be cut: before that place nothing changes any more, whatever follows. A mark
// that is open, such as the first star of a word in bold, may find its other half later.
import type { Token, Tokens } from 'marked';

/** A mark for which no other half came in so many characters is a character like others, until one comes after all. */
const OLD = 300;
const MAY_BE_TEXT = '*_~';
const LETTER = /[\p{L}\p{N}]/u;

const runEnd = (text: string, from: number): number => {
  let at = from;
  while (text[at] === text[from]) at += 1;
  return at;
};

/** Behind the other half of the brackets at `from`; -1: it has not come. */
function bracketsEnd(text: string, from: number, open: string, close: string): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const one = text[at];
    if (one === '\\') at += 1;
    else if (one === open) depth += 1;
    else if (one === close) { depth -= 1; if (depth === 0) return at + 1; }
  }
  return -1;
}

/** Behind the other run of marks, which is as long as the one from `from` to `to`; -1: it has not come. */
function sameRun(text: string, from: number, to: number, mayClose: (at: number) => boolean): number {
  const mark = text[from] as string;
  for (let at = text.indexOf(mark, to); at >= 0;) {
    const end = runEnd(text, at);
    if (end - at === to - from && mayClose(at)) return end;
    at = text.indexOf(mark, end);
  }
  return -1;
}

/** Behind all that belongs to the mark at `at`; -1: its other half has not come. */
function markEnd(text: string, at: number): number {
  const mark = text[at] as string;
  const end = runEnd(text, at);
  if (mark === '`') return sameRun(text, at, end, () => true);
  const next = text[mark === '[' || mark === '<' ? at + 1 : end];
  if (next === undefined) return -1;
  if (mark === '[') {
    const label = bracketsEnd(text, at, '[', ']');
    if (label < 0 || label === text.length) return -1;
    return text[label] === '(' ? bracketsEnd(text, label, '(', ')') : label;
  }
  if (mark === '<') return next === ' ' ? at + 1 : -1;
  if (/\s/.test(next) || (mark === '_' && LETTER.test(text[at - 1] ?? ''))) return end;
  return sameRun(text, at, end, (other) => /\S/.test(text[other - 1] as string));
}

/** Where the first open mark is, and which marks before it are taken for text. */
function firstOpen(text: string): { at: number; doubts: string } {
  let doubts = '';
  for (let at = 0; at < text.length;) {
    const mark = text[at] as string;
    if (mark === '\\') { at += 2; continue; }
    if (!'`[<*_~'.includes(mark)) { at += 1; continue; }
    let end = markEnd(text, at);
    if (end < 0) {
      if (!MAY_BE_TEXT.includes(mark) || text.length - at < OLD) return { at, doubts };
      if (!doubts.includes(mark)) doubts += mark;
      end = runEnd(text, at);
    }
    at = end;
  }
  return { at: text.length, doubts };
}

/** How much of the words of a paragraph is final, up to a single blank between two of them; 0: nothing. */
export function cutOf(text: string): { length: number; doubts: string } {
  const { at, doubts } = firstOpen(text);
  for (let cut = text.lastIndexOf(' ', at - 1); cut > 0; cut = text.lastIndexOf(' ', cut - 1)) {
    const next = text[cut + 1];
    if (next !== undefined && /\S/.test(next) && /[^\s\\]/.test(text[cut - 1] as string)) return { length: cut + 1, doubts };
  }
  return { length: 0, doubts };
}

/** Whether a text may have the other half of a mark that was taken for text. */
export const closesDoubt = (text: string, doubts: string): boolean => Array.from(doubts).some((mark) => {
  for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, at + 1)) if (at === 0 || /\S/.test(text[at - 1] as string)) return true;
  return false;
});

const OPENERS: Record<string, RegExp> = { '*': /\*(?=\S|$)/, _: /(?<![\p{L}\p{N}_])_+(?=\S|$)/u, '~': /~(?=\S|$)/ };

/** Whether what was lexed has no open mark, but for those that are taken for text. */
export function isFinal(tokens: readonly Token[], doubts: string): boolean {
  let depth = 0;
  const isClosed = (text: string): boolean => {
    for (const one of text) {
      if (one === '[') depth += 1;
      else if (one === ']') depth = Math.max(0, depth - 1);
    }
    return !/`|\]\(|<(?=\S|$)/.test(text) && Object.entries(OPENERS).every(([mark, opener]) => doubts.includes(mark) || !opener.test(text));
  };
  const isDone = (all: readonly Token[]): boolean => all.every((token) => {
    switch (token.type) {
      case 'escape': case 'codespan': case 'br': case 'image': return true;
      case 'text': return (token as Tokens.Text).tokens === undefined ? isClosed((token as Tokens.Text).text) : isDone((token as Tokens.Text).tokens as Token[]);
      case 'link': case 'em': case 'strong': case 'del': return isDone((token as Tokens.Link).tokens);
      default: return false;
    }
  });
  return isDone(tokens) && depth === 0;
}
