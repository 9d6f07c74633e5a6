// Owns the reading of terminal output: colours become classes, `\r`, backspace and erase-line are carried out within the line,
// links of http(s) are kept, and everything else that would move or change a terminal is dropped and counted.

/** A stretch of a line that looks alike. `classes` is empty for plain text. */
export interface Stretch { text: string; classes: string; href: string | null }

/** Output that was read: its lines, and how many codes were left out. */
export interface TerminalText { lines: Stretch[][]; dropped: number }

interface Look { fg: number | null; bg: number | null; isBold: boolean; isDim: boolean; isItalic: boolean; isUnderlined: boolean; isStruck: boolean; isReversed: boolean; isConcealed: boolean; href: string | null }

const PLAIN: Look = { fg: null, bg: null, isBold: false, isDim: false, isItalic: false, isUnderlined: false, isStruck: false, isReversed: false, isConcealed: false, href: null };
/** A sequence that is longer than this without an end is no control sequence. */
const LONGEST_SEQUENCE = 4_096;

const classesOf = (look: Look): string => {
  const names: string[] = [];
  if (look.fg !== null) names.push(`ansi-${look.fg}`);
  if (look.isBold) names.push('is-bold');
  if (look.isDim) names.push('is-dim');
  if (look.isItalic) names.push('is-italic');
  if (look.isUnderlined) names.push('is-underlined');
  if (look.isStruck) names.push('is-struck');
  if (look.isReversed) names.push('is-reversed');
  // Text that hides itself is shown, and marked.
  if (look.isConcealed) names.push('is-concealed');
  return names.join(' ');
};

/** Reads output as a terminal would show it, line by line. */
export function readTerminal(text: string): TerminalText {
  // Most output has no code in it.
  if (!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text)) {
    return { lines: text.split('\n').map((line) => (line === '' ? [] : [{ text: line, classes: '', href: null }])), dropped: 0 };
  }
  return new Reader(text).read();
}

class Reader {
  private readonly lines: Stretch[][] = [];
  private cells: string[] = [];
  private looks: Look[] = [];
  private column = 0;
  private look: Look = PLAIN;
  private dropped = 0;
  private at = 0;

  constructor(private readonly text: string) {}

