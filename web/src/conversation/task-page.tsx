// Owns the page of one task: what runs or ran, its output as it comes, Stop, and the way back. A task that is a sub-agent has the
// page of the agent.
import { A } from '@solidjs/router';
import { Show, createEffect, createMemo } from 'solid-js';
import { attempt } from '../lobby/acts';
import { rest } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import { inputOf } from '../fold/partial-json';
import { str } from '../fold/raw';
import { useConversation } from '../live/store';
import { BusyButton } from '../parts/busy';
import { clock, count, now } from '../parts/time';
import { TaskOutput, isOver } from '../side/tasks';
import { SafeText } from '../text/safe';
import AgentPage from './agent-page';

/** The lines of output that are shown at first. */
const LINES = 200;

/** A task of the conversation. */
export default function TaskPage(props: { taskId: string }) {
  const conversation = useConversation();
  // A task changes in its place: each look at it is another object, so that all that shows it looks again.
  const task = createMemo(() => { const known = conversation.folded().tasks.get(props.taskId); return known === undefined ? undefined : { ...known }; });
  const call = createMemo(() => { const id = task()?.toolUseId; return id == null ? undefined : conversation.folded().calls.get(id); }, undefined, { equals: false });
  const agentCall = createMemo(() => (call()?.agent == null ? undefined : call()?.id));
  const command = () => { const of = call(); return of === undefined ? '' : str(inputOf(of).command); };
  // A task of long ago is behind records that are not loaded yet.
  createEffect(() => {
    if (conversation.isOpened() && task() === undefined && conversation.hasOlder()) void conversation.loadOlder(2_000).catch(() => undefined);
  });
  const figures = () => {
    const one = task();
    if (one === undefined) return '';
    const ms = (one.endedAt === null ? now() : Date.parse(one.endedAt)) - Date.parse(one.startedAt);
    return [isOver(one) ? one.status : 'running', clock(ms), one.tokens === null ? '' : `${count(one.tokens)} tokens`].filter(Boolean).join(' · ');
  };
  const stop = () => attempt(rest.POST('/v1/sessions/{id}/tasks/{task_id}/stop', { params: { path: { id: conversation.id, task_id: props.taskId } } }));
  return (
    <Show when={agentCall()} keyed fallback={
      <>
        <nav class="agent-head" aria-label="Where you are">
          <A href={`/s/${conversation.id}`}>‹ Conversation</A>
          <Show when={task()} fallback={<span class="quiet">{conversation.hasOlder() || !conversation.isOpened() ? 'Looking for this task' : 'There is no such task.'}</span>}>{(one) => (
            <>
              <h2 class="one-line">Task · <SafeText text={one().description || one().kind} /></h2>
              <span class="figures quiet">{figures()}</span>
              <Show when={!isOver(one()) && canAct()}><BusyButton busyWord="Stopping…" run={stop}>Stop</BusyButton></Show>
            </>
          )}</Show>
        </nav>
        <Show when={task()}>{(one) => (
          <section class="task-page" aria-label="Task">
            <Show when={command()}>{(text) => <pre class="command"><SafeText text={text()} code /></pre>}</Show>
            <Show when={one().current}>{(step) => <p class="quiet"><SafeText text={step()} /></p>}</Show>
            <Show when={one().summary}>{(words) => <p><SafeText text={words()} /></p>}</Show>
            <Show when={one().kind !== 'local_agent'} fallback={<p class="quiet">The call that began this agent is not in the records.</p>}>
              <TaskOutput sessionId={conversation.id} taskId={one().id} isOver={isOver(one())} name={one().description} last={LINES} />
            </Show>
          </section>
        )}</Show>
      </>
    }>{(callId) => <AgentPage callId={callId} />}</Show>
  );
}
