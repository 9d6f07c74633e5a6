// Owns what becomes of characters that hide something: the page shows them, drops them or counts them, and never obeys them.

/** A piece of a text: to be shown as it is, or in the place of what cannot be seen. */
export type Piece = { kind: 'text'; text: string } | { kind: 'chip'; text: string; name: string };

/** A text in pieces, and how many control codes were left out. */
export interface Shown { pieces: Piece[]; dropped: number }

/** How a text is laid out: `prose` and `command` have few blanks in a row, `code` and output may have columns. */
export type Layout = 'prose' | 'code';

const BLANKS = '\\u0020\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000';
const HIDDEN = '\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e0fff}\\u{1d173}-\\u{1d17a}';
const MARKS = '\\p{Mn}\\p{Me}';
const SUSPECT = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f${HIDDEN}]|[${BLANKS}\\t]{9}|[${MARKS}]{5}|\\p{Cs}|[\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000]{2}|[\\ufe00-\\ufe0f]`, 'u');
const RUN = new RegExp(`(?<control>[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]+)|(?<hidden>[${HIDDEN}\\ufe00-\\ufe0f]+|\\p{Cs}+)|(?<blanks>[${BLANKS}\\t]{9,})|(?<marks>[${MARKS}]{5,})`, 'gu');

const MOST_INDENT = 40;
const MOST_BLANKS: Record<Layout, number> = { prose: 8, code: 80 };
const MOST_CHIPS = 8;

const NAMES: Record<number, string> = {
  0x00ad: 'soft hyphen', 0x061c: 'Arabic letter mark', 0x200b: 'zero width space', 0x200c: 'zero width non-joiner',
  0x200d: 'zero width joiner', 0x200e: 'left-to-right mark', 0x200f: 'right-to-left mark', 0x2028: 'line separator',
  0x2029: 'paragraph separator', 0x202a: 'left-to-right embedding', 0x202b: 'right-to-left embedding',
  0x202c: 'end of embedding', 0x202d: 'left-to-right override', 0x202e: 'right-to-left override', 0x2060: 'word joiner',
  0x2066: 'left-to-right isolate', 0x2067: 'right-to-left isolate', 0x2068: 'first strong isolate', 0x2069: 'end of isolate',
  0xfeff: 'zero width no-break space',
};

const hex = (code: number): string => `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
const nameOf = (code: number): string => NAMES[code] ?? (code >= 0xd800 && code <= 0xdfff ? 'half of a character' : 'a character that cannot be seen');

/** Whether every character of a text can be seen as it is. */
export const isPlain = (text: string): boolean => !SUSPECT.test(text);

/** A text in the pieces in which it is shown. */
export function shownOf(text: string, layout: Layout = 'prose'): Shown {
  if (isPlain(text)) return { pieces: text === '' ? [] : [{ kind: 'text', text }], dropped: 0 };
  const pieces: Piece[] = [];
  let dropped = 0;
  let from = 0;
  let pending = '';
  const flush = () => {
    if (pending !== '') pieces.push({ kind: 'text', text: pending });
    pending = '';
  };
  const chip = (label: string, name: string) => { flush(); pieces.push({ kind: 'chip', text: label, name }); };
  for (const match of text.matchAll(RUN)) {
    pending += text.slice(from, match.index);
    const run = match[0];
    const end = match.index + run.length;
    from = end;
    const { control, hidden, marks } = match.groups as Record<string, string | undefined>;
    if (control !== undefined) {
      const isLineEnd = run.endsWith('\r') && text[end] === '\n';
      dropped += run.length - (isLineEnd ? 1 : 0);
    } else if (hidden !== undefined) {
      hiddenRun(run, text.slice(Math.max(0, match.index - 2), match.index), text.slice(end, end + 2), (kept) => { pending += kept; }, chip);
    } else if (marks !== undefined) {
      chip(`${run.length} marks`, 'marks above and below a letter');
    } else {
      const isIndent = match.index === 0 || text[match.index - 1] === '\n';
      if (run.length <= (isIndent ? Math.max(MOST_INDENT, MOST_BLANKS[layout]) : MOST_BLANKS[layout])) pending += run;
      else chip(`${run.length} blanks`, 'blanks in a row');
    }
  }
  pending += text.slice(from);
  flush();
  return { pieces, dropped };
}

/** A text for places that take text alone, such as names and options: what cannot be seen is spelled out in brackets. */
export const spelledOut = (text: string): string => (isPlain(text) ? text
  : shownOf(text).pieces.map((piece) => (piece.kind === 'text' ? piece.text : `[${piece.text}]`)).join(''));

/** Characters that nobody sees, in a row: those that make one emoji of several stay, the others are shown. */
function hiddenRun(run: string, before: string, after: string, keep: (text: string) => void, chip: (label: string, name: string) => void): void {
  const isEmoji = /\p{Extended_Pictographic}|\p{Emoji_Modifier}|[\u20e3#*0-9]$/u;
  if (/^(?:\ufe0f|\ufe0e)?\u200d$/.test(run) && /[\p{Extended_Pictographic}\p{Emoji_Modifier}]$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after)) return keep(run);
  if (/^[\ufe00-\ufe0f]$/.test(run) && (isEmoji.test(before) || /[^\u0000-\u007f]$/u.test(before))) return keep(run);
  const codes = Array.from(run, (character) => character.codePointAt(0) ?? 0);
  if (codes.length > MOST_CHIPS) {
    chip(`${codes.length} hidden characters`, codes.slice(0, MOST_CHIPS).map(hex).join(' '));
    return;
  }
  for (const code of codes) chip(hex(code), nameOf(code));
}
