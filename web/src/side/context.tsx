// Owns what fills the context of a conversation, by kind.
import { For, Show } from 'solid-js';
import { createAsked } from '../daemon/asked';
import type { Conversation } from '../live/store';
import { rest, said } from '../daemon/daemon';
import { canAct, mayAsk } from '../daemon/role';
import { Loading } from '../parts/loading';
import { count } from '../parts/time';
import { SafeText } from '../text/safe';

interface Category { name?: string | null; tokens?: number | null; kind?: string | null }
interface Usage {
  categories?: (Category | null)[] | null; totalTokens?: number | null; maxTokens?: number | null; percentage?: number | null;
  autoCompactThreshold?: number | null; isAutoCompactEnabled?: boolean | null; model?: string | null;
}

/** The table. It is asked for anew after each turn. */
export function Context(props: { conversation: Conversation }) {
  const session = () => props.conversation.session();
  const isRunning = () => session()?.simulated === false && ['idle', 'busy', 'waiting'].includes(session()?.state ?? '');
  const [usage] = createAsked(
    () => (isRunning() && mayAsk() ? `${session()?.turns} ${session()?.model ?? ''}` : undefined),
    async (): Promise<Usage | string> => {
      try {
        const query = { detail: 'summary' as const };
        return (await rest.GET('/v1/sessions/{id}/context_usage', { params: { path: { id: props.conversation.id }, query } })).response as Usage ?? {};
      } catch (error) {
        return said(error).text;
      }
    },
  );
  const known = () => { const now = usage(); return typeof now === 'object' ? now : undefined; };
  const problem = () => { const now = usage(); return typeof now === 'string' ? now : undefined; };
  const rows = () => (known()?.categories ?? []).filter((one): one is Category => one !== null && (one.tokens ?? 0) > 0 && one.kind !== 'deferred');
  return (
    <Show when={known()} fallback={<Show when={problem() === undefined && isRunning() && canAct()} fallback={<p class="quiet">{problem() ?? (!canAct() ? 'A login that only looks is not told of it.' : session()?.simulated ? 'The simulated agent has no context.' : 'It is known while the session runs.')}</p>}><Loading>Asking the agent…</Loading></Show>}>{(now) => (
      <>
        <p class="figures">{now().percentage ?? 0} % of {count(now().maxTokens ?? 0)} tokens</p>
        <table class="context-table">
          <tbody><For each={rows()}>{(row) => (
            <tr classList={{ faint: row.kind !== 'used' }}>
              <th scope="row"><SafeText text={row.name ?? ''} /></th>
              <td class="figures">{count(row.tokens ?? 0)}</td>
              <td><meter class="context-meter" min="0" max={now().maxTokens ?? 1} value={row.tokens ?? 0} aria-hidden="true" /></td>
            </tr>
          )}</For></tbody>
        </table>
        <Show when={now().isAutoCompactEnabled && now().autoCompactThreshold}>{(at) => <p class="faint">It is made shorter at {count(at())} tokens.</p>}</Show>
      </>
    )}</Show>
  );
}
