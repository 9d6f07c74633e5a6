// Owns the log of decisions: who decided what, when, and by which rule; and its files for a table or a program.
import { A, useSearchParams } from '@solidjs/router';
import { For, Show, createEffect, createSignal, on } from 'solid-js';
import { rest, said } from '../daemon/daemon';
import { LOGIN_HEADER, loginKey } from '../daemon/login';
import { lobby } from '../lobby/lobby';
import type { Approval } from '../daemon/types';
import { titleOf } from '../lobby/words';
import { BusyButton } from '../parts/busy';
import { Loading } from '../parts/loading';
import { saveAs } from '../parts/save';
import { ago, exact } from '../parts/time';
import { SafeText } from '../text/safe';
import { endOf, lineOf } from '../lobby/request';
import { Told } from '../parts/told';

const HOWS = { person: 'A person', rule: 'A rule', expiry: 'A time limit', covered: 'Another decision', hook: 'A hook', cli: 'The agent', withdrawal: 'Taken back', abandonment: 'Its process ended' } as const;
type How = keyof typeof HOWS;
const PAGE = 50;

/** The page of what was decided. */
export default function History() {
  const [query, setQuery] = useSearchParams();
  const [items, setItems] = createSignal<Approval[]>([]);
  const [cursor, setCursor] = createSignal<string | null>();
  const [problem, setProblem] = createSignal<string>();
  const [isBusy, setBusy] = createSignal(false);
  const how = () => (typeof query.how === 'string' && Object.hasOwn(HOWS, query.how) ? query.how as How : undefined);
  const tool = () => (typeof query.tool === 'string' && query.tool !== '' ? query.tool : undefined);
  const filters = () => ({ ...(how() === undefined ? {} : { how: how() as How }), ...(tool() === undefined ? {} : { tool: tool() as string }) });

  const load = async (from: string | null | undefined) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const page = await rest.GET('/v1/approvals', { params: { query: { limit: PAGE, ...filters(), ...(from == null ? {} : { cursor: from }) } } });
      const decided = page.items.filter((one) => one.state !== 'pending');
      setItems((all) => (from == null ? decided : [...all, ...decided]));
      setCursor(page.next_cursor);
    } catch (error) {
      setProblem(said(error).text);
    } finally {
      setBusy(false);
    }
  };
  createEffect(on(() => [how(), tool()], () => void load(null)));

  const save = async (type: 'text/csv' | 'application/x-ndjson', name: string) => {
    try {
      const address = new URL('/v1/approvals', location.origin);
      for (const [key, value] of Object.entries(filters())) address.searchParams.set(key, value);
      const key = loginKey();
      const response = await fetch(address, { headers: { accept: type, ...(key === null ? {} : { [LOGIN_HEADER]: key }) }, credentials: 'same-origin' });
      if (!response.ok) throw new Error(`The daemon refused: ${response.status}`);
      saveAs(name, type, await response.text());
    } catch (error) {
      setProblem(said(error).text);
    }
  };
  return (
    <>
      <div class="history-filters">
        <label>Decided by
          <select value={how() ?? ''} onChange={(event) => setQuery({ how: event.currentTarget.value || undefined })}>
            <option value="">all</option>
            <For each={Object.entries(HOWS)}>{([value, words]) => <option value={value}>{words}</option>}</For>
          </select>
        </label>
        <label>About the tool<input type="search" value={tool() ?? ''} placeholder="all" onChange={(event) => setQuery({ tool: event.currentTarget.value.trim() || undefined })} /></label>
        <BusyButton busyWord="Reading…" run={() => save('text/csv', 'decisions.csv')}>CSV</BusyButton>
        <BusyButton busyWord="Reading…" run={() => save('application/x-ndjson', 'decisions.ndjson')}>NDJSON</BusyButton>
      </div>
      <div class="history" tabIndex={0} role="region" aria-label="Decisions">
        <Told><Show when={problem()}>{(words) => <p class="problem">{words()} <button class="plain" onClick={() => void load(null)}>Try again</button></p>}</Show></Told>
        <Show when={items().length > 0} fallback={<Show when={isBusy()} fallback={<p class="quiet">Nothing was decided yet.</p>}><Loading>Loading the decisions…</Loading></Show>}>
          <table>
            <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">How it ended</th><th scope="col">Session</th></tr></thead>
            <tbody><For each={items()}>{(one) => <Entry approval={one} />}</For></tbody>
          </table>
          <Show when={cursor() != null}><button disabled={isBusy()} onClick={() => void load(cursor())}>{isBusy() ? 'Loading…' : 'Show more'}</button></Show>
        </Show>
      </div>
    </>
  );
}

function Entry(props: { approval: Approval }) {
  const { approval } = props;
  const session = () => lobby.byId[approval.session_id];
  const line = lineOf(approval, session()?.cwd ?? '');
  const at = approval.resolution?.at ?? approval.requested_at;
  return (
    <tr>
      <td class="figures quiet"><time dateTime={at} title={exact(at)}>{ago(at)}</time></td>
      <td>{line.word} <code><SafeText text={line.text.slice(0, 300)} /></code><Show when={line.text.length > 300}> <span class="chip">{line.text.length - 300} more characters</span></Show></td>
      <td><SafeText text={endOf(approval)} />
        <Show when={approval.rule !== null && approval.resolution?.how !== 'rule'}> <span class="quiet">(asked by the rule <SafeText text={approval.rule ?? ''} />)</span></Show>
        <Show when={approval.resolution?.input_changed && approval.kind !== 'question'}> <span class="chip">changed</span></Show>
        <Show when={approval.resolution?.permissions_updated}> <span class="chip">always</span></Show></td>
      <td><A href={`/s/${approval.session_id}/r/${approval.seq}`}><SafeText text={session() === undefined ? 'its session' : titleOf(session() as NonNullable<ReturnType<typeof session>>)} /></A></td>
    </tr>
  );
}
