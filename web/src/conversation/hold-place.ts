// Owns that a row which a reader comes back to stays in its place while the rows around it are drawn and measured for the first time.

/** So many frames in its place, one after the other, are enough. */
const CALM_FRAMES = 6;
const MOST_FRAMES = 120;

/** How far the row with this key is below the top of the scroller; `null`: it is not drawn. */
export function belowTop(scroller: HTMLElement, key: string): number | null {
  const row = scroller.querySelector(`[data-key="${CSS.escape(key)}"]`);
  return row === null ? null : row.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
}

/** Keeps a row so many pixels below the top until it has stayed there, or the person moves by himself; then `done` is called. `draw` has it drawn. */
export function holdRow(scroller: HTMLElement, key: string, wanted: number, draw: () => void, done: () => void = () => undefined): void {
  const stopper = new AbortController();
  stopper.signal.addEventListener('abort', done, { once: true });
  for (const name of ['wheel', 'touchstart', 'keydown', 'pointerdown']) scroller.addEventListener(name, () => stopper.abort(), { signal: stopper.signal, passive: true });
  let calm = 0;
  let frames = 0;
  const look = () => {
    if (stopper.signal.aborted) return;
    const below = belowTop(scroller, key);
    const isAtEnd = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 1;
    const isThere = below !== null && (Math.abs(below - wanted) <= 1 || (isAtEnd && below > wanted));
    calm = isThere ? calm + 1 : 0;
    if (below === null) draw(); else if (!isThere) scroller.scrollTop += below - wanted;
    frames += 1;
    if (calm >= CALM_FRAMES || frames >= MOST_FRAMES || !scroller.isConnected) stopper.abort();
    else requestAnimationFrame(look);
  };
  look();
}
