// Owns a place for words that come later, such as those of a problem: it is on the page before them, so that a screen reader says them
// when they come, once, and breaks off nothing for it.
import type { ParentProps } from 'solid-js';

/** The place. Its content comes and goes; it stays. */
export function Told(props: ParentProps) {
  return <div class="told" role="status">{props.children}</div>;
}
