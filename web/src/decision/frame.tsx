// Owns the frame of every card: the question on top, a body that scrolls, and buttons that are always in view.
import { Show, type JSX } from 'solid-js';
import { ago, clock, exact, now } from '../parts/time';
import { Told } from '../parts/told';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import type { CardProps, Deciding } from './deciding';
import '../look/decision.css';

const LAST_MINUTES_MS = 600_000;

/** A card. */
export function Frame(props: { card: CardProps; deciding: Deciding; question: string; children: JSX.Element; foot: JSX.Element; mark?: JSX.Element; onSubmit?: () => void }) {
  const { deciding } = props;
  const left = () => (props.card.approval.deadline === null ? null : Date.parse(props.card.approval.deadline) - now());
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.isComposing || props.onSubmit === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (deciding.quiet.countsText()) props.onSubmit();
  };
  return (
    <section class="decision" classList={{ 'is-asleep': !deciding.quiet.isAwake() }} aria-label={spelledOut(props.question)} tabIndex={-1} onKeyDown={onKeyDown}>
      <header class="decision-head" ref={(element) => { deciding.parts.head = element; }}>
        <span class="decision-shape" aria-hidden="true">◆</span>
        <h2><SafeText text={props.question} /></h2>
        <span class="decision-facts figures quiet">
          {props.mark}
          <Show when={props.card.place}>{(place) => <span>{place()}</span>}</Show>
          <Show when={left()} fallback={<time dateTime={props.card.approval.requested_at} title={exact(props.card.approval.requested_at)}>{ago(props.card.approval.requested_at)}</time>}>
            {(ms) => <span classList={{ 'is-urgent': ms() < LAST_MINUTES_MS }} role="timer">{clock(Math.max(0, ms()))} left</span>}
          </Show>
        </span>
      </header>
      <div class="decision-body" ref={deciding.watchBody} tabIndex={0} role="group" aria-label="What it asks">
        <Show when={props.card.session}>{(name) => <p class="quiet one-line">In “<SafeText text={name()} />”</p>}</Show>
        {props.children}
      </div>
      <div class="decision-foot" ref={(element) => { deciding.parts.foot = element; }}>
        <Told><Show when={deciding.whyNot()}>{(words) => <p class="quiet">{words()}</p>}</Show></Told>
        <Told><Show when={deciding.problem()}>{(problem) => (
          <div class="problem">{problem().text}{problem().mayHaveHadEffect ? ' It may have been decided all the same.' : ' Nothing was decided.'}
            <details><summary>Details</summary><code>{problem().code}</code></details></div>
        )}</Show></Told>
        {props.foot}
      </div>
    </section>
  );
}

/** Facts under what is asked: where, who, why. */
export function Facts(props: { card: CardProps }) {
  const { approval } = props.card;
  return (
    <div class="decision-why quiet">
      <Show when={approval.agent_id}><p>A sub-agent asks.</p></Show>
      <Show when={approval.kind === 'deferred'}><p>A hook put this call off. It goes on when you have decided, also in a later process.</p></Show>
      <Show when={approval.reason}>{(reason) => <p>Why it asks: <SafeText text={reason()} /></p>}</Show>
      <Show when={approval.blocked_path}>{(path) => <p>It is about <code><SafeText text={path()} /></code>.</p>}</Show>
    </div>
  );
}
