// Owns that Back closes the newest layer: for each layer that is open the browser's history has an entry more, at the same address.
// Closed in another way, a layer takes its entry along; a page that is opened out of a layer comes in the place of the entry.
import { useBeforeLeave, useIsRouting, useNavigate } from '@solidjs/router';
import { createEffect, createMemo, onCleanup, untrack, type Accessor } from 'solid-js';

/** A layer that gives way to another, or to a page, leaves its entry to it for so long. A dialog may first have to be loaded. */
const SETTLE_MS = 1_000;

/** The part of the browser's history that is needed. */
export type Entries = Pick<History, 'go' | 'pushState'> & { readonly state: unknown };

interface Layer { close: () => void }

/** The layers that are open, and their entries. */
export class Layers {
  private readonly open: Layer[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isReturning = false;
  /** The depth of the entry that the page is at. */
  private at = 0;
  private isLeaving = false;
  private later: (() => void)[] = [];

  constructor(private readonly history: Entries) {}

  /** How many layers the entry of the moment stands for. */
  private get depth(): number {
    return (this.history.state as { layers?: number } | null)?.layers ?? 0;
  }

  /** Whether the entry of the moment is that of a layer, and not of a page. */
  get isLayer(): boolean {
    return this.depth > 0;
  }

  /** A layer is open until the returned function is called, or until `close` is, by Back. */
  add(close: () => void): () => void {
    const layer = { close };
    this.open.push(layer);
    this.settle();
    return () => {
      const at = this.open.indexOf(layer);
      if (at < 0) return;
      this.open.splice(at, 1);
      this.settleSoon();
    };
  }

  /** The browser went to another entry. */
  onPop(): void {
    const isOwn = this.isReturning;
    const isBack = !isOwn && this.depth < this.at;
    this.isReturning = false;
    this.at = this.depth;
    // An entry of a layer that has just gone does not use up the person's Back.
    if (isBack && this.open.length === 0) this.history.go(-1);
    if (isBack || (!isOwn && this.open.length > this.depth)) do this.open.pop()?.close(); while (this.open.length > this.depth);
    this.settle();
    if (!this.isReturning) for (const work of this.later.splice(0)) work();
  }

  /** Another page is about to open: `false` lets it, else this calls `go` with whether it comes in the place of the entry. */
  redirects(isReplacing: boolean, go: (replaces: boolean) => void): boolean {
    if (this.isReturning) this.later.push(() => go(isReplacing));
    else if (this.depth > 0 && !isReplacing) go(true);
    else return false;
    return true;
  }

  /** A page is being opened, or is there: entries are left alone meanwhile. */
  leaving(isLeaving: boolean): void {
    this.isLeaving = isLeaving;
    if (isLeaving) return;
    this.at = this.depth;
    this.settleSoon();
  }

  private settleSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.settle(), SETTLE_MS);
  }

  /** Makes as many entries as there are layers, or goes back over those of layers that have gone. */
  private settle(): void {
    if (this.isReturning || this.isLeaving) return;
    const surplus = this.depth - this.open.length;
    if (surplus > 0) {
      this.isReturning = true;
      this.history.go(-surplus);
    }
    for (let missing = -surplus; missing > 0; missing -= 1) this.history.pushState({ ...this.history.state as object, layers: this.depth + 1 }, '');
    if (!this.isReturning) this.at = this.depth;
  }
}

const layers = new Layers(window.history);

// The router hears of no layer: to it another entry is another page, and while one gives way it takes back what is written meanwhile.
// Listeners of a window are called in the order in which they came, so this one comes before the router is made.
addEventListener('popstate', (event) => {
  if (layers.isLayer) event.stopImmediatePropagation();
  layers.onPop();
});

/** Has Back close a layer, by calling `close`, as long as it is open. */
export function useBack(isOpen: Accessor<boolean>, close: () => void): void {
  const is = createMemo(isOpen);
  createEffect(() => { if (is()) onCleanup(layers.add(() => untrack(close))); });
}

/** Watches the pages of the router; the frame of the page calls it once. */
export function watchBack(): void {
  const navigate = useNavigate();
  const isRouting = useIsRouting();
  useBeforeLeave((event) => {
    const { to, options } = event;
    if (typeof to !== 'string') return;
    if (layers.redirects(options?.replace === true, (replace) => navigate(to, { ...options, replace, resolve: false }))) event.preventDefault();
  });
  // This is also how a page that was loaded anew under a layer gets rid of the layer's entry.
  createEffect(() => layers.leaving(isRouting()));
}
