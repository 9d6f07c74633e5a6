// Owns the calls of the lexer, and how many characters may be lexed for a look at what is not final: a small store, which fills as
// text comes. So a text that streams is lexed little more than once, however small its pieces are.
import type { Links, Token } from 'marked';
import { CarefulLexer } from './bombs';

const MOST_LOOKED_AT = 2_000;
const LOOKED_AT_A_CHARACTER = 0.15;

/** The lexer's result for a text. `used`: how many characters it went through, over all levels. */
export interface Lexed {
  tokens: Token[];
  links: Links;
  used: number;
}

let left = MOST_LOOKED_AT;

/** Text came: more may be looked at. */
export function came(length: number): void {
  left = Math.min(MOST_LOOKED_AT, left + length * LOOKED_AT_A_CHARACTER);
}

/** Whether so many characters may be lexed though they are lexed again later. If so they count. */
export function mayLook(length: number): boolean {
  if (length > left) return false;
  left -= length;
  return true;
}

/** Lexes a text, or says that it cannot. */
export function lex(text: string, links: Links): Lexed | null {
  const lexer = new CarefulLexer({ gfm: true, breaks: false });
  Object.assign(lexer.tokens.links, links);
  try {
    const tokens = lexer.lex(text);
    return { tokens, links: lexer.tokens.links, used: lexer.used };
  } catch {
    return null;
  }
}
