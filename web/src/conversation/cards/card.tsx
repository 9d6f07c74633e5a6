// Owns the frame of a card: one line that opens and folds, with its state in a shape and a word.
import { A } from '@solidjs/router';
import { Show, createMemo, type JSX } from 'solid-js';
import type { CallBlock } from '../../fold/model';
import { BusyButton } from '../../parts/busy';
import { whoOf } from '../../lobby/request';
import { clock, exact, now } from '../../parts/time';
import { SafeText } from '../../text/safe';
import { lineOfCall, statusWord } from '../call-words';
import { useReading } from '../reading';
import { useConversation } from '../../live/store';

const SHAPES: Record<CallBlock['status'], string> = { writing: '◔', running: '≡', asked: '◆', done: '✓', failed: '▲', denied: '⊘', stopped: '□' };

/** Cards that open by themselves: what runs, failed, or is asked. */
export const opensByItself = (call: CallBlock, isAlways: boolean): boolean => {
  if (call.status === 'asked' || call.status === 'failed') return true;
  return isAlways && (call.status === 'running' || call.status === 'writing');
};

/** How long a call that runs has run. */
export function Elapsed(props: { since: string }) {
  return <span class="figures">{clock(now() - Date.parse(props.since))}</span>;
}

/** A card. `whileRunning`: it is open as long as it runs. `asks`: something that it began waits for a person. */
export function Card(props: { call: CallBlock; rowKey: string; whileRunning?: boolean; neverByItself?: boolean; asks?: boolean; children: JSX.Element; tail?: JSX.Element }) {
  const reading = useReading();
  const line = createMemo(() => lineOfCall(props.call));
  const isOpen = () => reading.isOpen(props.rowKey, props.neverByItself !== true && opensByItself(props.call, props.whileRunning === true));
  const isAtWork = () => props.call.status === 'running' || props.call.status === 'writing';
  const decided = () => { const asked = props.call.asked; return asked !== null && asked.by !== null ? asked : null; };
  return (
    <div class="call" classList={{ [`is-${props.asks === true ? 'asked' : props.call.status}`]: true, 'is-open': isOpen(), 'is-agent': props.call.agent !== null }}>
      <button class="call-line" aria-expanded={isOpen()} onClick={() => reading.setOpen(props.rowKey, !isOpen())} title={exact(props.call.at)}>
        <Show when={props.asks === true} fallback={<span class="call-shape" role="img" aria-label={statusWord(props.call)}>{SHAPES[props.call.status]}</span>}>
          <span class="call-shape" role="img" aria-label="needs you">{SHAPES.asked}</span>
        </Show>
        <Show when={line().verb !== ''} fallback={<span class="call-mark" aria-hidden="true">$</span>}><span class="call-verb"><SafeText text={line().verb} /></span></Show>
        <span class="call-subject one-line" classList={{ 'is-code': line().isCode }}><SafeText text={line().subject} /></span>
        <span class="call-figures figures">
          <Show when={props.call.status !== 'done' && props.call.status !== 'running'}><span class="call-status">{statusWord(props.call)}</span></Show>
          <Show when={props.call.changedBy}>{(by) => <span class="call-status">changed by <SafeText text={whoOf(by())} /></span>}</Show>
          {line().figures.join(' · ')}
          <Show when={isAtWork()}><Elapsed since={props.call.at} /></Show>
        </span>
      </button>
      <Show when={isOpen()}>
        <div class="call-body">
          {props.children}
          <Show when={decided()}>{(asked) => <DecidedLine asked={asked()} />}</Show>
          <LeftOut call={props.call} />
        </div>
      </Show>
      {props.tail}
    </div>
  );
}

/** The decider of a call. */
function DecidedLine(props: { asked: NonNullable<CallBlock['asked']> }) {
  const words: Record<string, string> = { allowed: 'Allowed', denied: 'Denied', changed: 'Changed and allowed', cancelled: 'Cancelled', withdrawn: 'Taken back', abandoned: 'Given up', overruled: 'Decided otherwise' };
  return <p class="quiet small" title={exact(props.asked.at)}>{words[props.asked.state] ?? props.asked.state} by <SafeText text={whoOf(props.asked.by ?? '')} /></p>;
}

/** Offers what is too large to come unasked. */
function LeftOut(props: { call: CallBlock }) {
  const conversation = useConversation();
  return (
    <Show when={props.call.result?.leftOutBytes}>{(bytes) => (
      <LoadWhole seq={props.call.result!.seq} bytes={bytes()} load={(seq) => conversation.loadWhole(seq)} id={conversation.id} />
    )}</Show>
  );
}

/** A button that loads a large record. */
export function LoadWhole(props: { seq: number; bytes: number; id: string; load: (seq: number) => Promise<void> }) {
  return (
    <p class="left-out">
      <span>{(props.bytes / 1e6).toFixed(props.bytes < 1e6 ? 2 : 1)} MB are not loaded.</span>
      <BusyButton busyWord="Loading…" run={() => props.load(props.seq)}>Load it</BusyButton>
      <A href={`/s/${props.id}/r/${props.seq}/raw`}>raw</A>
    </p>
  );
}
