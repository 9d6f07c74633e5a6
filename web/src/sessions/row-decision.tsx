// Owns the decision in a row: Allow and Deny where the whole command is to be seen, else the way to the decision; and the ways
// out of a failure.
import { A } from '@solidjs/router';
import { Match, Show, Switch, createEffect, createMemo, createSignal, on, onCleanup } from 'solid-js';
import { BUSY_WORDS, interrupt, isDoing } from '../lobby/acts';
import { said } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { canAct } from '../daemon/role';
import type { Approval, SessionSummary } from '../daemon/types';
import { decide } from '../lobby/pending';
import { BusyButton } from '../parts/busy';
import { hintOf, lastKey } from '../parts/keys';
import { toast } from '../parts/toasts';
import { keepWaiting, leaveIt, resume } from './actions';
import { commandInFull } from './in-full';

/** Buttons are dead for so long after a decision came or a key was pressed, so that no sentence decides anything. */
const QUIET_MS = 400;

/** The decision of a row. */
export function RowDecision(props: { session: SessionSummary; asked: Approval | undefined; isCursor: boolean }) {
  const first = () => props.session.pending_approvals[0];
  const [cameAt, setCameAt] = createSignal(performance.now());
  const [isReady, setReady] = createSignal(false);
  const [isSent, setSent] = createSignal(false);
  createEffect(on(() => first()?.id, () => {
    setCameAt(performance.now());
    setReady(false);
    setSent(false);
    const timer = setTimeout(() => setReady(true), QUIET_MS);
    onCleanup(() => clearTimeout(timer));
  }));
  const command = createMemo(() => commandInFull(props.asked, props.session.cwd));
  const act = async (decision: 'allow' | 'deny', event: MouseEvent) => {
    const approval = first();
    const at = performance.now();
    // Enter on a button that has the focus is meant for it; a letter counts only when no other key came just before.
    const isMeant = event.detail === 0 && document.activeElement === event.currentTarget;
    if (approval === undefined || !isReady() || at - cameAt() < QUIET_MS || (!isMeant && at - lastKey() < QUIET_MS)) return;
    setSent(true);
    // Another person may have been first.
    await decide(props.session.id, approval.id, { decision }).catch((error: unknown) => toast(said(error).text, { isProblem: true }));
    setSent(false);
  };
  const isOff = () => !isLive() || isSent();
  const tab = () => (props.isCursor ? 0 : -1);
  const reviewWord = () => (first()?.kind === 'question' || first()?.kind === 'elicitation' ? 'Answer' : 'Review');
  return (
    <Switch>
      <Match when={props.session.attention?.reason === 'failed' && canAct()}>
        <div class="session-row-acts">
          <BusyButton tabindex={tab()} disabled={!isLive()} busyWord="Leaving…" run={() => leaveIt([props.session.id])}>Leave it</BusyButton>
          <BusyButton tabindex={tab()} disabled={!isLive()} busyWord={BUSY_WORDS.resume} isBusy={isDoing('resume', props.session.id)} run={() => resume([props.session.id])}>Resume</BusyButton>
        </div>
      </Match>
      <Match when={props.session.attention?.rank === 4 && canAct()}>
        <div class="session-row-acts">
          <Show when={props.session.turn}><BusyButton tabindex={tab()} disabled={!isLive()} busyWord={BUSY_WORDS.interrupt} isBusy={isDoing('interrupt', props.session.id)} run={() => interrupt(props.session.id)}>Interrupt</BusyButton></Show>
          <Show when={props.session.attention?.reason === 'silent'} fallback={<BusyButton tabindex={tab()} disabled={!isLive()} busyWord="Leaving…" run={() => leaveIt([props.session.id])}>Leave it</BusyButton>}>
            <BusyButton tabindex={tab()} disabled={!isLive()} busyWord="Keeping…" run={() => keepWaiting([props.session.id])}>Keep waiting</BusyButton>
          </Show>
        </div>
      </Match>
      <Match when={first() !== undefined && canAct() && command()}>
        {(text) => (
          <>
            <pre class="session-row-command">{text()}</pre>
            <div class="session-row-acts">
              <button type="button" tabindex={tab()} disabled={isOff()} title={isLive() ? '' : 'You can\'t decide while offline.'} data-decides="deny" onClick={(event) => void act('deny', event)}><Show when={hintOf('Deny', 'd')}>{(key) => <kbd>{key()}</kbd>}</Show> Deny</button>
              <button type="button" tabindex={tab()} disabled={isOff()} title={isLive() ? '' : 'You can\'t decide while offline.'} data-decides="allow" onClick={(event) => void act('allow', event)}><Show when={hintOf('Allow once', 'a')}>{(key) => <kbd>{key()}</kbd>}</Show> Allow</button>
            </div>
          </>
        )}
      </Match>
      <Match when={first()}>
        <div class="session-row-acts">
          <A class="button" tabindex={tab()} href={`/s/${props.session.id}`}><Show when={canAct()} fallback="Look">{reviewWord()}</Show></A>
        </div>
      </Match>
    </Switch>
  );
}
