// Owns the card of a sub-agent, and the group of several: one line with its step of the moment, and its last steps when opened.
import { A } from '@solidjs/router';
import { For, Show, createMemo } from 'solid-js';
import type { Agent, Block, CallBlock } from '../../fold/model';
import { many } from '../../parts/time';
import { Markdown } from '../../text/markdown';
import { SafeText } from '../../text/safe';
import { lineOfCall, statusWord } from '../call-words';
import { useReading } from '../reading';
import { stepsLeftOut } from '../../live/saver';
import { useConversation } from '../../live/store';
import { Card, Elapsed } from './card';

const LAST_STEPS = 3;

/** The call of a sub-agent, however deep, that waits for a person. */
export function askedIn(blocks: readonly Block[]): CallBlock | undefined {
  for (const block of blocks) {
    if (block.kind !== 'call') continue;
    const found = block.status === 'asked' ? block : block.agent === null ? undefined : askedIn(block.agent.blocks);
    if (found !== undefined) return found;
  }
  return undefined;
}

const wordsOf = (call: CallBlock): string => { const line = lineOfCall(call); return `${line.verb || '$'} ${line.subject}`.trim(); };

/** The present step of an agent, in words: what it asks before what it does. */
export function stepOf(agent: Agent): string {
  const asked = askedIn(agent.blocks);
  if (asked !== undefined) return `needs you: ${wordsOf(asked)}`;
  const last = agent.blocks.findLast((block): block is CallBlock => block.kind === 'call');
  return last !== undefined && (last.status === 'running' || last.status === 'writing') ? wordsOf(last) : agent.current ?? '';
}

/** A sub-agent. */
export function AgentCard(props: { call: CallBlock; rowKey: string }) {
  const { id } = useConversation();
  const agent = () => props.call.agent;
  const steps = createMemo(() => (props.call.version, (agent()?.blocks ?? []).filter((block): block is CallBlock => block.kind === 'call').slice(-LAST_STEPS)));
  const step = createMemo(() => (props.call.version, agent()?.status === 'running' ? stepOf(agent()!) : ''));
  const asks = createMemo(() => (props.call.version, askedIn(agent()?.blocks ?? []) !== undefined));
  return (
    <Card call={props.call} rowKey={props.rowKey} neverByItself asks={asks()}
      tail={<Show when={step() !== ''}><p class="agent-step one-line" aria-label="Step of the moment"><SafeText text={step()} /></p></Show>}>
      <Show when={steps().length === 0 && stepsLeftOut()} fallback={<ul class="steps"><For each={steps()}>{(call) => <Step call={call} />}</For></ul>}>
        {(words) => <p class="quiet">{words()}</p>}
      </Show>
      <Show when={agent()?.status !== 'running' && (agent()?.report || props.call.result?.text)}>{(text) => <div class="agent-result"><Markdown text={text()} /></div>}</Show>
      <A class="open-agent" href={`/s/${id}/agent/${encodeURIComponent(props.call.id)}`}>Open this agent</A>
    </Card>
  );
}

function Step(props: { call: CallBlock }) {
  return <li class="one-line"><span class="quiet">{statusWord(props.call)}</span> <SafeText text={wordsOf(props.call)} /></li>;
}

/** Several agents at once. */
export function AgentGroup(props: { calls: CallBlock[]; rowKey: string }) {
  const reading = useReading();
  const isOpen = () => reading.isOpen(props.rowKey, true);
  const running = () => props.calls.filter((call) => call.agent?.status === 'running');
  const asking = () => props.calls.filter((call) => askedIn(call.agent?.blocks ?? []) !== undefined).length;
  return (
    <div class="call group" classList={{ 'is-open': isOpen(), 'is-asked': asking() > 0 }}>
      <button class="call-line" aria-expanded={isOpen()} onClick={() => reading.setOpen(props.rowKey, !isOpen())}>
        <span class="call-shape" aria-hidden="true">{asking() > 0 ? '◆' : running().length > 0 ? '≡' : '✓'}</span>
        <span class="call-verb">{running().length > 0 ? `${many(running().length, 'agent')} at work` : many(props.calls.length, 'agent')}{asking() > 0 ? ` · ${asking()} ${asking() === 1 ? 'needs' : 'need'} you` : ''}</span>
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
