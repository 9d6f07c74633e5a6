// Owns when a conversation counts as read: the end of a turn was in view for a second, in a page that was looked at.
import { createEffect, createSignal, onCleanup, type Accessor } from 'solid-js';
import { canAct } from '../daemon/role';
import type { Conversation } from '../live/store';

const LOOK_MS = 1_000;

/** Marks the conversation as seen while its end is in view. The mark is of those who act: a viewer's look changes nothing. */
export function watchSeen(conversation: Conversation, isAtEnd: Accessor<boolean>): void {
  const isLooking = () => document.visibilityState === 'visible' && document.hasFocus();
  const [looks, setLooks] = createSignal(isLooking());
  const look = () => { setLooks(isLooking()); };
  for (const name of ['focus', 'blur']) addEventListener(name, look);
  document.addEventListener('visibilitychange', look);
  onCleanup(() => {
    for (const name of ['focus', 'blur']) removeEventListener(name, look);
    document.removeEventListener('visibilitychange', look);
  });
  // A turn that was read before, and is unread now, was marked so by a person: the next look at the page clears that.
  let readTurns: number | undefined;
  createEffect(() => {
    const session = conversation.session();
    if (session?.unread === false) readTurns = session.turns;
  });
  createEffect(() => {
    const { workingSince, lastSeq } = conversation.folded();
    const session = conversation.session();
    if (!canAct() || !conversation.isOpened() || workingSince !== null || !isAtEnd() || !looks() || session?.unread !== true || session.turns === readTurns) return;
    const timer = setTimeout(() => conversation.saw(lastSeq), LOOK_MS);
    onCleanup(() => clearTimeout(timer));
  });
}
