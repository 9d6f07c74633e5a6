// Owns short messages about what the person just did: 6 s on the page, and in a log after that.
import { For, createSignal } from 'solid-js';
import { SafeText } from '../text/safe';

/** A message, with at most one thing to do about it. */
export interface Toast { id: number; text: string; at: number; isProblem: boolean; act?: { word: string; run: () => void } }

const SHOWN_MS = 6_000;
const MOST_KEPT = 200;
const MOST_SHOWN = 3;
const [shown, setShown] = createSignal<Toast[]>([]);
const [log, setLog] = createSignal<Toast[]>([]);
let next = 0;

export { log as toastLog };

/** Those that stay beside a new one: the newest, and each that still has something to do about it. */
export const besides = (all: readonly Toast[]): Toast[] =>
  all.filter((one, at) => one.act !== undefined || at > all.length - MOST_SHOWN);

/** Shows a message, for 6 s unless told otherwise. The returned function takes it away. */
export function toast(text: string, more: { isProblem?: boolean; ms?: number; act?: { word: string; run: () => void } } = {}): () => void {
  const made: Toast = { id: ++next, text, at: Date.now(), isProblem: more.isProblem ?? false, ...(more.act ? { act: more.act } : {}) };
  setShown((all) => [...besides(all), made]);
  setLog((all) => [made, ...all].slice(0, MOST_KEPT));
  const away = () => setShown((all) => all.filter((other) => other !== made));
  setTimeout(away, more.ms ?? SHOWN_MS);
  return away;
}

/** The messages on the page. One polite region says them. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      <For each={shown()}>{(one) => (
        <div class="toast" classList={{ 'is-problem': one.isProblem }}>
          <span><SafeText text={one.text} /></span>
          {one.act && <button class="plain" onClick={() => { one.act?.run(); setShown((all) => all.filter((other) => other !== one)); }}>{one.act.word}</button>}
        </div>
      )}</For>
    </div>
  );
}
