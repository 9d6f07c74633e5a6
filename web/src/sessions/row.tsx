// Owns one row of the list: shape, title, reason or step, time, and the decision that can be made in place.
import { A } from '@solidjs/router';
import { Show, createMemo } from 'solid-js';
import { isUnsentIn } from '../composer/outbox';
import { canAct } from '../daemon/role';
import { isLive } from '../daemon/link';
import type { SessionSummary } from '../daemon/types';
import { StateShape, shownAs } from '../lobby/state';
import { exact, money, now } from '../parts/time';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { askedBy } from '../lobby/asked';
import { commandInFull } from './in-full';
import { stateSince } from '../lobby/order';
import { RowDecision } from './row-decision';
import { cursor, pick, picked } from './view';
import { lastPart, moreDecisions, place, putOffOf, sayingOf, timeOf, titleOf } from '../lobby/words';

/** A row. It is one stop of the Tab key; its buttons are stops while it is the row of the keys. `isStop`: it is no row of the list,
 * and it and its buttons are always stops. */
export function Row(props: { session: SessionSummary; inProject: boolean; isStop?: boolean; onMenu?: (id: string, at: HTMLElement) => void }) {
  const id = () => props.session.id;
  const isCursor = () => cursor() === id();
  const isStop = () => props.isStop === true || isCursor();
  const isPicked = () => picked().has(id());
  const asked = () => askedBy(props.session);
  const saying = createMemo(() => sayingOf(props.session, asked(), now()));
  // A command that stands below in full is not said twice.
  const hasCommand = createMemo(() => canAct() && props.session.attention?.reason === 'decision' && asked() !== undefined && commandInFull(asked(), props.session.cwd) !== null);
  const needs = () => props.session.attention != null;
  const isStrong = () => needs() || props.session.unread;
  return (
    <div class="session-row" classList={{ 'is-needing': (props.session.attention?.rank ?? 9) <= 2, 'is-cursor': isCursor(), 'is-picked': isPicked() }}>
      <Show when={picked().size > 0} fallback={<StateShape shown={shownAs(props.session)} />}>
        <label class="session-row-pick"><input type="checkbox" checked={isPicked()} aria-label={`Select ${spelledOut(titleOf(props.session))}`} tabindex={-1} onChange={() => pick(id())} /></label>
      </Show>
      <div class="session-row-main">
        <div class="session-row-line">
          <A href={`/s/${id()}`} class="session-row-link one-line" classList={{ 'is-strong': isStrong() }} data-row={id()} tabindex={isStop() ? 0 : -1}><SafeText text={titleOf(props.session)} /></A>
          <Show when={moreDecisions(props.session) > 0}><span class="chip" title="More decisions wait">+{moreDecisions(props.session)}</span></Show>
          <time class="session-row-time figures" classList={{ 'is-late': props.session.attention?.rank === 1 }} datetime={stateSince(props.session)} title={exact(stateSince(props.session))}>{timeOf(props.session, now())}</time>
        </div>
        <div class="session-row-line is-second">
          <Show when={!props.inProject}><span class="session-row-place one-line" title={spelledOut(place(props.session.cwd))}><SafeText text={lastPart(props.session.cwd)} /></span></Show>
          <span class="session-row-saying one-line">
            <SafeText text={saying().words} /><Show when={saying().code !== '' && !hasCommand()}> <code><SafeText text={saying().code} /></code></Show>
          </span>
          <Show when={isUnsentIn(id())}><span class="chip" title="A message to it is kept in this browser">Not sent</span></Show>
          <Show when={putOffOf(props.session)}>{(words) => <span class="chip">{words()}</span>}</Show>
          <Show when={props.session.tag}>{(name) => <span class="chip session-row-tag one-line"><SafeText text={name()} /></span>}</Show>
          <Show when={props.session.model && !props.session.simulated}><span class="session-row-model faint one-line"><SafeText text={props.session.model ?? ''} /></span></Show>
          <Show when={props.session.cost_usd > 0}><span class="session-row-cost faint figures">{money(props.session.cost_usd)}</span></Show>
        </div>
        <Show when={needs()}>
          <RowDecision session={props.session} asked={asked()} isCursor={isStop()} />
        </Show>
      </div>
      <Show when={canAct() && props.onMenu !== undefined}>
        <button type="button" class="plain session-row-menu" aria-label={`More for ${spelledOut(titleOf(props.session))}`} aria-haspopup="menu" tabindex={isCursor() ? 0 : -1} disabled={!isLive()}
          onClick={(event) => props.onMenu?.(id(), event.currentTarget)}>⋯</button>
      </Show>
    </div>
  );
}
