// Owns the page of the daemon's health: what runs with how much memory, limits and queues, and the examination.
import { A } from '@solidjs/router';
import { For, Show, createMemo, createSignal } from 'solid-js';
import { TrunklineError } from 'trunkline-client';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { canAct, mayAsk } from '../daemon/role';
import { sessions } from '../lobby/lobby';
import type { Readiness, SessionSummary } from '../daemon/types';
import { NOT_FOUND } from '../sessions/simulated';
import { sayingOf, titleOf } from '../lobby/words';
import { StateShape, shownAs } from '../lobby/state';
import { ago, bytes, count, exact, many, now } from '../parts/time';
import { Told } from '../parts/told';
import { SafeText } from '../text/safe';
import { parse, sum } from './metrics';
import '../look/usage.css';
import '../look/health.css';

const HAS_PROCESS = new Set(['starting', 'idle', 'busy', 'waiting', 'stopping']);
/** Reading a session's processes costs some milliseconds, so that few are read at once. */
const AT_ONCE = 4;

/** How the daemon is. One that cannot work says with its refusal why: that is what a person comes for. */
async function readiness(): Promise<Readiness> {
  try {
    return await rest.GET('/readyz');
  } catch (error) {
    const held = error instanceof TrunklineError ? (error.problem as { readiness?: Readiness }).readiness : undefined;
    if (held === undefined) throw error;
    return held;
  }
}

/** So many sessions may have a process at the same time. */
async function mostProcesses(): Promise<number | null> {
  const most = (await rest.GET('/v1/daemon/configuration')).values['limits.live_processes']?.value;
  return typeof most === 'number' ? most : null;
}

