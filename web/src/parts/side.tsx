// Owns the side panel: its place in the frame, and whether it is open. Very wide pages show it always; on others it lies over
// the page, and Esc or Back closes it.
import { useLocation } from '@solidjs/router';
import { Show, createEffect, createSignal, on, onCleanup, type ParentProps } from 'solid-js';
import { Portal } from 'solid-js/web';
import X from 'lucide-solid/icons/x';
import { useBack } from './back';
import { useKeys } from './keys';
import { layout } from './layout';

const [place, setPlace] = createSignal<HTMLElement>();
const [fillers, setFillers] = createSignal(0);
const [isAsked, setAsked] = createSignal(false);
let before: HTMLElement | null = null;

/** Whether the side panel is to be seen. */
export const isSideShown = (): boolean => fillers() > 0 && (layout() === 'very-wide' || isAsked());

/** Opens the side panel. It does nothing on a page without one. */
export function openSide(): void {
  before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  setAsked(true);
}

/** Closes the side panel, and gives the focus back. A very wide page shows it still. */
export function closeSide(): void {
  const wasInside = place()?.contains(document.activeElement) === true;
  setAsked(false);
  if (wasInside && layout() !== 'very-wide') before?.focus();
}

/** Puts its children into the side panel for as long as it is there. The page that is open uses it once. */
export function Side(props: ParentProps) {
  setFillers((n) => n + 1);
  onCleanup(() => setFillers((n) => n - 1));
  // On a phone it covers the page: a link in it leads out of it.
  const location = useLocation();
  createEffect(on(() => location.pathname, () => { if (layout() === 'narrow' || layout() === 'middle') closeSide(); }, { defer: true }));
  useBack(() => layout() !== 'very-wide' && isAsked(), closeSide);
  useKeys('Side panel', [{
    keys: 'Escape', word: 'Close the side panel', inText: true,
    run: () => { if (layout() === 'very-wide' || !isAsked()) return false; closeSide(); return; },
  }]);
  return <Show when={place()}>{(mount) => <Portal mount={mount()}>{props.children}</Portal>}</Show>;
}

/** The place of the side panel in the frame. */
export function SidePlace() {
  return (
    <aside class="side" hidden={!isSideShown()} aria-label="Side panel">
      <Show when={layout() !== 'very-wide'}>
        <button type="button" class="plain side-close" onClick={closeSide}><X size={16} aria-hidden="true" /> Close</button>
      </Show>
      <div class="side-body" ref={setPlace} />
    </aside>
  );
}
