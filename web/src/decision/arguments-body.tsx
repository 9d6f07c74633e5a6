// Owns how the arguments of any tool are shown: a name and a value in each row, and nothing left out.
import { For, Show, createEffect, createMemo, onCleanup } from 'solid-js';
import { SafeText } from '../text/safe';
import { outsideLink } from '../text/nodes';
import { safeLink } from '../text/ansi';
import { safeNodes } from '../text/safe';
import type { Deciding } from './deciding';

const MOST_LINES = 400;

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? String(value));

/** The arguments of a call. */
export function Arguments(props: { input: Record<string, unknown>; deciding: Deciding; without?: string[] }) {
  const rows = createMemo(() => Object.entries(props.input).filter(([name]) => !(props.without ?? []).includes(name)));
  return (
    <Show when={rows().length > 0}>
      <dl class="arguments">
        <For each={rows()}>{([name, value]) => <><dt><SafeText text={name} /></dt><dd><Value text={textOf(value)} deciding={props.deciding} /></dd></>}</For>
      </dl>
    </Show>
  );
}

/** A value; of a very long one the start, and how much is left. */
function Value(props: { text: string; deciding: Deciding }) {
  const lines = createMemo(() => props.text.split('\n'));
  const left = () => (props.deciding.showsAll() ? 0 : Math.max(0, lines().length - MOST_LINES));
  createEffect(() => {
    const mine = left();
    props.deciding.setHidden((n) => n + mine);
    onCleanup(() => props.deciding.setHidden((n) => n - mine));
  });
  const href = () => (/^https?:\/\/\S+$/.test(props.text) ? safeLink(props.text) : null);
  return (
    <>
      <Show when={href()} fallback={<code><SafeText text={left() > 0 ? lines().slice(0, MOST_LINES).join('\n') : props.text} code /></code>}>
        {(address) => outsideLink(address(), safeNodes(props.text), '')}
      </Show>
      <Show when={left() > 0}><button class="plain more" onClick={() => props.deciding.showAll()}>▾ {left().toLocaleString()} more lines · show all</button></Show>
    </>
  );
}
