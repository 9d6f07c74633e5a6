// Owns the editing of a message that waits in the queue: the draft that stood in the box is kept in the browser's database
// meanwhile, and comes back however the edit ends.
import { del, get, set } from 'idb-keyval';
import { createSignal, onCleanup } from 'solid-js';
import { unwrap } from 'solid-js/store';
import type { QueuedPrompt } from '../daemon/types';
import { bodyOf, draftOf, joined, saysNothing, wholeText, type Draft } from './content';
import type { OpenDraft } from './draft';
import { remember } from './history';
import type { Queue } from './queue-store';

/** A message in the box that waits in the queue: whether it was held before, and what stood in the box. */
export interface Edit { uuid: string; wasHeld: boolean; before: Draft }

const keyOf = (sessionId: string): string => `edit/${sessionId}`;

/** The edit of a session's box. It ends with the box; one that a reload cut off goes on. */
export function createEditing(sessionId: string, kept: Pick<OpenDraft, 'draft' | 'change'>, queue: Pick<Queue, 'hold' | 'change'>) {
  const [editing, setEditing] = createSignal<Edit | null>(null);
  let isGone = false;
  const done = () => {
    setEditing(null);
    del(keyOf(sessionId)).catch(() => undefined);
  };
  const letGo = (held: Edit) => { if (!held.wasHeld) void queue.hold(held.uuid, false); };

  /** Puts a message into the box. It waits while it is being changed. */
  const begin = (prompt: QueuedPrompt) => {
    const other = editing();
    if (other !== null) letGo(other);
    const made: Edit = { uuid: prompt.uuid, wasHeld: prompt.held, before: other?.before ?? structuredClone(unwrap(kept.draft)) };
    setEditing(made);
    set(keyOf(sessionId), made).catch(() => undefined);
    if (!prompt.held) void queue.hold(prompt.uuid, true);
    kept.change(draftOf(prompt));
  };
  /** Ends the edit: the message stays as it was, and the draft of before comes back. */
  const cancel = () => {
    const held = editing();
    if (held === null) return;
    done();
    kept.change(held.before);
    letGo(held);
  };
  /** Sends the change. A message that the agent has already cannot be changed: its text stays, behind the draft of before. */
  const save = async () => {
    const held = editing();
    if (held === null) return;
    const changed = structuredClone(unwrap(kept.draft));
    const answer = await queue.change(held.uuid, bodyOf(changed));
    if (answer === 'refused' || editing() !== held) return;
    done();
    kept.change(answer === 'done' ? held.before : joined(held.before, changed));
    if (answer === 'done') letGo(held);
  };

  onCleanup(() => {
    isGone = true;
    // A person who goes to another session finds these words by Up in an empty box.
    if (editing() !== null && !saysNothing(kept.draft)) remember(wholeText(kept.draft));
    cancel();
  });
  void get<Edit>(keyOf(sessionId)).catch(() => undefined).then((cut) => {
    if (cut !== undefined && !isGone && editing() === null) setEditing(cut);
  });
  return { editing, begin, cancel, save };
}
