// Owns the page of one sub-agent: what it was told, did and found, with the way back.
import { A } from '@solidjs/router';
import { For, Show, createEffect, createMemo } from 'solid-js';
import type { CallBlock, Folded } from '../fold/model';
import { clock, count, many, now } from '../parts/time';
import { SafeText } from '../text/safe';
import { stepsLeftOut } from '../live/saver';
import { useConversation } from '../live/store';
import { TranscriptList } from './transcript-list';

/** A sub-agent of the conversation. */
export default function AgentPage(props: { callId: string }) {
  const conversation = useConversation();
  const call = createMemo(() => conversation.folded().calls.get(props.callId), undefined, { equals: false });
  const agent = () => call()?.agent ?? undefined;
  const source = createMemo((): Folded => {
    const folded = conversation.folded();
    const isRunning = agent()?.status === 'running';
    return { ...folded, blocks: agent()?.blocks ?? [], waiting: [], workingSince: isRunning ? call()?.at ?? null : null };
  });
  // An agent of long ago is behind records that are not loaded yet.
  createEffect(() => {
    if (conversation.isOpened() && agent() === undefined && conversation.hasOlder()) void conversation.loadOlder(2_000).catch(() => undefined);
  });
  /** The agents that this one works for, the first one first. */
  const above = createMemo((): CallBlock[] => {
    const all: CallBlock[] = [];
    const { calls } = conversation.folded();
    for (let id = call()?.parent ?? null; id !== null && !all.some((one) => one.id === id);) {
      const one = calls.get(id);
      if (one === undefined) break;
      all.unshift(one);
      id = one.parent;
    }
    return all;
  });
  const figures = () => {
    const one = agent();
    if (one === undefined) return '';
    const ms = one.ms ?? (one.status === 'running' ? now() - Date.parse(call()!.at) : null);
    return [many(one.steps, 'step'), ...(one.tokens === null ? [] : [`${count(one.tokens)} tokens`]), ...(ms === null ? [] : [clock(ms)])].join(' · ');
  };
  return (
    <>
      <nav class="agent-head" aria-label="Where you are">
        <A href={`/s/${conversation.id}`}>‹ Conversation</A>
        <For each={above()}>{(one) => <A class="one-line" href={`/s/${conversation.id}/agent/${encodeURIComponent(one.id)}`}>‹ <SafeText text={one.agent?.task || (one.agent?.kind ?? '')} /></A>}</For>
        <Show when={agent()} fallback={<span class="quiet">{conversation.hasOlder() ? 'Looking for this agent' : 'There is no such agent.'}</span>}>{(one) => (
          <>
            <h2 class="one-line">Agent · <SafeText text={one().kind} /> · <SafeText text={one().task} /></h2>
            <span class="figures quiet">{figures()}</span>
          </>
        )}</Show>
      </nav>
      <Show when={agent()?.blocks.length === 0 && stepsLeftOut()}>{(words) => <p class="quiet">{words()}</p>}</Show>
      <TranscriptList source={source} />
    </>
  );
}
