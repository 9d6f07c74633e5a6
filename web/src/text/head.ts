// Owns the head of a block that is still being written: what of it is final, such as the items of a list but the last. It is lexed
// once. The text behind it is lexed behind a short stand-in for the head, and joined with it.
import type { Token, Tokens } from 'marked';
import { LONGEST_PARAGRAPH, mostUsed } from './bombs';
import { lex, type Lexed } from './lexing';
import { closesDoubt, cutOf, isFinal } from './open-marks';

interface HeadOf<T extends Token> {
  token: T;
  raw: string;
  /** Makes of what follows the same kind of block. */
  standIn: string;
  used: number;
  /** The marks that are taken for text. */
  doubts: string;
}

/** The final part of a block. */
export type Head = HeadOf<Tokens.Paragraph> & { kind: 'paragraph' } | HeadOf<Tokens.List> & { kind: 'list'; bullet: string } | HeadOf<Tokens.Table> & { kind: 'table' };

/** A head that has grown, and how much it took of what followed. */
export interface Growth {
  head: Head;
  length: number;
}

export type Growing = Growth | 'none' | 'refused';

const WORD = 'x ';
const BULLET = /^(?:([-*+])|\d{1,9}([.)]))[ \t]/;
/** Begins a block that is no paragraph, or may yet be none. */
const OTHER_BLOCK = /^(?: {4}| {0,3}(?:\t|[>#<|]|[-+*=_][ \t\n]|\d{1,9}[.)]|[-*_=]{3}))/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-[ \t:|-]*$/;
/** Rows are lexed together until they are so many times as long as their stand-in. */
const ROWS_BY_STAND_IN = 6;

/** Takes more of a block as final. `none`: no more of it is; `refused`: it was lexed for nothing. */
export function grow(head: Head | null, rest: string): Growing {
  if (head?.kind === 'table') return growTable(head, rest);
  if (head?.kind === 'list') return growList(head, rest);
  if (head?.kind === 'paragraph') return growParagraph(head, rest);
  if (BULLET.test(rest)) return growList(null, rest);
  const table = beginTable(rest);
  return table !== 'none' ? table : OTHER_BLOCK.test(rest) ? 'none' : growParagraph(null, rest);
}

/** Texts one after the other are one. */
function joined(before: readonly Token[], after: readonly Token[]): Token[] {
  const last = before.at(-1);
  const first = after[0];
  if (last?.type !== 'text' || first?.type !== 'text' || 'tokens' in last || 'tokens' in first) return [...before, ...after];
  return [...before.slice(0, -1), { ...last, raw: last.raw + first.raw, text: (last as Tokens.Text).text + (first as Tokens.Text).text } as Token, ...after.slice(1)];
}

/** The words of a paragraph behind their stand-in; `null`: the stand-in is part of something else. */
function behindWord(tokens: readonly Token[]): Token[] | null {
  const [first, ...more] = tokens;
  if (first?.type !== 'text' || 'tokens' in first || !(first as Tokens.Text).text.startsWith(WORD)) return null;
  const text = { ...first, raw: first.raw.slice(WORD.length), text: (first as Tokens.Text).text.slice(WORD.length) } as Token;
  return text.raw === '' ? more : [text, ...more];
}

function growParagraph(head: HeadOf<Tokens.Paragraph> | null, rest: string): Growing {
  const { length, doubts } = cutOf(rest);
  if (length === 0) return 'none';
  const slice = rest.slice(0, length);
  const line = slice.slice(slice.lastIndexOf('\n') + 1);
  // A line may become something else until it has words; at its beginning an address for links, or a table.
  if ((head === null || slice.includes('\n')) && (!/\p{L}/u.test(line) || /^ {0,3}\|/.test(line))) return 'none';
  if (head === null && (/^ {0,3}\[[^\n]*\]:/.test(slice) || line.includes('|'))) return 'none';
  if ((head?.raw.length ?? 0) + length > LONGEST_PARAGRAPH || closesDoubt(slice, head?.doubts ?? '')) return 'none';
  const lexed = lex(head === null ? slice : WORD + slice, {});
  const token = lexed?.tokens[0];
  if (lexed === null || lexed.tokens.length !== 1 || token?.type !== 'paragraph' || token.raw.length !== slice.length + (head === null ? 0 : WORD.length)) return 'refused';
  const all = `${head?.doubts ?? ''}${doubts}`;
  const words = head === null ? (token as Tokens.Paragraph).tokens : behindWord((token as Tokens.Paragraph).tokens);
  if (words === null || !isFinal(words, all)) return 'refused';
  const raw = (head?.raw ?? '') + slice;
  const tokens = joined(head?.token.tokens ?? [], words);
  return { head: { kind: 'paragraph', token: { type: 'paragraph', raw, text: raw, tokens }, raw, standIn: WORD, used: (head?.used ?? 0) + lexed.used, doubts: all }, length };
}

function growList(head: HeadOf<Tokens.List> | null, rest: string): Growing {
  const [, mark, dot] = BULLET.exec(rest) ?? [];
  if (mark === undefined && dot === undefined) return 'none';
  const next = new RegExp(`\\n(?=${mark === undefined ? `\\d{1,9}\\${dot}` : `\\${mark}`}[ \\t]+[^\\s*_-])`, 'g');
  let length = 0;
  while (next.exec(rest) !== null) length = next.lastIndex;
  if (length === 0) return 'none';
  const slice = rest.slice(0, length);
  // Another item behind them makes each of them one that is not the last.
  const lexed = lex(`${slice}${mark ?? `1${dot}`} x`, {});
  const list = lexed?.tokens[0] as Tokens.List | undefined;
  if (lexed === null || lexed.tokens.length !== 1 || list?.type !== 'list' || list.items.length < 2 || list.items.slice(0, -1).reduce((sum, item) => sum + item.raw.length, 0) !== length) return 'refused';
  const token = { ...list, raw: slice, items: list.items.slice(0, -1) };
  const raw = (head?.raw ?? '') + slice;
  return { head: { kind: 'list', bullet: mark ?? dot as string, token: head === null ? token : oneList(head.token, token), raw, standIn: '', used: (head?.used ?? 0) + lexed.used, doubts: '' }, length };
}

/** An item of a loose list has paragraphs. */
const loosened = (item: Tokens.ListItem): Tokens.ListItem => (item.loose ? item
  : { ...item, loose: true, tokens: item.tokens.map((token) => (token.type === 'text' ? { ...token, type: 'paragraph' } as Token : token)) });

function oneList(before: Tokens.List, after: Tokens.List): Tokens.List {
  const items = [...before.items, ...after.items];
  const loose = before.loose || after.loose;
  return { ...before, raw: before.raw + after.raw, loose, items: loose ? items.map(loosened) : items };
}

function beginTable(rest: string): Growing {
  const first = rest.indexOf('\n');
  const second = rest.indexOf('\n', first + 1);
  if (first <= 0 || second < 0 || !rest.slice(0, first).includes('|') || !DELIMITERS.test(rest.slice(first + 1, second))) return 'none';
  return tableOf(null, rest, second + 1);
}

function growTable(head: HeadOf<Tokens.Table>, rest: string): Growing {
  const length = rest.lastIndexOf('\n') + 1;
  return length < head.standIn.length * ROWS_BY_STAND_IN ? 'none' : tableOf(head, rest, length);
}

function tableOf(head: HeadOf<Tokens.Table> | null, rest: string, length: number): Growing {
  const slice = rest.slice(0, length);
  const given = (head?.standIn ?? '') + slice;
  const lexed = lex(given, {});
  const table = lexed?.tokens[0] as Tokens.Table | undefined;
  if (lexed === null || lexed.tokens.length !== 1 || table?.type !== 'table' || table.raw.length !== given.length - 1) return 'refused';
  const raw = (head?.raw ?? '') + slice;
  const token = head === null ? { ...table, raw } : oneTable(head.token, table, slice);
  return { head: { kind: 'table', token, raw, standIn: head?.standIn ?? standInOf(table), used: (head?.used ?? 0) + lexed.used, doubts: '' }, length };
}

const standInOf = ({ align }: Tokens.Table): string => `|${align.map(() => 'a|').join('')}\n|${align.map((one) => `${one === 'left' || one === 'center' ? ':' : ''}-${one === 'right' || one === 'center' ? ':' : ''}|`).join('')}\n`;

const oneTable = (before: Tokens.Table, after: Tokens.Table, raw: string): Tokens.Table => ({ ...before, raw: before.raw + raw, rows: [...before.rows, ...after.rows] });

/** The block, of its head and of the first block of what was lexed behind the stand-in; `null`: they do not belong together so. */
export function whole(head: Head, lexed: Lexed): Token | null {
  const [first] = lexed.tokens;
  if (first === undefined || head.used + lexed.used > mostUsed(head.raw.length + first.raw.length)) return null;
  const raw = head.raw + first.raw.slice(head.standIn.length);
  if (head.kind === 'list') return first.type === 'list' && bulletOf(first as Tokens.List) === head.bullet ? oneList(head.token, first as Tokens.List) : null;
  if (head.kind === 'table') return first.type === 'table' ? oneTable(head.token, first as Tokens.Table, first.raw.slice(head.standIn.length)) : null;
  // With a line below it that underlines it, a paragraph is a heading, or a table.
  if (first.type !== 'paragraph') return null;
  const words = behindWord((first as Tokens.Paragraph).tokens);
  if (words === null || closesDoubt(first.raw.slice(WORD.length), head.doubts)) return null;
  const text = head.raw + (first as Tokens.Paragraph).text.slice(WORD.length);
  return { ...first, raw, text, tokens: text.length > LONGEST_PARAGRAPH ? [{ type: 'text', raw: text, text, escaped: false }] : joined(head.token.tokens, words) } as Token;
}

const bulletOf = (list: Tokens.List): string | undefined => { const [, mark, dot] = BULLET.exec(`${list.raw} `) ?? []; return mark ?? dot; };

const wordsOf = (text: string): Token[] => (text === '' ? [] : [{ type: 'text', raw: text, text, escaped: false } as Token]);

/** The block as it is shown while what follows its head is not lexed. */
export function sketch(head: Head | null, rest: string): Token[] {
  if (head?.kind === 'table') return [{ ...head.token, rows: [...head.token.rows, ...rest.split('\n').filter((line) => line.trim() !== '').map((line) => rowOf(line, head.token))] } as Token];
  if (head?.kind === 'paragraph') return [{ ...head.token, tokens: joined(head.token.tokens, wordsOf(rest)) } as Token];
  const bullet = BULLET.exec(rest);
  if (bullet !== null) {
    const text = rest.slice(bullet[0].length).trimStart();
    const item = { type: 'list_item', raw: rest, task: false, loose: false, text, tokens: [{ type: 'text', raw: text, text, tokens: wordsOf(text) }] } as unknown as Tokens.ListItem;
    const list: Tokens.List = { type: 'list', raw: rest, ordered: bullet[1] === undefined, start: bullet[1] === undefined ? '' : parseInt(rest, 10), loose: false, items: [item] };
    return [head === null ? list : oneList(head.token, list)];
  }
  const heading = /^ {0,3}(#{1,6})[ \t]+([^\n]*)$/.exec(rest);
  if (heading !== null) return [{ type: 'heading', raw: rest, depth: heading[1]!.length, text: heading[2]!, tokens: wordsOf(heading[2]!) } as Token];
  const isQuote = /^ {0,3}>/.test(rest);
  const text = isQuote ? rest.replace(/^ {0,3}> ?/gm, '') : rest;
  const paragraph = { type: 'paragraph', raw: text, text, tokens: wordsOf(text) } as Token;
  return [isQuote ? { type: 'blockquote', raw: rest, text, tokens: [paragraph] } as Token : paragraph];
}

function rowOf(line: string, table: Tokens.Table): Tokens.TableCell[] {
  const cells = line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|').map((cell) => cell.trim());
  return table.header.map((_, at) => ({ text: cells[at] ?? '', tokens: wordsOf(cells[at] ?? ''), header: false, align: table.align[at] ?? null }));
}

/** The lexed tokens, with words behind them that were not lexed. */
export function withWords(tokens: readonly Token[], more: string): Token[] {
  const last = tokens.at(-1);
  if (more.trim() === '' || last === undefined) return [...tokens];
  const changed = (token: Token): Token | null => {
    if (token.type === 'list') {
      const { items } = token as Tokens.List;
      const item = items.at(-1) as Tokens.ListItem;
      return { ...token, items: [...items.slice(0, -1), { ...item, tokens: withWords(item.tokens, more) }] } as Token;
    }
    if (token.type === 'blockquote') return { ...token, tokens: withWords((token as Tokens.Blockquote).tokens, more) } as Token;
    const isWords = token.type === 'paragraph' || token.type === 'heading' || token.type === 'text';
    return isWords ? { ...token, tokens: joined((token as Tokens.Paragraph).tokens ?? [], wordsOf(more)) } as Token : null;
  };
  const next = changed(last);
  return next === null ? [...tokens, { type: 'paragraph', raw: more, text: more, tokens: wordsOf(more) } as Token] : [...tokens.slice(0, -1), next];
}
