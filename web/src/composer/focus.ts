// Owns whether the box counts as being written in. It grows while it is, and what lies above it moves; a press there takes the
// focus away before it counts, and must still meet what it was meant for.
import { createSignal, onCleanup, type Accessor } from 'solid-js';

/** A click comes so soon after its press. */
const CLICK_MS = 150;

let isPressed = false;
addEventListener('pointerdown', () => { isPressed = true; }, { capture: true });
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => { isPressed = false; }, { capture: true });

/** Whether a field is being written in, as its focus and blur tell. */
export function createWriting(): { isWriting: Accessor<boolean>; onFocus: () => void; onBlur: () => void } {
  const [isWriting, setWriting] = createSignal(false);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (isPressed) later(); else setWriting(false); }, CLICK_MS);
  };
  onCleanup(() => clearTimeout(timer));
  return { isWriting, onFocus: () => { clearTimeout(timer); setWriting(true); }, onBlur: later };
}