/** The daemon's health. */
export default function HealthPage() {
  const [ready, { refetch: lookAgain }] = createAsked(async () => {
    const [is, metrics] = await Promise.all([readiness(), rest.GET('/metrics', { parseAs: 'text' })]);
    return { readiness: is, samples: parse(String(metrics)) };
  });
  const [most] = createAsked(mayAsk, mostProcesses);
  const figures = createMemo(() => {
    if (ready.error || !ready()) return [];
    const samples = ready()?.samples ?? [];
    const at = (name: string) => sum(samples, `trunkline_${name}`);
    const limit = most();
    return [
      ['Processes', limit == null ? count(at('processes')) : `${count(at('processes'))} of ${count(limit)}`],
      ['Clients', count(at('clients'))],
      ['Sessions that wait for their start', count(sessions().filter((one) => one.start_queue_position != null).length)],
      ['Approvals that wait', count(at('approvals_pending'))],
      ['Requests that wait', count(at('requests_waiting'))],
      ['Records behind the database', count(at('projections_waiting'))],
      ['Memory of the sessions in the daemon', bytes(at('session_memory_bytes'))],
      ['Records lost', count(at('records_missing_total'))],
      ['Log lines dropped', count(at('log_lines_dropped_total'))],
      ['Stray processes ended', count(at('strays_killed_total'))],
    ] as const;
  });
  const live = createMemo(() => sessions().filter((one) => HAS_PROCESS.has(one.state) && one.restart == null));
  const restarting = createMemo(() => sessions().filter((one) => one.restart != null));
  return (
    <div class="page health">
      <header class="usage-head"><h1>Health</h1><button onClick={() => void lookAgain()} disabled={ready.loading}>{ready.loading ? 'Looking…' : 'Look again'}</button></header>
      <Told><Show when={ready.error as unknown}>{(error) => <p class="problem">The daemon's health could not be read: {said(error()).text}</p>}</Show></Told>
      <Show when={!ready.error && ready()}>{(found) => (
        <>
          <p>Trunkline {found().readiness.version}, since <time title={exact(found().readiness.started_at)}>{ago(found().readiness.started_at)}</time>.{' '}
            {found().readiness.cli?.simulated === false ? `Claude Code ${found().readiness.cli?.version}.` : NOT_FOUND}</p>
          <For each={found().readiness.problems}>{(problem) => <p class="problem">{problem}</p>}</For>
          <Lost ids={found().readiness.unreadable_sessions} words={(n) => `${many(n, 'session is', 'sessions are')} in no list, as their rows of the database are damaged:`} />
          <Lost ids={found().readiness.unknown_sessions} words={(n) => `${many(n, 'session has a process and is', 'sessions have a process and are')} not in the database, which may be older:`} />
          <dl class="figures-list">
            <For each={figures()}>{([word, figure]) => <div><dt>{word}</dt><dd class="figures">{figure}</dd></div>}</For>
          </dl>
        </>
      )}</Show>
      <Show when={restarting().length > 0}>
        <section>
          <h2>{many(restarting().length, 'session')} to start again</h2>
          <ul class="health-list" aria-label="Restarts"><For each={restarting()}>{(one) => (
            <li><StateShape shown={shownAs(one)} /><A class="one-line" href={`/s/${one.id}`}><SafeText text={titleOf(one)} /></A>
              <span class="quiet"><SafeText text={sayingOf(one, undefined, now()).words} /> Try {one.restart?.attempt}.</span></li>
          )}</For></ul>
        </section>
      </Show>
      <Processes live={live()} />
      <Show when={canAct()}><Doctor /></Show>
    </div>
  );
}

/** Sessions that no list shows, by their ids. */
function Lost(props: { ids: readonly string[]; words: (n: number) => string }) {
  return <Show when={props.ids.length > 0}><p class="problem">{props.words(props.ids.length)} <code>{props.ids.join(' ')}</code></p></Show>;
}

function Processes(props: { live: SessionSummary[] }) {
  const [read, setRead] = createSignal<Record<string, { pss: number; processes: number } | { problem: string }>>({});
  const [isBusy, setBusy] = createSignal(false);
  const look = async () => {
    setBusy(true);
    const rest_ = [...props.live];
    const one = async () => {
      for (let next = rest_.shift(); next !== undefined; next = rest_.shift()) {
        const { id } = next;
        try {
          const list = await rest.GET('/v1/sessions/{id}/processes', { params: { path: { id } } });
          setRead((all) => ({ ...all, [id]: { pss: list.pss_bytes, processes: list.items.length } }));
        } catch (error) {
          setRead((all) => ({ ...all, [id]: { problem: said(error).text } }));
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    setBusy(false);
  };
  const memory = (id: string): string => {
    const found = read()[id];
    if (found === undefined) return '';
    return 'problem' in found ? found.problem : `${bytes(found.pss)} in ${many(found.processes, 'process', 'processes')}`;
  };
  const whole = () => Object.values(read()).reduce((all, one) => all + ('pss' in one ? one.pss : 0), 0);
  return (
    <section>
      <header class="usage-head"><h2>{many(props.live.length, 'session')} with a process</h2>
        <button onClick={() => void look()} disabled={isBusy() || props.live.length === 0}>{isBusy() ? 'Reading…' : 'Read memory'}</button></header>
      <Show when={whole() > 0}><p class="figures">{bytes(whole())} in all.</p></Show>
      <ul class="health-list">
        <For each={props.live}>{(one) => (
          <li><StateShape shown={shownAs(one)} /><A class="one-line" href={`/s/${one.id}`}><SafeText text={titleOf(one)} /></A>
            <span class="quiet figures">{memory(one.id)}</span></li>
        )}</For>
      </ul>
    </section>
  );
}

const GRADES: Record<string, { shape: string; word: string }> = {
  ok: { shape: '✓', word: 'Good' }, notice: { shape: '◇', word: 'Notice' }, problem: { shape: '▲', word: 'Problem' },
};

function Doctor() {
  const [wanted, setWanted] = createSignal(false);
  const [found, { refetch }] = createAsked(wanted, () => rest.GET('/v1/daemon/doctor'));
  const examine = () => { if (wanted()) void refetch(); else setWanted(true); };
  return (
    <section aria-live="polite">
      <header class="usage-head"><h2>Doctor</h2><button onClick={examine} disabled={found.loading}>{found.loading ? 'Examining…' : 'Examine'}</button></header>
      <Show when={found.error as unknown}>{(error) => <p class="problem">The examination failed: {said(error()).text}</p>}</Show>
      <Show when={!found.error}>
        <ul class="health-list">
          <For each={found()?.items}>{(one) => (
            <li class={`finding is-${one.grade}`}>
              <span role="img" aria-label={GRADES[one.grade]?.word ?? one.grade}>{GRADES[one.grade]?.shape ?? '◇'}</span>
              <span><strong>{one.name}</strong> {one.found}{one.advice && <span class="advice">{one.advice}</span>}</span>
            </li>
          )}</For>
        </ul>
      </Show>
    </section>
  );
}
