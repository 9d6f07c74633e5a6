// Owns how a streamed Markdown text is cut into parts that can be drawn one by one: at blank lines between blocks, never inside
// of a fence. The cut depends on whole lines alone, and so not on how the text was sliced into deltas.
import type { Part } from './model';

const LIST_ITEM = /^(?:[-*+]|\d{1,9}[.)])[ \t]/;
/** A line of which one cannot say yet whether it is an item. */
const MAY_BE_ITEM = /^(?:[-*+]|\d{1,9}[.)]?)$/;
const ITEMS_A_PART = 20;

/** Cuts a text as it comes. */
export class PartCutter {
  readonly parts: Part[] = [];
  /** The whole lines of the open part. */
  private lines = '';
  /** The line that is not whole yet. */
  private rest = '';
  private fence = '';
  /** Whether the open part has nothing but blank lines so far. */
  private isEmpty = true;
  private afterBlank = false;
  private isList = false;
  private items = 0;

  /** Takes more text. Only the last part changes, and new ones follow. */
  push(text: string): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.line(this.rest + text.slice(from, end + 1));
      this.rest = '';
      from = end + 1;
    }
    this.rest += text.slice(from);
    // A line that begins another part is never shown in this one, which would shrink when the line is whole.
    if (this.lines !== '' && this.rest !== '' && !MAY_BE_ITEM.test(this.rest) && this.cutsBefore(this.rest)) this.cut();
    this.show();
  }

  /** The text is whole. */
  close(): void {
    if (this.rest !== '') this.line(this.rest);
    this.rest = '';
    this.show();
    const last = this.parts.at(-1);
    if (last !== undefined) this.parts[this.parts.length - 1] = { text: last.text, isClosed: true };
  }

  private line(line: string): void {
    const isBlank = line.trim() === '';
    if (this.fence !== '') {
      const closing = /^\s*(`{3,}|~{3,})\s*$/.exec(line);
      if (closing !== null && closing[1]!.startsWith(this.fence)) this.fence = '';
    } else if (!isBlank) {
      const isItem = LIST_ITEM.test(line);
      if (this.lines !== '' && this.cutsBefore(line)) this.cut();
      if (this.isEmpty) this.isList = isItem;
      this.isEmpty = false;
      if (isItem) this.items += 1;
      this.fence = /^\s*(`{3,}|~{3,})/.exec(line)?.[1] ?? '';
    }
    this.afterBlank = isBlank;
    this.lines += line;
  }

  /** Whether a line that is not empty begins another part. */
  private cutsBefore(line: string): boolean {
    if (this.fence !== '' || /^\s/.test(line)) return false;
    const isNext = LIST_ITEM.test(line) && this.isList;
    return isNext ? this.items >= ITEMS_A_PART : this.afterBlank;
  }

  private cut(): void {
    const closed: Part = { text: this.lines, isClosed: true };
    if (this.parts.length > 0 && !this.parts.at(-1)!.isClosed) this.parts[this.parts.length - 1] = closed; else this.parts.push(closed);
    this.lines = '';
    this.isEmpty = true;
    this.items = 0;
    this.isList = false;
  }

  private show(): void {
    const isHeld = this.lines !== '' && this.fence === '' && MAY_BE_ITEM.test(this.rest) && (this.afterBlank || (this.isList && this.items >= ITEMS_A_PART));
    const text = isHeld ? this.lines : this.lines + this.rest;
    const last = this.parts.at(-1);
    if (last !== undefined && !last.isClosed) this.parts[this.parts.length - 1] = { text, isClosed: false };
    else if (text !== '') this.parts.push({ text, isClosed: false });
  }
}

/** The parts of a whole text. */
export function partsOf(text: string): Part[] {
  const cutter = new PartCutter();
  cutter.push(text);
  cutter.close();
  return cutter.parts;
}
