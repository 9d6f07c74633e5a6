// Owns a slower view of what changes with every frame, for parts that need not.
import { createEffect, createSignal, onCleanup, untrack, type Accessor } from 'solid-js';

/** The value of a signal, at most once in so many milliseconds. The last value always comes. */
export function calm<T>(source: Accessor<T>, ms = 500): Accessor<T> {
  const [value, setValue] = createSignal<T>(untrack(source), { equals: false });
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  createEffect(() => {
    source();
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      last = performance.now();
      setValue(() => untrack(source));
    }, Math.max(0, last + ms - performance.now()));
  });
  onCleanup(() => clearTimeout(timer));
  return value;
}