  read(): TerminalText {
    const { text } = this;
    while (this.at < text.length) {
      const character = text[this.at] as string;
      const code = text.charCodeAt(this.at);
      this.at += 1;
      if (character === '\n') this.endLine();
      else if (character === '\r') { if (text[this.at] !== '\n') this.column = 0; }
      else if (character === '\b') this.column = Math.max(0, this.column - 1);
      else if (character === '\t') this.put('\t');
      else if (character === '\u001b') this.escape();
      else if (code === 0x9b) this.control();
      else if (code === 0x9d) this.systemCommand();
      else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) this.dropped += 1;
      else this.plain();
    }
    this.endLine();
    return { lines: this.lines, dropped: this.dropped };
  }

  /** Everything up to the next code, at once where nothing lies beneath it. */
  private plain(): void {
    const from = this.at - 1;
    const { text } = this;
    while (this.at < text.length) {
      const code = text.charCodeAt(this.at);
      if (code < 0x20 || (code >= 0x7f && code < 0xa0)) break;
      this.at += 1;
    }
    for (const character of text.slice(from, this.at)) this.put(character);
  }

  private put(character: string): void {
    while (this.cells.length < this.column) { this.cells.push(' '); this.looks.push(PLAIN); }
    this.cells[this.column] = character;
    this.looks[this.column] = this.look;
    this.column += 1;
  }

  private endLine(): void {
    const line: Stretch[] = [];
    let from = 0;
    for (let i = 1; i <= this.cells.length; i += 1) {
      if (i < this.cells.length && this.looks[i] === this.looks[from]) continue;
      const look = this.looks[from];
      if (look !== undefined) line.push({ text: this.cells.slice(from, i).join(''), classes: classesOf(look), href: look.href });
      from = i;
    }
    this.lines.push(line);
    this.cells = [];
    this.looks = [];
    this.column = 0;
  }

  private escape(): void {
    const next = this.text[this.at];
    if (next === '[') { this.at += 1; this.control(); return; }
    if (next === ']') { this.at += 1; this.systemCommand(); return; }
    this.dropped += 1;
    if (next === 'P' || next === 'X' || next === '^' || next === '_') { this.at += 1; this.untilEnd(); return; }
    // Two or three characters: `ESC ( B`, `ESC 7`.
    if (next !== undefined && /[ -/]/.test(next)) this.at += 2;
    else if (next !== undefined && /[0-~]/.test(next)) this.at += 1;
  }

  /** A control sequence: colours and erase-line are carried out. */
  private control(): void {
    const match = /^([0-?]*)([ -/]*)([@-~])/.exec(this.text.slice(this.at, this.at + 256));
    if (match === null) { this.dropped += 1; return; }
    this.at += match[0].length;
    const [, parameters = '', between, final] = match;
    if (between === '' && final === 'm' && !/[<-?]/.test(parameters)) this.recolour(parameters);
    else if (between === '' && final === 'K') this.erase(parameters);
    else this.dropped += 1;
  }

  private erase(parameters: string): void {
    if (parameters === '' || parameters === '0') { this.cells.length = Math.min(this.cells.length, this.column); this.looks.length = this.cells.length; return; }
    if (parameters !== '1' && parameters !== '2') { this.dropped += 1; return; }
    const end = parameters === '2' ? this.cells.length : Math.min(this.column + 1, this.cells.length);
    for (let i = 0; i < end; i += 1) { this.cells[i] = ' '; this.looks[i] = PLAIN; }
    if (parameters === '2') { this.cells.length = 0; this.looks.length = 0; }
  }

  /** An operating system command: links are kept, titles and all else are dropped. */
  private systemCommand(): void {
    const body = this.untilEnd();
    const match = body === null ? null : /^8;[^;]*;(.*)$/s.exec(body);
    if (match === null) { this.dropped += 1; return; }
    this.look = { ...this.look, href: safeLink(match[1] ?? '') };
  }

  private untilEnd(): string | null {
    // A bell, `ESC \` or its one-byte form ends a string of a terminal; a line end means that it never ended.
    const rest = this.text.slice(this.at, this.at + LONGEST_SEQUENCE);
    const match = /\u0007|\u001b\\|\u009c|\n/.exec(rest);
    if (match === null || match[0] === '\n') return null;
    this.at += match.index + match[0].length;
    return rest.slice(0, match.index);
  }

  private recolour(parameters: string): void {
    const numbers = parameters.split(/[;:]/).map((part) => (part === '' ? 0 : Number(part)));
    let look = { ...this.look };
    for (let i = 0; i < numbers.length; i += 1) {
      const n = numbers[i] as number;
      if (n === 0) look = { ...PLAIN, href: look.href };
      else if (n === 1) look.isBold = true;
      else if (n === 2) look.isDim = true;
      else if (n === 3) look.isItalic = true;
      else if (n === 4) look.isUnderlined = true;
      else if (n === 7) look.isReversed = true;
      else if (n === 8) look.isConcealed = true;
      else if (n === 9) look.isStruck = true;
      else if (n === 21 || n === 22) { look.isBold = false; look.isDim = false; }
      else if (n === 23) look.isItalic = false;
      else if (n === 24) look.isUnderlined = false;
      else if (n === 27) look.isReversed = false;
      else if (n === 28) look.isConcealed = false;
      else if (n === 29) look.isStruck = false;
      else if (n >= 30 && n <= 37) look.fg = n - 30;
      else if (n >= 90 && n <= 97) look.fg = n - 82;
      else if (n === 39) look.fg = null;
      else if (n === 38 || n === 48 || n === 58) {
        const kind = numbers[i + 1];
        if (kind === 5) { if (n === 38) look.fg = nearestOf256(numbers[i + 2] ?? 0); i += 2; }
        else if (kind === 2) { if (n === 38) look.fg = nearest(numbers[i + 2] ?? 0, numbers[i + 3] ?? 0, numbers[i + 4] ?? 0); i += 4; }
      }
      // Background colours are not followed: text stays readable.
    }
    this.look = look;
  }
}

/** An address that may be followed, or `null`. */
export function safeLink(address: string): string | null {
  let url: URL;
  try {
    url = new URL(address.trim());
  } catch {
    return null;
  }
  return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
}

/** The nearest of the 16 colours to one of 256. */
function nearestOf256(n: number): number {
  if (n < 16) return Math.max(0, n);
  if (n >= 232) return grey(8 + (n - 232) * 10);
  const level = (x: number) => (x === 0 ? 0 : 55 + x * 40);
  const i = n - 16;
  return nearest(level(Math.floor(i / 36) % 6), level(Math.floor(i / 6) % 6), level(i % 6));
}

const grey = (light: number): number => (light < 64 ? 0 : light < 128 ? 8 : light < 208 ? 7 : 15);

/** The nearest of the 16 colours by hue; a colour without one is a grey. */
function nearest(r: number, g: number, b: number): number {
  const most = Math.max(r, g, b);
  const least = Math.min(r, g, b);
  if (most - least < 32 || Number.isNaN(most)) return grey(Number.isNaN(most) ? 128 : most);
  const span = most - least;
  const hue = most === r ? ((g - b) / span + 6) % 6 : most === g ? (b - r) / span + 2 : (r - g) / span + 4;
  // Red, yellow, green, cyan, blue, magenta, by sixths of the circle.
  const colour = [1, 3, 2, 6, 4, 5][Math.round(hue) % 6] as number;
  return most > 208 ? colour + 8 : colour;
}
