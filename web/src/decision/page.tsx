// Owns the page "Needs you": all that waits over all sessions, in the order of attention, and the decision that is open.
import { A, useNavigate, useParams, useSearchParams } from '@solidjs/router';
import { For, Show, createEffect, createMemo, createRoot, lazy, onMount } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { lobby, sessions } from '../lobby/lobby';
import { byNeed } from '../lobby/order';
import { Row } from '../sessions/row';
import { titleOf } from '../lobby/words';
import { useKeys } from '../parts/keys';
import { ago, clock, exact, now } from '../parts/time';
import { SafeText } from '../text/safe';
import { DecidedLine, LoadedCard } from './card';
import { passFocus, useEnded } from './dock';
import { waiting, wholeOf, type Waiting } from '../lobby/pending';
import { briefOf, lineOf } from '../lobby/request';
import { Told } from '../parts/told';
import '../look/decision.css';

const History = lazy(() => import('./history'));

/** The page. */
export default function NeedsPage() {
  const [query] = useSearchParams();
  const isHistory = () => query.state === 'decided';
  return (
    <div class="needs">
      <header class="needs-head">
        <h1>Needs you</h1>
        <nav aria-label="Decisions">
          <a href="/needs" aria-current={isHistory() ? undefined : 'page'}>Waiting <span class="figures">{waiting().length + others().length}</span></a>
          <a href="/needs?state=decided" aria-current={isHistory() ? 'page' : undefined}>Decided</a>
        </nav>
      </header>
      <Show when={isHistory()} fallback={<Inbox />}><History /></Show>
    </div>
  );
}

function Inbox() {
  const params = useParams();
  const navigate = useNavigate();
  let host: HTMLDivElement | undefined;
  const { ended, decided, isGone } = useEnded(createMemo(() => waiting().map(({ summary, session }) => ({ id: summary.id, sessionId: session.id }))));
  const open = createMemo(() => waiting().filter(({ summary }) => !isGone(summary.id)));
  // An open request stays open: a new one never takes its place.
  const current = createMemo<Waiting | undefined>((before) => {
    const wanted = params.approval ?? before?.summary.id;
    return open().find(({ summary }) => summary.id === wanted) ?? open()[0];
  });
  const ids = createMemo(() => open().map(({ summary }) => summary.id), undefined, { equals: (a, b) => a.join() === b.join() });
  const currentId = createMemo(() => current()?.summary.id);
  const at = () => open().findIndex(({ summary }) => summary.id === currentId());
  const go = (by: 1 | -1) => {
    const next = open()[(at() + by + open().length) % open().length];
    if (next !== undefined) navigate(`/needs/${next.summary.id}`, { replace: params.approval !== undefined, scroll: false });
  };
  onMount(() => createEffect(() => {
    const id = currentId();
    if (params.approval !== undefined && id !== undefined && params.approval !== id && isGone(params.approval)) navigate(`/needs/${id}`, { replace: true, scroll: false });
  }));
  useKeys('Needs you', [
    { keys: 'ArrowDown', word: 'Next decision', run: () => { if (document.activeElement?.closest('.decision') !== null) return false; go(1); return undefined; } },
    { keys: 'ArrowUp', word: 'Decision before', run: () => { if (document.activeElement?.closest('.decision') !== null) return false; go(-1); return undefined; } },
    { keys: 'o', word: 'Open its session', run: () => { const session = current()?.session.id; if (session !== undefined) navigate(`/s/${session}`); } },
  ]);
  /** The address names a request that does not wait any more: another one is not to be taken for it. */
  const isPast = () => lobby.isThere && params.approval !== undefined && params.approval !== currentId() && !isGone(params.approval);
  return (
    <div class="needs-body" ref={host}>
      <Show when={open().length > 0}>
        <div class="needs-list">
          <nav class="needs-rows" aria-label="What waits">
            <For each={ids()}>{(id) => <InboxRow one={open().find(({ summary }) => summary.id === id) as Waiting} isOpen={id === currentId()} />}</For>
          </nav>
          <Others />
        </div>
      </Show>
      <div class="needs-open">
        <Told><Show when={isPast()}><p class="decided"><strong>It no longer waits for this.</strong> <A href="/needs?state=decided">What was decided</A></p></Show></Told>
        <Told><For each={ended()}>{(one) => <DecidedLine approval={one.approval} isMine={one.isMine} cwd={lobby.byId[one.approval.session_id]?.cwd ?? ''} />}</For></Told>
        <Show when={currentId()} keyed fallback={<Calm />}>{(id) => {
          const one = createMemo<Waiting>((before) => open().find(({ summary }) => summary.id === id) ?? before, current() as Waiting);
          return (
            <LoadedCard sessionId={one().session.id} summary={one().summary} cwd={one().session.cwd} session={titleOf(one().session)}
              {...(open().length > 1 ? { place: `${at() + 1} of ${open().length}` } : {})}
              onDecided={(approval, isMine) => { decided(approval, isMine); passFocus(host); }} onMove={go} />
          );
        }}</Show>
      </div>
    </div>
  );
}

function InboxRow(props: { one: Waiting; isOpen: boolean }) {
  const { summary, session } = props.one;
  const [whole] = createAsked(() => wholeOf(session.id, summary.id).catch(() => undefined));
  const line = () => { const approval = whole(); return approval === undefined ? briefOf(summary) : lineOf(approval, session.cwd); };
  return (
    <a href={`/needs/${summary.id}`} class="needs-row" aria-current={props.isOpen ? 'true' : undefined}>
      <span class="decision-shape" aria-hidden="true">◆</span>
      <span class="one-line"><SafeText text={titleOf(session)} /></span>
      <Limit deadline={summary.deadline} since={summary.requested_at} />
      <span class="one-line quiet">{line().word} <SafeText text={line().text.slice(0, 200)} /></span>
    </a>
  );
}

/** The sessions that need a person for another reason than a decision: they failed, are silent, or spent their budget. */
const others = createRoot(() => createMemo(() => sessions().filter((one) => (one.attention?.rank ?? 0) >= 3).sort(byNeed).map(({ id }) => id),
  undefined, { equals: (a, b) => a.join() === b.join() }));

/** They stand below what is to be decided, and alone where nothing is. */
function Others() {
  return (
    <Show when={others().length > 0}>
      <ul class="needs-others" aria-label="Sessions that need you for another reason">
        <For each={others()}>{(id) => <li><Show when={lobby.byId[id]}>{(session) => <Row session={session()} inProject={false} isStop />}</Show></li>}</For>
      </ul>
    </Show>
  );
}

function Calm() {
  return (
    <div class="needs-calm">
      <Show when={lobby.isThere} fallback={<p class="quiet">Asking the daemon what waits…</p>}>
        <p>{others().length > 0 ? 'No decision waits.' : 'Nothing needs you.'}</p>
        <p class="quiet">Questions of the agents come here, the most urgent first.</p>
        <Others />
        <A href="/needs?state=decided">What was decided</A>
      </Show>
    </div>
  );
}

function Limit(props: { deadline: string | null; since: string }) {
  const left = () => (props.deadline === null ? null : Date.parse(props.deadline) - now());
  return <Show when={left()} fallback={<time class="figures quiet" dateTime={props.since} title={exact(props.since)}>{ago(props.since)}</time>}>{(ms) => <span class="figures is-urgent">{clock(Math.max(0, ms()))} left</span>}</Show>;
}
