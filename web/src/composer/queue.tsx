// Owns how the messages that wait are shown above the box.
import { For, Show } from 'solid-js';
import type { QueuedPrompt } from '../daemon/types';
import { canAct } from '../daemon/role';
import { BusyButton } from '../parts/busy';
import { titleWith } from '../parts/keys';
import { SafeText } from '../text/safe';
import { draftOf } from './content';
import type { Queue } from './queue-store';

const firstLine = (prompt: QueuedPrompt): string => {
  const { text, pictures } = draftOf(prompt);
  return text.trim() === '' ? `${pictures.length} images` : text.trim();
};

/** The queue. Interrupting leaves it as it is. */
export function QueueList(props: { queue: Queue; editing: string | null; edit: (prompt: QueuedPrompt) => void }) {
  const items = () => props.queue.items().filter((one) => one.uuid !== props.editing);
  const first = () => props.queue.items()[0];
  return (
    <Show when={items().length > 0}>
      <section class="queue" aria-label="Messages that wait">
        <header class="strip">
          <span class="quiet">{props.queue.isHeld() ? `Held, ${items().length}.` : `Queued, ${items().length}. After this turn`}</span>
          <Show when={canAct() && first()}>{(one) => (
            <button type="button" class="plain" title={titleWith('Hold queue', 'Hold queue', 'h')} aria-pressed={props.queue.isHeld()}
              onClick={() => void props.queue.hold(one().uuid, !props.queue.isHeld())}>{props.queue.isHeld() ? 'Let go' : 'Hold'}</button>
          )}</Show>
        </header>
        <ol>
          <For each={items()}>{(prompt) => (
            <li class="queued">
              <span class="one-line"><SafeText text={firstLine(prompt)} /></span>
              <Show when={prompt.held}><span class="chip">held</span></Show>
              <Show when={canAct()}>
                <button type="button" class="plain" onClick={() => props.edit(prompt)}>Edit</button>
                <BusyButton class="plain" busyWord="Cancelling…" run={() => props.queue.cancel(prompt.uuid)}>Cancel</BusyButton>
              </Show>
            </li>
          )}</For>
        </ol>
      </section>
    </Show>
  );
}
