// Owns what is done with many sessions at once. Nothing is ever decided in bulk.
import { For, Show } from 'solid-js';
import { BUSY_WORDS } from '../lobby/acts';
import { BusyButton } from '../parts/busy';
import { many } from '../parts/time';
import { doWith, type Doing } from './doings';
import { picked, pickNone } from './view';

/** Words while it is under way. */
const BUSY: Record<string, string> = { Park: BUSY_WORDS.park, Stop: BUSY_WORDS.stop };
const WORDS = new Set(['Park', 'Stop', 'Tag', 'Delete']);

/** The bar over the list while rows are selected. */
export function ListBulk(props: { doings: Doing[] }) {
  return (
    <Show when={picked().size > 0}>
      <div class="list-bulk" role="group" aria-label="Selected sessions">
        <span class="figures">{many(picked().size, 'session')}</span>
        <For each={props.doings.filter((one) => WORDS.has(one.word))}>{(one) => (
          <BusyButton classList={{ danger: one.isDanger === true }} busyWord={BUSY[one.word] ?? one.word} run={() => { const done = doWith(one, [...picked()]); if (one.isDanger) pickNone(); return done; }}>{one.word}</BusyButton>
        )}</For>
        <button type="button" class="plain" onClick={pickNone}>Select nothing</button>
      </div>
    </Show>
  );
}
