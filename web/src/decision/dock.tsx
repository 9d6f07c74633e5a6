// Owns the dock of a conversation: the requests of the session that wait, one card at a time, and for a moment the line of each
// that was decided. The card never takes the focus; after a decision the focus that it had goes on to the next card, or to the box.
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from 'solid-js';
import type { Approval, ApprovalSummary } from '../daemon/types';
import { lobby } from '../lobby/lobby';
import { DecidedLine, LoadedCard } from './card';
import { ask, waitingIn } from '../lobby/pending';
import { Told } from '../parts/told';

const LINE_MS = 4_000;

/** A request that was decided, for as long as its line is shown. */
interface Ended { approval: Approval; isMine: boolean }

/** Keeps the lines of what was decided: here, or by somebody else. */
export function useEnded(waiting: () => { id: string; sessionId: string }[]) {
  const [ended, setEnded] = createSignal<Ended[]>([]);
  const timers = new Set<ReturnType<typeof setTimeout>>();
  onCleanup(() => { for (const timer of timers) clearTimeout(timer); });
  const add = (approval: Approval, isMine: boolean) => {
    if (ended().some((one) => one.approval.id === approval.id)) return;
    const one = { approval, isMine };
    setEnded((all) => [...all.slice(-2), one]);
    const timer = setTimeout(() => { timers.delete(timer); setEnded((all) => all.filter((other) => other !== one)); }, LINE_MS);
    timers.add(timer);
  };
  const mine = new Set<string>();
  createEffect(on(waiting, (now, before) => {
    for (const { id, sessionId } of before ?? []) {
      if (mine.has(id) || now.some((one) => one.id === id)) continue;
      void ask(sessionId, id).then((approval) => { if (approval.state !== 'pending' && !mine.has(id)) add(approval, false); }).catch(() => undefined);
    }
  }));
  return {
    ended,
    /** A card says that it was decided. */
    decided: (approval: Approval, isMine: boolean) => { mine.add(approval.id); add(approval, isMine); },
    /** Whether it was decided here, though the list does not know it yet. */
    isGone: (id: string) => mine.has(id) || ended().some((one) => one.approval.id === id),
  };
}

/** Gives the focus on, if a card had it: to the next card, else to the prompt box where no keyboard would cover the page. */
export function passFocus(host: HTMLElement | undefined): void {
  const had = document.activeElement;
  if (host === undefined || (had !== document.body && !host.contains(had))) return;
  setTimeout(() => {
    const card = host.querySelector<HTMLElement>('.decision');
    if (card !== null) card.focus({ preventScroll: true });
    else if (matchMedia('(pointer: fine)').matches) (host.closest('.conversation-main') ?? document).querySelector<HTMLElement>('.composer textarea')?.focus({ preventScroll: true });
  }, 0);
}

/** The open requests of a session, its sub-agents' included. */
export function DecisionDock(props: { sessionId: string }) {
  let host: HTMLDivElement | undefined;
  const [openId, setOpenId] = createSignal<string>();
  const all = createMemo(() => waitingIn(props.sessionId));
  const { ended, decided, isGone } = useEnded(createMemo(() => all().map(({ id }) => ({ id, sessionId: props.sessionId }))));
  const waiting = createMemo(() => all().filter((one) => !isGone(one.id)));
  const at = () => Math.max(0, waiting().findIndex((one) => one.id === openId()));
  const current = createMemo<ApprovalSummary | undefined>(() => waiting()[at()]);
  const cwd = () => lobby.byId[props.sessionId]?.cwd ?? '';
  const currentId = createMemo(() => current()?.id);
  return (
    <div class="decision-dock" ref={host}>
      <Told><For each={ended()}>{(one) => <DecidedLine approval={one.approval} isMine={one.isMine} cwd={cwd()} />}</For></Told>
      <Show when={currentId()} keyed>{(id) => {
        const summary = createMemo<ApprovalSummary>((before) => waiting().find((one) => one.id === id) ?? before, current() as ApprovalSummary);
        return (
          <LoadedCard sessionId={props.sessionId} summary={summary()} cwd={cwd()} {...(waiting().length > 1 ? { place: `${at() + 1} of ${waiting().length}` } : {})}
            onDecided={(approval, isMine) => { decided(approval, isMine); passFocus(host); }}
            onMove={(by) => setOpenId(waiting()[(at() + by + waiting().length) % waiting().length]?.id)} />
        );
      }}</Show>
    </div>
  );
}
