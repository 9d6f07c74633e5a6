// Owns the page of costs and tokens.
import { useSearchParams } from '@solidjs/router';
import { For, Show, createMemo } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { said } from '../daemon/daemon';
import { lobby } from '../lobby/lobby';
import type { Usage } from '../daemon/types';
import { Loading } from '../parts/loading';
import { saveAs } from '../parts/save';
import { count, many, money } from '../parts/time';
import { lastPart } from '../lobby/words';
import { Told } from '../parts/told';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { Bars } from './bars';
import { Limits } from './limits';
import { ZONE, csv, lastDays, load, startOf, tokensOf, total, withEmptyDays, type GroupBy } from './sums';
import '../look/usage.css';

const SPANS = [7, 30, 90, 365] as const;
const GROUPS: { by: GroupBy; word: string }[] = [
  { by: 'day', word: 'Day' }, { by: 'model', word: 'Model' }, { by: 'cwd', word: 'Project' }, { by: 'session', word: 'Session' }, { by: 'tag', word: 'Tag' }, { by: 'agent', word: 'Agent' },
];

/** The key of a sum in the address; an empty one would not stand there. */
const keyOf = (one: Usage): string => one.key ?? '(none)';

/** Costs and tokens. */
export default function UsagePage() {
  const [query, setQuery] = useSearchParams<{ days?: string; by?: string; only?: string }>();
  const span = () => SPANS.find((days) => String(days) === query.days) ?? 7;
  const by = (): GroupBy => GROUPS.find((group) => group.by === query.by)?.by ?? 'day';
  const days = createMemo(() => lastDays(span()));
  const [loaded, { refetch }] = createAsked(() => ({ by: by(), from: startOf(days()[0] ?? '') }), ({ by, from }) => load(by, from));
  const sums = createMemo((): Usage[] => {
    if (loaded() === undefined) return [];
    const all = loaded()?.sums ?? [];
    return by() === 'day' ? withEmptyDays(all, days()) : [...all].sort((a, b) => b.cost_usd - a.cost_usd || b.turns - a.turns);
  });
  /** The bar that was chosen: the sums are those of it alone. */
  const isChosen = (one: Usage) => keyOf(one) === query.only;
  const isNarrowed = () => query.only !== undefined && sums().some(isChosen);
  const shown = createMemo(() => (isNarrowed() ? sums().filter(isChosen) : sums()));
  const choose = (key: string) => setQuery({ only: query.only === key ? null : key });
  const name = (one: Usage): string => {
    if (by() === 'session') return (one.key && (lobby.byId[one.key]?.title ?? lobby.byId[one.key]?.first_prompt)) || (one.key ?? '');
    return one.key ?? ({ tag: 'No tag', agent: 'No agent of its own' }[by() as string] ?? 'Unknown');
  };
  const shortName = (one: Usage) => (by() === 'cwd' ? lastPart(name(one)) : name(one));
  const all = createMemo(() => total(shown()));
  const bars = () => sums().slice(-365).slice(0, by() === 'day' ? 365 : 20).map((one) => ({
    key: keyOf(one), value: one.cost_usd, label: by() === 'day' ? (one.key ?? '').slice(5) : spelledOut(shortName(one)).slice(0, 10),
    isChosen: isNarrowed() && isChosen(one),
    says: `${spelledOut(name(one))}: ${money(one.cost_usd)}, ${many(one.turns, 'turn')}, ${count(tokensOf(one))} tokens`,
  }));
  return (
    <div class="page usage">
      <header class="usage-head">
        <h1>Usage</h1>
        <label>Span <select value={String(span())} onChange={(event) => setQuery({ days: event.currentTarget.value, only: null })}>
          <For each={SPANS}>{(days) => <option value={days}>{days} days</option>}</For>
        </select></label>
        <label>By <select value={by()} onChange={(event) => setQuery({ by: event.currentTarget.value, only: null })}>
          <For each={GROUPS}>{(group) => <option value={group.by}>{group.word}</option>}</For>
        </select></label>
        <button onClick={() => saveAs(`usage-by-${by()}.csv`, 'text/csv', csv(by(), shown()))} disabled={shown().length === 0}>CSV</button>
      </header>
      <Limits />
      <Told><Show when={loaded.error as unknown}>{(error) => (
        <p class="problem">The usage could not be read: {said(error()).text} <button onClick={() => void refetch()}>Try again</button></p>
      )}</Show></Told>
      <Show when={!loaded.error}>
        <p class="usage-sum figures" aria-live="polite">{money(all().cost_usd)} · {many(all().turns, 'turn')} · {count(tokensOf(all()))} tokens</p>
        <p class="faint">Days of {ZONE}. {all().simulated_turns > 0 && `${many(all().simulated_turns, 'turn')} of the simulated agent, which cost nothing, are not in the sums. `}
          {all().turns_with_unknown_cost > 0 && `Cost unknown for ${many(all().turns_with_unknown_cost, 'turn')}, not in the sum.`}</p>
        <Show when={sums().some((one) => one.turns + one.simulated_turns > 0)} fallback={<Show when={loaded.loading} fallback={<p>No turn has ended in this span.</p>}><Loading>Adding up…</Loading></Show>}>
          <Show when={bars().some((bar) => bar.value > 0)}><Bars bars={bars()} title={`Cost by ${by()}`} onChoose={choose} /></Show>
          <Show when={isNarrowed()}><p><button onClick={() => setQuery({ only: null })}>{by() === 'day' ? `All ${span()} days` : 'All of them'}</button></p></Show>
          <div class="usage-table" tabindex="0" role="region" aria-label="Table of usage">
            <table class="figures">
              <thead><tr><th scope="col">{GROUPS.find((group) => group.by === by())?.word}</th><th scope="col">Cost</th><th scope="col">Turns</th>
                <th scope="col">Input</th><th scope="col">Output</th><th scope="col">Cache read</th><th scope="col">Cache written</th></tr></thead>
              <tbody><For each={by() === 'day' ? [...shown()].reverse() : shown()}>{(one) => (
                <tr>
                  <th scope="row">{by() === 'session' && one.key ? <a href={`/s/${one.key}`}><SafeText text={name(one)} /></a> : <SafeText text={name(one)} />}</th>
                  <td>{money(one.cost_usd)}{one.turns_with_unknown_cost > 0 && <span title={`Cost unknown for ${many(one.turns_with_unknown_cost, 'turn')}`}> + ?</span>}</td>
                  <td>{count(one.turns)}</td><td>{count(one.usage.input_tokens)}</td><td>{count(one.usage.output_tokens)}</td>
                  <td>{count(one.usage.cache_read_input_tokens)}</td><td>{count(one.usage.cache_creation_input_tokens)}</td>
                </tr>
              )}</For></tbody>
            </table>
          </div>
          <Show when={loaded()?.isWhole === false}><p>Only the first {count(sums().length)} are shown.</p></Show>
        </Show>
      </Show>
    </div>
  );
}
