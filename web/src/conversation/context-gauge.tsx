// Owns the gauge of how full the context is, in the header of a conversation.
import { Show } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest } from '../daemon/daemon';
import { mayAsk } from '../daemon/role';
import type { Session } from '../daemon/types';
import { count } from '../parts/time';

interface Fullness { percentage?: number | null; totalTokens?: number | null; maxTokens?: number | null }

/** The gauge. It is asked for when the page opens and after each turn; a session at rest is not woken for it, and a
 * viewer's login, which the daemon refuses it, does not ask. */
export function ContextGauge(props: { session: Session; open: () => void }) {
  const isRunning = () => !props.session.simulated && ['idle', 'busy', 'waiting'].includes(props.session.state);
  const [usage] = createAsked(
    () => (isRunning() && mayAsk() ? `${props.session.id} ${props.session.turns} ${props.session.model ?? ''}` : undefined),
    async () => (await rest.GET('/v1/sessions/{id}/context_usage', { params: { path: { id: props.session.id }, query: { detail: 'summary' } } }).catch(() => null))?.response as Fullness | null | undefined,
  );
  const percent = () => usage()?.percentage;
  const words = () => `Context ${percent()} % full: ${count(usage()?.totalTokens ?? 0)} of ${count(usage()?.maxTokens ?? 0)} tokens`;
  return (
    <Show when={percent() != null}>
      <button type="button" class="plain context-gauge figures" classList={{ 'is-nearly-full': (percent() ?? 0) >= 80 }} aria-label={words()} title={words()} onClick={() => props.open()}>
        <meter class="context-meter" min="0" max="100" value={percent() ?? 0} aria-hidden="true" />{percent()} %
      </button>
    </Show>
  );
}
