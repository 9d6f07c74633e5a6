// Owns remarks on lines of changes: gathered while a person reads, kept in the browser, and said to the agent once.
import { del, get, set } from 'idb-keyval';
import { createSignal, type Accessor } from 'solid-js';

/** A remark on a line. */
export interface Remark { path: string; line: number; side: 'new' | 'old'; code: string; text: string }

/** The remarks of a session. */
export interface Review {
  remarks: Accessor<readonly Remark[]>;
  /** Sets the remark on a line; an empty text takes it away. */
  say(remark: Remark): void;
  clear(): void;
}

const open = new Map<string, Review>();
const isSame = (a: Remark, b: Remark): boolean => a.path === b.path && a.line === b.line && a.side === b.side;

/** The review of a session. */
export function openReview(sessionId: string): Review {
  const known = open.get(sessionId);
  if (known !== undefined) return known;
  const key = `review/${sessionId}`;
  const [remarks, setRemarks] = createSignal<readonly Remark[]>([]);
  const keep = () => (remarks().length === 0 ? del(key) : set(key, remarks())).catch(() => undefined);
  const made: Review = {
    remarks,
    say: (remark) => {
      setRemarks((all) => [...all.filter((other) => !isSame(other, remark)), ...(remark.text.trim() === '' ? [] : [remark])]);
      void keep();
    },
    clear: () => {
      setRemarks([]);
      void keep();
    },
  };
  open.set(sessionId, made);
  void get<Remark[]>(key).catch(() => undefined).then((kept) => { if (kept !== undefined && remarks().length === 0) setRemarks(kept); });
  return made;
}

/** The remark on a line, if there is one. */
export const remarkOn = (remarks: readonly Remark[], path: string, line: number, side: Remark['side']): Remark | undefined =>
  remarks.find((one) => one.path === path && one.line === line && one.side === side);

const quoted = (code: string): string => {
  const short = code.trim().slice(0, 120);
  return short === '' || short.includes('`') ? '' : `, \`${short}\``;
};

/** All remarks as one message, by file and line. */
export function promptOf(remarks: readonly Remark[], nameOf: (path: string) => string = (path) => path): string {
  const sorted = [...remarks].sort((a, b) => a.path.localeCompare(b.path) || a.line - b.line);
  const said = sorted.map((one) => `${nameOf(one.path)}, ${one.side === 'old' ? 'removed line' : 'line'} ${one.line}${quoted(one.code)}:\n${one.text.trim()}`);
  return `My remarks on your changes:\n\n${said.join('\n\n')}`;
}
