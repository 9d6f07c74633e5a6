// Owns the place of the transcript: the conversation, at a record if the address names one, or one sub-agent or task of it; and what
// the page says while records are still to come.
import { A } from '@solidjs/router';
import { Match, Show, Suspense, Switch, createMemo, lazy } from 'solid-js';
import { createLong } from '../parts/loading';
import { placeOf } from './place';
import { RawPanel } from './raw-panel';
import { useConversation } from '../live/store';
import { TranscriptList } from './transcript-list';

const AgentPage = lazy(() => import('./agent-page'));
const TaskPage = lazy(() => import('./task-page'));

/** The transcript. `rest`: the part of the address behind the session. */
export function Transcript(props: { rest: string | undefined }) {
  const place = createMemo(() => placeOf(props.rest));
  const agent = createMemo(() => { const at = place(); return at.kind === 'agent' ? at.callId : undefined; });
  const task = createMemo(() => { const at = place(); return at.kind === 'task' ? at.taskId : undefined; });
  const marked = createMemo(() => { const at = place(); return at.kind === 'record' ? at.seq : null; });
  const rawSeq = createMemo(() => { const at = place(); return at.kind === 'record' && at.isRaw ? at.seq : undefined; });
  return (
    <div class="transcript-and-raw">
      <div class="transcript-column">
        <Progress />
        <Switch fallback={<TranscriptList marked={marked()} />}>
          <Match when={agent()} keyed>{(callId) => <Suspense><AgentPage callId={callId} /></Suspense>}</Match>
          <Match when={task()} keyed>{(taskId) => <Suspense><TaskPage taskId={taskId} /></Suspense>}</Match>
        </Switch>
      </div>
      <Show when={rawSeq()} keyed>{(seq) => <RawPanel seq={seq} />}</Show>
    </div>
  );
}

/** Says what the page waits for, once a wait has lasted. */
function Progress() {
  const { catchingUp, isOpened, ended } = useConversation();
  const isLong = createLong(() => !isOpened());
  return (
    <div role="status" class="transcript-status">
      <Switch>
        <Match when={ended()}>{(why) => <p class="problem">{why()} <A href="/">All sessions</A></p>}</Match>
        <Match when={catchingUp()}>{(n) => <p class="chip figures">Catching up, {n().done.toLocaleString()} of {n().of.toLocaleString()}</p>}</Match>
        <Match when={isLong()}><p class="chip">Waiting for the newest records</p></Match>
      </Switch>
    </div>
  );
}
