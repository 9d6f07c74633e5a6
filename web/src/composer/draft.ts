// Owns the drafts: one per session, kept in the browser's own database so that neither a reload nor a crash loses one.
import { del, get, set } from 'idb-keyval';
import { createSignal, type Accessor } from 'solid-js';
import { createStore, reconcile, unwrap } from 'solid-js/store';
import { emptyDraft, type Draft } from './content';

/** A draft that is open on the page. */
export interface OpenDraft {
  /** The content of the box now. */
  draft: Draft;
  /** Whether what was kept has been read. */
  isRead: Accessor<boolean>;
  /** Changes a part of it; it is written within 300 ms. */
  change(part: Partial<Draft>): void;
  /** Empties the box, and forgets what was kept. */
  clear(): void;
}

/** A change is on its way to the database within this time. */
const WRITE_AFTER_MS = 200;
const open = new Map<string, OpenDraft>();
/** The drafts that are still to be written. */
const unwritten = new Map<string, () => void>();
addEventListener('pagehide', () => { for (const write of unwritten.values()) write(); });
const [wanted, setWanted] = createSignal<{ sessionId: string; at: number } | null>(null);

/** Which box is asked to take the focus, since somebody put a text into it. */
export { wanted as boxWanted };

/** The draft of a session. */
export function openDraft(sessionId: string): OpenDraft {
  const known = open.get(sessionId);
  if (known !== undefined) return known;
  const key = `draft/${sessionId}`;
  const [draft, setDraft] = createStore<Draft>(emptyDraft());
  const [isRead, setRead] = createSignal(false);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const isEmpty = () => draft.text === '' && draft.pictures.length === 0;
  const write = () => {
    clearTimeout(timer);
    timer = undefined;
    unwritten.delete(sessionId);
    const work = isEmpty() ? del(key) : set(key, structuredClone(unwrap(draft)));
    work.catch(() => undefined);
  };
  const made: OpenDraft = {
    draft,
    isRead,
    change: (part) => {
      setDraft(part);
      timer ??= setTimeout(write, WRITE_AFTER_MS);
      unwritten.set(sessionId, write);
    },
    clear: () => {
      setDraft(reconcile(emptyDraft()));
      write();
    },
  };
  open.set(sessionId, made);
  // A browser without a database keeps the draft as long as the page.
  void get<Draft>(key).catch(() => undefined).then((kept) => {
    if (kept !== undefined && isEmpty()) setDraft({ ...emptyDraft(), ...kept });
    setRead(true);
  });
  return made;
}

/** Empties all boxes, and forgets what was kept. */
export function forgetDrafts(): void {
  for (const one of open.values()) one.clear();
}

/** Adds a text at the end of a session's draft, and asks its box to take the focus. */
export function putIntoBox(sessionId: string, text: string): void {
  const { draft, change } = openDraft(sessionId);
  change({ text: draft.text.trim() === '' ? text : `${draft.text.trimEnd()}\n\n${text}` });
  setWanted({ sessionId, at: performance.now() });
}
