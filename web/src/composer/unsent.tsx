// Owns how messages are shown that the daemon does not have yet: on their way, waiting for the connection, or not taken.
import { For, Show } from 'solid-js';
import { isLive } from '../daemon/link';
import { wholeText, type Draft } from './content';
import { drop, outgoing, postAgain, type Outgoing } from './outbox';

const wordsOf = (message: Outgoing): string => {
  if (message.state === 'failed') return 'Not sent. It is kept here.';
  if (message.state === 'waiting') return isLive() ? 'Sending…' : 'Will be sent when back.';
  return message.way === 'resume' ? 'Starting, then sending…' : 'Sending…';
};

const startOf = (draft: Draft): string => wholeText(draft).trim().slice(0, 300) || `${draft.pictures.length} images`;

/** The messages on their way that the transcript does not show already. `edit` puts one back into the box. */
export function Unsent(props: { sessionId: string; edit: (message: Outgoing) => void; onDrop: (uuid: string) => void }) {
  const shown = () => outgoing(props.sessionId).filter((one) => one.state === 'failed' || !isLive() || one.way === 'queue' || one.way === 'resume');
  return (
    <Show when={shown().length > 0}>
      <ul class="unsent" aria-label="Messages on their way">
        <For each={shown()}>{(message) => (
          <li class="queued" classList={{ 'is-failed': message.state === 'failed' }}>
            <span class="one-line">{startOf(message.draft)}</span>
            <span class="quiet" role={message.state === 'failed' ? 'status' : undefined} title={message.problem}>{wordsOf(message)}</span>
            <Show when={message.state !== 'sending'}>
              <Show when={message.state === 'failed'}>
                <button type="button" onClick={() => postAgain(props.sessionId, message.uuid)}>Send again</button>
              </Show>
              <button type="button" class="plain" onClick={() => props.edit(message)}>Edit</button>
              <button type="button" class="plain" onClick={() => { drop(props.sessionId, message.uuid); props.onDrop(message.uuid); }}>Drop</button>
            </Show>
            <Show when={message.problem !== undefined && message.state === 'failed'}><span class="unsent-why faint">{message.problem}</span></Show>
          </li>
        )}</For>
      </ul>
    </Show>
  );
}
