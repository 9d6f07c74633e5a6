// Owns the reading of a shell line: its commands, each with its words. It reads enough to show them apart, and says where it cannot.

/** A word of a command, as the shell would take it, and where it stands in the line. */
export interface Word { text: string; from: number; to: number; isComputed: boolean }

/** A command of a line. `text` has what joins it to the next one. */
export interface Command { from: number; to: number; text: string; words: Word[]; joiner: string; redirects: Word[] }

/** A line in its commands. `isClear` is false where quotes or brackets do not end. */
export interface CommandLine { commands: Command[]; isClear: boolean }

const JOINERS = ['&&', '||', ';;', '|&', ';', '|', '&', '\n'];

class Reader {
  private at = 0;
  private isClear = true;
  private readonly commands: Command[] = [];
  private words: Word[] = [];
  private redirects: Word[] = [];
  private start = 0;
  private heredocs: { end: string; isIndented: boolean }[] = [];
  private nextIsRedirect = false;

  constructor(private readonly line: string) {}

  read(): CommandLine {
    const { line } = this;
    while (this.at < line.length) {
      const rest = line.slice(this.at, this.at + 2);
      const joiner = JOINERS.find((one) => rest.startsWith(one));
      const character = line[this.at] as string;
      if (character === '\\' && line[this.at + 1] === '\n') this.at += 2;
      else if (character === '#' && this.isWordStart()) this.skipComment();
      else if (joiner !== undefined && !(joiner === '&' && (line[this.at - 1] === '>' || line[this.at + 1] === '>'))) this.join(joiner);
      else if (/\s/.test(character)) this.at += 1;
      else if (character === '<' || character === '>' || (character === '&' && line[this.at + 1] === '>')) this.redirect();
      else if ('(){}'.includes(character) && this.isWordStart() && (character !== '{' || /\s/.test(line[this.at + 1] ?? ' '))) this.at += 1;
      else if (character === ')') this.at += 1;
      else this.word();
    }
    this.finish('', this.at);
    return { commands: this.commands, isClear: this.isClear && this.heredocs.length === 0 };
  }

