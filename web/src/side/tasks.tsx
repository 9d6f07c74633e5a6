// Owns the background tasks of a conversation: the list, the live output of one that is looked at, and the strip above the box.
import { A } from '@solidjs/router';
import { For, Show, createEffect, createSignal, on, onCleanup } from 'solid-js';
import { createAsked } from '../daemon/asked';
import type { Conversation } from '../live/store';
import { attempt } from '../lobby/acts';
import { rest } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import type { Folded, Task } from '../fold/model';
import { BusyButton } from '../parts/busy';
import { titleWith } from '../parts/keys';
import { openSide } from '../parts/side';
import { bytes, clock, count, many, now } from '../parts/time';
import { spelledOut } from '../text/hostile';
import { Output } from '../text/output';
import { SafeText } from '../text/safe';
import { calm } from './calm';
import { showPanel } from './panels';
import './side.css';

const OUTPUT_MS = 2_000;
/** Whether a task has ended. */
export const isOver = (task: Task): boolean => task.endedAt !== null;
/** The address of a task. */
export const addressOf = (sessionId: string, taskId: string): string => `/s/${sessionId}/task/${encodeURIComponent(taskId)}`;

/** The output of a running task is asked for again and again only while somebody looks at it. */
const isLookedAt = (): boolean => document.visibilityState === 'visible';

/** The tasks that run in the background. */
export const runningTasks = (folded: Folded): Task[] => [...folded.tasks.values()].filter((task) => task.isInBackground && !isOver(task));

/** All tasks in the background, those that run first, then the newest. */
export const backgroundTasks = (folded: Folded): Task[] => [...folded.tasks.values()].filter((task) => task.isInBackground)
  .sort((a, b) => Number(isOver(a)) - Number(isOver(b)) || b.startedAt.localeCompare(a.startedAt));

/** The strip above the box. It is there while a task runs. */
export function TasksStrip(props: { conversation: Conversation }) {
  const folded = calm(() => props.conversation.folded());
  const running = () => runningTasks(folded());
  return (
    <Show when={running().length > 0}>
      <button type="button" class="plain tasks-strip" title={titleWith('Tasks', 'Tasks', 'T')} onClick={() => { showPanel('tasks'); openSide(); }}>
        <span aria-hidden="true">≡</span>
        <span class="one-line">{many(running().length, 'task')} in the background<Show when={running()[0]}>{(first) => <>: <SafeText text={first().description} /></>}</Show></span>
        <span aria-hidden="true">▸</span>
      </button>
    </Show>
  );
}

/** A task changes in its place: each look at it is another object, so that all that shows it looks again. */
const copyOf = (task: Task | undefined): Task | undefined => (task === undefined ? undefined : { ...task });

/** The list. */
export function Tasks(props: { conversation: Conversation }) {
  const folded = calm(() => props.conversation.folded());
  return (
    <Show when={backgroundTasks(folded()).length > 0} fallback={<p class="quiet">Nothing runs in the background.</p>}>
      <ul class="side-rows"><For each={backgroundTasks(folded()).map((task) => task.id)}>{(id) => (
        <Show when={copyOf(folded().tasks.get(id))}>{(task) => <Row conversation={props.conversation} task={task()} />}</Show>
      )}</For></ul>
    </Show>
  );
}

function Row(props: { conversation: Conversation; task: Task }) {
  const [isOpen, setOpen] = createSignal(false);
  const state = () => (isOver(props.task) ? props.task.status : `running ${clock(now() - Date.parse(props.task.startedAt))}`);
  const stop = () => attempt(rest.POST('/v1/sessions/{id}/tasks/{task_id}/stop', { params: { path: { id: props.conversation.id, task_id: props.task.id } } }));
  return (
    <li class="task">
      <div class="side-row">
        <span class="plan-shape" aria-hidden="true">{isOver(props.task) ? '✓' : '≡'}</span>
        <span class="side-row-words">
          <A class="one-line" href={addressOf(props.conversation.id, props.task.id)} title={spelledOut(props.task.description)}><SafeText text={props.task.description || props.task.kind} /></A>
          <Show when={props.task.current}>{(step) => <span class="quiet one-line"><SafeText text={step()} /></span>}</Show>
          <span class="faint figures">{[state(), props.task.tokens === null ? '' : `${count(props.task.tokens)} tokens`].filter(Boolean).join(' · ')}</span>
        </span>
        <button type="button" class="plain" aria-expanded={isOpen()} onClick={() => setOpen(!isOpen())}>Output</button>
        <Show when={!isOver(props.task) && canAct()}><BusyButton busyWord="Stopping…" run={stop}>Stop</BusyButton></Show>
      </div>
      <Show when={isOpen()}><TaskOutput sessionId={props.conversation.id} taskId={props.task.id} isOver={isOver(props.task)} name={props.task.description} /></Show>
    </li>
  );
}

interface Printed { output?: string | null; total_bytes?: number | null; truncated?: boolean | null }

interface OutputOf { sessionId: string; taskId: string; isOver: boolean; name: string; last?: number }

/** The output of a task, as it comes. `last`: how many lines are shown at first. A login that only watches does not get it. */
export function TaskOutput(props: OutputOf) {
  return <Show when={canAct()} fallback={<p class="quiet">This login only watches. It does not see the output of tasks.</p>}><Printing {...props} /></Show>;
}

function Printing(props: OutputOf) {
  // The output that was read stays where there is none any more.
  let last: Printed | null = null;
  const [printed, { refetch }] = createAsked(
    () => props.taskId,
    async (taskId): Promise<Printed | null> => {
      const answer = await rest.GET('/v1/sessions/{id}/tasks/{task_id}/output', { params: { path: { id: props.sessionId, task_id: taskId } } }).catch(() => null);
      last = answer?.response as Printed | null | undefined ?? last;
      return last;
    },
  );
  // The last words of a task come with its end.
  createEffect(on(() => props.isOver, (over) => { if (over) void refetch(); }, { defer: true }));
  const timer = setInterval(() => { if (!props.isOver && isLookedAt() && !printed.loading) void refetch(); }, OUTPUT_MS);
  onCleanup(() => clearInterval(timer));
  return (
    <Show when={printed()} fallback={<p class="quiet">{printed.loading ? 'Asking for its output…' : 'Its output is not there any more.'}</p>}>{(now) => (
      <>
        <Show when={now().truncated}><p class="faint">The end of {bytes(now().total_bytes ?? 0)}</p></Show>
        <Show when={(now().output ?? '') !== ''} fallback={<p class="quiet">It has printed nothing.</p>}><Output text={now().output ?? ''} name={spelledOut(props.name)} last={props.last ?? 20} /></Show>
      </>
    )}</Show>
  );
}
