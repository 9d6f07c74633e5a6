// Owns what is done with many sessions at once. Nothing is ever decided in bulk.
import { For, Show } from 'solid-js';
import { many } from '../parts/time';
import { doWith, type Doing } from './doings';
import { picked, pickNone } from './view';

const WORDS = new Set(['Park', 'Stop', 'Tag', 'Delete']);

/** The bar over the list while rows are selected. */
export function ListBulk(props: { doings: Doing[] }) {
  return (
    <Show when={picked().size > 0}>
      <div class="list-bulk" role="group" aria-label="Selected sessions">
        <span class="figures">{many(picked().size, 'session')}</span>
        <For each={props.doings.filter((one) => WORDS.has(one.word))}>{(one) => (
          <button type="button" classList={{ danger: one.isDanger === true }} onClick={() => { doWith(one, [...picked()]); if (one.isDanger) pickNone(); }}>{one.word}</button>
        )}</For>
        <button type="button" class="plain" onClick={pickNone}>Select nothing</button>
      </div>
    </Show>
  );
}
