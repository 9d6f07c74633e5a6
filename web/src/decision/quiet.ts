// Owns when a decision may be taken: its question and buttons were in view for a while, as they are now, and no key was pressed
// for as long. A sentence that somebody is typing decides nothing, nor does the second press of a double click.
import { createSignal, onCleanup, onMount } from 'solid-js';
import { isModifier, lastKey } from '../parts/keys';

/** How long question and buttons are in view, and the keys are quiet, before a key or a tap counts. */
export const QUIET_MS = 400;

let keyAt = -Infinity;
let keyBefore = -Infinity;
addEventListener('keydown', ({ key }) => { if (!isModifier(key)) { keyBefore = keyAt; keyAt = performance.now(); } }, { capture: true });

/** Watches the parts that must be in view. */
export function useQuiet(parts: () => (Element | undefined)[]) {
  const [since, setSince] = createSignal(Infinity);
  const [isAwake, setAwake] = createSignal(false);
  let restart = (): void => undefined;
  onMount(() => {
    const watched = parts().filter((part) => part !== undefined);
    const seen = new Set<Element>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const settle = () => {
      clearTimeout(timer);
      const isSeen = seen.size === watched.length && document.visibilityState === 'visible';
      if (!isSeen) { setSince(Infinity); setAwake(false); return; }
      if (since() === Infinity) setSince(performance.now());
      timer = setTimeout(() => setAwake(true), Math.max(0, since() + QUIET_MS - performance.now()));
    };
    restart = () => { setSince(Infinity); setAwake(false); settle(); };
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) seen.add(target); else seen.delete(target);
      settle();
    }, { threshold: 0.9 });
    for (const part of watched) observer.observe(part);
    document.addEventListener('visibilitychange', settle);
    // A window that comes back may stand under a press that was meant for another one.
    addEventListener('focus', restart);
    onCleanup(() => { observer.disconnect(); clearTimeout(timer); document.removeEventListener('visibilitychange', settle); removeEventListener('focus', restart); });
  });
  const wasSeen = () => performance.now() - since() >= QUIET_MS;
  const wasQuiet = (before: number) => wasSeen() && performance.now() - before >= QUIET_MS;
  return {
    /** Whether the time in view has passed; for looks alone. */
    isAwake,
    /** Counts the time in view anew: other buttons stand where those stood that a press was meant for. */
    restart: () => restart(),
    /** Whether the end of a text counts that a person writes in the card. */
    countsText: wasSeen,
    /** Whether the key that is being handled counts. */
    countsKey: () => wasQuiet(lastKey()),
    /** Whether a click counts. One of a key (`detail` is 0) is judged by the key before it. */
    countsClick: (event: MouseEvent) => wasQuiet(event.detail === 0 ? keyBefore : keyAt),
  };
}

/** How much of a scrolling part was not on the screen so far, in lines. */
export function useUnseen(lineHeight = 20) {
  const [unseen, setUnseen] = createSignal(0);
  let deepest = 0;
  let element: HTMLElement | undefined;
  const measure = () => {
    if (element === undefined) return;
    deepest = Math.max(deepest, element.scrollTop + element.clientHeight);
    setUnseen(Math.max(0, Math.floor((element.scrollHeight - deepest) / lineHeight)));
  };
  const watch = (made: HTMLElement) => {
    element = made;
    onMount(() => {
      const observer = new ResizeObserver(measure);
      observer.observe(made);
      const changes = new MutationObserver(() => {
        for (const child of made.children) observer.observe(child);
        measure();
      });
      for (const child of made.children) observer.observe(child);
      changes.observe(made, { childList: true, subtree: true });
      made.addEventListener('scroll', measure, { passive: true });
      measure();
      onCleanup(() => { observer.disconnect(); changes.disconnect(); });
    });
  };
  return { unseen, watch };
}