  private isWordStart(): boolean {
    return this.at === 0 || /[\s;&|(]/.test(this.line[this.at - 1] ?? '');
  }

  private skipComment(): void {
    while (this.at < this.line.length && this.line[this.at] !== '\n') this.at += 1;
  }

  private join(joiner: string): void {
    this.at += joiner.length;
    if (joiner === '\n') this.takeHeredocs();
    if (this.words.length === 0 && this.redirects.length === 0 && this.commands.length > 0 && /^\s*$/.test(this.line.slice(this.start, this.at))) {
      // An empty line belongs to the command before it.
      const last = this.commands.at(-1) as Command;
      last.to = this.at;
      last.text = this.line.slice(last.from, last.to);
      this.start = this.at;
      return;
    }
    if (this.words.length > 0 || this.redirects.length > 0 || this.line.slice(this.start, this.at).trim() !== '') this.finish(joiner, this.at);
  }

  private finish(joiner: string, to: number): void {
    const text = this.line.slice(this.start, to);
    if (text.trim() !== '') this.commands.push({ from: this.start, to, text, words: this.words, joiner, redirects: this.redirects });
    this.words = [];
    this.redirects = [];
    this.start = to;
  }

  private takeHeredocs(): void {
    for (const { end, isIndented } of this.heredocs.splice(0)) {
      let found = false;
      while (this.at < this.line.length && !found) {
        const lineEnd = this.line.indexOf('\n', this.at);
        const to = lineEnd < 0 ? this.line.length : lineEnd;
        const text = this.line.slice(this.at, to);
        found = (isIndented ? text.replace(/^\t+/, '') : text) === end;
        this.at = Math.min(this.line.length, to + 1);
      }
      if (!found) this.isClear = false;
    }
  }

  private redirect(): void {
    const match = /^(?:&>>?|<<<|<<-?|[<>]\(|>>|>\||[<>]&|<>|[<>])/.exec(this.line.slice(this.at, this.at + 3));
    const sign = match?.[0] ?? '>';
    this.at += sign.length;
    if (sign.endsWith('(')) { this.at -= 1; this.word(); return; }
    while (this.line[this.at] === ' ' || this.line[this.at] === '\t') this.at += 1;
    this.nextIsRedirect = true;
    const before = this.redirects.length;
    if (this.at < this.line.length && !/[\n;|]/.test(this.line[this.at] as string)) this.word();
    this.nextIsRedirect = false;
    const target = this.redirects[before];
    if (target === undefined) return;
    if (sign === '<<' || sign === '<<-') {
      this.heredocs.push({ end: target.text, isIndented: sign === '<<-' });
      this.redirects.pop();
    } else if (sign === '<<<') this.redirects.pop();
  }

  private word(): void {
    const from = this.at;
    let text = '';
    let isComputed = false;
    const { line } = this;
    loop: while (this.at < line.length) {
      const character = line[this.at] as string;
      switch (character) {
        case "'": {
          const end = line.indexOf("'", this.at + 1);
          if (end < 0) this.isClear = false;
          text += line.slice(this.at + 1, end < 0 ? line.length : end);
          this.at = end < 0 ? line.length : end + 1;
          break;
        }
        case '"': {
          const inner = this.doubleQuoted();
          text += inner.text;
          isComputed ||= inner.isComputed;
          break;
        }
        case '\\':
          if (line[this.at + 1] !== '\n') text += line[this.at + 1] ?? '';
          this.at += 2;
          break;
        case '`': case '$': {
          const part = this.expansion();
          text += part;
          isComputed = true;
          break;
        }
        case '(': {
          const end = this.closing(this.at);
          text += line.slice(this.at, end);
          this.at = end;
          isComputed = true;
          break;
        }
        default:
          if (/[\s;&|<>)]/.test(character)) {
            if (!(character === '&' && line[this.at - 1] === '>')) break loop;
          }
          text += character;
          this.at += 1;
      }
    }
    if (this.at === from) { this.at += 1; return; }
    (this.nextIsRedirect ? this.redirects : this.words).push({ text, from, to: Math.min(this.at, line.length), isComputed });
  }

  private doubleQuoted(): { text: string; isComputed: boolean } {
    let text = '';
    let isComputed = false;
    this.at += 1;
    while (this.at < this.line.length && this.line[this.at] !== '"') {
      const character = this.line[this.at] as string;
      if (character === '\\') { text += this.line[this.at + 1] ?? ''; this.at += 2; }
      else if (character === '`' || character === '$') { text += this.expansion(); isComputed = true; }
      else { text += character; this.at += 1; }
    }
    if (this.at >= this.line.length) this.isClear = false;
    this.at += 1;
    return { text, isComputed };
  }

  private expansion(): string {
    const from = this.at;
    const next = this.line[this.at + 1];
    if (this.line[this.at] === '`') {
      const end = this.line.indexOf('`', this.at + 1);
      if (end < 0) this.isClear = false;
      this.at = end < 0 ? this.line.length : end + 1;
    } else if (next === '(' || next === '{') this.at = this.closing(this.at + 1);
    else if (next === "'" || next === '"') this.at += 1;
    else this.at += 1 + (/^(?:\w+|[@*#?$!-])/.exec(this.line.slice(this.at + 1, this.at + 100))?.[0].length ?? 0);
    return this.line.slice(from, this.at);
  }

  /** Behind the bracket that closes the one here. */
  private closing(from: number): number {
    let depth = 0;
    let quote = '';
    for (let i = from; i < this.line.length; i += 1) {
      const character = this.line[i] as string;
      if (quote !== '') { if (character === '\\' && quote === '"') i += 1; else if (character === quote) quote = ''; continue; }
      if (character === "'" || character === '"') quote = character;
      else if (character === '\\') i += 1;
      else if (character === '(' || character === '{') depth += 1;
      else if (character === ')' || character === '}') { depth -= 1; if (depth === 0) return i + 1; }
    }
    this.isClear = false;
    return this.line.length;
  }
}

/** Reads a shell line. The texts of its commands, joined, are the line. */
export const readCommandLine = (line: string): CommandLine => new Reader(line).read();
