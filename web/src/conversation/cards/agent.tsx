// Owns the card of a sub-agent, and the group of several: one line with its step of the moment, and its last steps when opened.
import { A } from '@solidjs/router';
import { For, Show, createMemo } from 'solid-js';
import type { Agent, Block, CallBlock } from '../../fold/model';
import { many } from '../../parts/time';
import { Markdown } from '../../text/markdown';
import { SafeText } from '../../text/safe';
import { lineOfCall, statusWord } from '../call-words';
import { useReading } from '../reading';
import { useConversation } from '../../live/store';
import { Card, Elapsed } from './card';

const LAST_STEPS = 3;

/** The present step of an agent, in words. */
export function stepOf(agent: Agent): string {
  const last = agent.blocks.findLast((block): block is CallBlock => block.kind === 'call');
  if (last !== undefined && (last.status === 'running' || last.status === 'asked' || last.status === 'writing')) {
    const line = lineOfCall(last);
    return `${last.status === 'asked' ? 'needs you: ' : ''}${line.verb} ${line.subject}`.trim();
  }
  return agent.current ?? '';
}

/** Whether a call of a sub-agent, however deep, waits for a person. */
export function asksPerson(blocks: readonly Block[]): boolean {
  return blocks.some((block) => block.kind === 'call' && (block.status === 'asked' || (block.agent !== null && asksPerson(block.agent.blocks))));
}

/** A sub-agent. */
export function AgentCard(props: { call: CallBlock; rowKey: string }) {
  const { id } = useConversation();
  const agent = () => props.call.agent;
  const steps = createMemo(() => (props.call.version, (agent()?.blocks ?? []).filter((block): block is CallBlock => block.kind === 'call').slice(-LAST_STEPS)));
  const step = createMemo(() => (props.call.version, agent()?.status === 'running' ? stepOf(agent()!) : ''));
  return (
    <Card call={props.call} rowKey={props.rowKey} neverByItself
      tail={<Show when={step() !== ''}><p class="agent-step one-line" aria-label="Step of the moment"><SafeText text={step()} /></p></Show>}>
      <ul class="steps"><For each={steps()}>{(call) => <Step call={call} />}</For></ul>
      <Show when={agent()?.status !== 'running' && props.call.result?.text}>{(text) => <div class="agent-result"><Markdown text={text()} /></div>}</Show>
      <A class="open-agent" href={`/s/${id}/agent/${encodeURIComponent(props.call.id)}`}>Open this agent</A>
    </Card>
  );
}

function Step(props: { call: CallBlock }) {
  const line = createMemo(() => lineOfCall(props.call));
  return <li class="one-line"><span class="quiet">{statusWord(props.call)}</span> <SafeText text={`${line().verb} ${line().subject}`.trim()} /></li>;
}

/** Several agents at once. */
export function AgentGroup(props: { calls: CallBlock[]; rowKey: string }) {
  const reading = useReading();
  const isOpen = () => reading.isOpen(props.rowKey, true);
  const running = () => props.calls.filter((call) => call.agent?.status === 'running');
  return (
    <div class="call group" classList={{ 'is-open': isOpen() }}>
      <button class="call-line" aria-expanded={isOpen()} onClick={() => reading.setOpen(props.rowKey, !isOpen())}>
        <span class="call-shape" aria-hidden="true">{running().length > 0 ? '≡' : '✓'}</span>
        <span class="call-verb">{running().length > 0 ? `${running().length} agents at work` : many(props.calls.length, 'agent')}</span>
        <span class="call-figures figures"><Show when={running()[0]}>{(first) => <Elapsed since={first().at} />}</Show></span>
      </button>
      <Show when={isOpen()}>
        <div class="group-rows"><For each={props.calls.map((call) => call.id)}>{(callId) => {
          const call = () => props.calls.find((one) => one.id === callId)!;
          return <AgentCard call={call()} rowKey={`call:${callId}`} />;
        }}</For></div>
      </Show>
    </div>
  );
}
