// Owns when the page says that it waits: a short wait is no news, and what was there before stays meanwhile.
import { Show, createEffect, createSignal, onCleanup, type Accessor, type ParentProps } from 'solid-js';

/** A wait shorter than this is not told. */
export const CALM_MS = 300;

/** Whether something has held for longer than a short wait. It ends at once. */
export function createLong(holds: Accessor<boolean>): Accessor<boolean> {
  const [isLong, setLong] = createSignal(false);
  createEffect(() => {
    if (!holds()) return;
    const timer = setTimeout(() => setLong(true), CALM_MS);
    onCleanup(() => { clearTimeout(timer); setLong(false); });
  });
  return () => isLong() && holds();
}

/** The words of a wait, which stand where the thing will be. */
export function Loading(props: ParentProps) {
  const isLong = createLong(() => true);
  return <Show when={isLong()}><p class="quiet">{props.children}</p></Show>;
}
