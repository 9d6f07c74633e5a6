// Owns the place of the prompt box: how the session is, and the box where this login may act.
import { Show } from 'solid-js';
import { canAct } from '../daemon/role';
import type { SessionSummary } from '../daemon/types';
import { Box } from './box';
import type { Draft } from './content';
import { SessionNotice } from './notice';
import './composer.css';

/** The box, with the queue and the state of the session above it. */
export function Composer(props: {
  session: SessionSummary;
  /** The CLI's proposal for the next message. */
  suggestion?: string | null | undefined;
  /** A message is on its way into the conversation: the transcript shows it at once, under its id. */
  onSent?: (uuid: string, draft: Draft) => void;
  /** It did not arrive, or a person took it back. */
  onNotSent?: (uuid: string) => void;
}) {
  return (
    <Show when={props.session.id} keyed>{(id) => (
      <div class="composer">
        <SessionNotice session={props.session} />
        <Show when={canAct()} fallback={<p class="quiet composer-viewer">This login only watches.</p>}>
          <Box id={id} session={props.session} suggestion={props.suggestion ?? null} onSent={(uuid, draft) => props.onSent?.(uuid, draft)} onNotSent={(uuid) => props.onNotSent?.(uuid)} />
        </Show>
      </div>
    )}</Show>
  );
}
