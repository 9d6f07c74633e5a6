// Owns the list of sub-agents of a conversation: each with its kind, what it does now, its steps, tokens and time.
import { A } from '@solidjs/router';
import { For, Show } from 'solid-js';
import type { Conversation } from '../live/store';
import type { Agent, CallBlock, Folded } from '../fold/model';
import { clock, count, many, now } from '../parts/time';
import { SafeText } from '../text/safe';
import { calm } from './calm';

/** The calls that began a sub-agent, those at work first, then the newest. */
export function agentCalls(folded: Folded): (CallBlock & { agent: Agent })[] {
  const all = [...folded.calls.values()].filter((call): call is CallBlock & { agent: Agent } => call.agent !== null);
  const isAtWork = (call: { agent: Agent }) => (call.agent.status === 'running' ? 0 : 1);
  return all.sort((a, b) => isAtWork(a) - isAtWork(b) || b.seq - a.seq);
}

const WORDS: Record<Agent['status'], [shape: string, word: string]> = {
  running: ['≡', 'At work'], done: ['✓', 'Done'], failed: ['▲', 'Failed'], stopped: ['□', 'Stopped'],
};

/** The list. */
export function Agents(props: { conversation: Conversation }) {
  const folded = calm(() => props.conversation.folded());
  const time = (call: CallBlock & { agent: Agent }) =>
    (call.agent.status === 'running' ? clock(now() - Date.parse(call.at)) : call.agent.ms === null ? '' : clock(call.agent.ms));
  /** The task of the agent that this one works for. */
  const above = (call: CallBlock) => (call.parent === null ? undefined : folded().calls.get(call.parent)?.agent?.task);
  return (
    <Show when={agentCalls(folded()).length > 0} fallback={<p class="quiet">No sub-agent has worked{props.conversation.hasOlder() ? ' in what is loaded' : ''}.</p>}>
      <ul class="side-rows">
        <For each={agentCalls(folded())}>{(call) => (
          <li>
            <A class="side-row" href={`/s/${props.conversation.id}/agent/${encodeURIComponent(call.id)}`}>
              <span class={`plan-shape is-${call.agent.status}`} role="img" aria-label={WORDS[call.agent.status][1]}>{WORDS[call.agent.status][0]}</span>
              <span class="side-row-words">
                <span class="one-line"><strong><SafeText text={call.agent.kind} /></strong> <SafeText text={call.agent.task} /></span>
                <Show when={above(call)}>{(task) => <span class="faint one-line">for <SafeText text={task()} /></span>}</Show>
                <Show when={call.agent.status === 'running' && call.agent.current}>{(step) => <span class="quiet one-line"><SafeText text={step()} /></span>}</Show>
                <span class="faint figures">{[many(call.agent.steps, 'step'), call.agent.tokens === null ? '' : `${count(call.agent.tokens)} tokens`, time(call)].filter(Boolean).join(' · ')}</span>
              </span>
            </A>
          </li>
        )}</For>
      </ul>
    </Show>
  );
}
