// Owns the taking of one decision: whether it can be taken now, the sending, and what came of it.
import { TrunklineError } from 'trunkline-client';
import { createEffect, createSignal, on } from 'solid-js';
import { said, type Said } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { canAct } from '../daemon/role';
import type { Approval, DecisionRequest } from '../daemon/types';
import { forgetKept } from './kept';
import { ask, decide } from '../lobby/pending';
import { useQuiet, useUnseen } from './quiet';

/** The properties of a card. */
export interface CardProps {
  approval: Approval;
  /** The directory of the session. */
  cwd: string;
  /** The name of the session, where the card stands outside of it. */
  session?: string;
  /** `1 of 2`. */
  place?: string;
  /** Whether the keys are this card's now. */
  works?: () => boolean;
  /** It was decided: here, or before by somebody else. */
  onDecided: (approval: Approval, isMine: boolean) => void;
  /** The next or the last card before it. */
  onMove?: (by: 1 | -1) => void;
}

/** The state that the parts of a card share. */
export type Deciding = ReturnType<typeof useDeciding>;

/** Takes one decision. Whenever `shows` changes, the card has other buttons, which are dead at first. */
export function useDeciding(props: CardProps, shows: () => unknown = () => undefined) {
  const [isBusy, setBusy] = createSignal(false);
  const [problem, setProblem] = createSignal<Said>();
  const [hidden, setHidden] = createSignal(0);
  const [showsAll, setShowsAll] = createSignal(false);
  const parts: { head?: Element; foot?: Element } = {};
  const quiet = useQuiet(() => [parts.head, parts.foot]);
  const { unseen, watch } = useUnseen();
  createEffect(on(shows, () => quiet.restart(), { defer: true }));

  const send = async (body: DecisionRequest): Promise<void> => {
    if (isBusy() || whyNot() !== null) return;
    setBusy(true);
    setProblem(undefined);
    const { id, session_id: sessionId } = props.approval;
    try {
      const decided = await decide(sessionId, id, body);
      forgetKept(id);
      props.onDecided(decided, true);
    } catch (error) {
      const isLate = error instanceof TrunklineError && (error.code === 'already_decided' || error.code === 'approval_not_pending');
      const ended = isLate ? await ask(sessionId, id).catch(() => undefined) : undefined;
      if (ended !== undefined && ended.state !== 'pending') props.onDecided(ended, false);
      else setProblem(said(error));
    } finally {
      setBusy(false);
    }
  };

  /** Why nothing can be decided now, in words. */
  const whyNot = (): string | null => {
    if (!isLive()) return 'You can’t decide while offline.';
    if (!canAct()) return 'This login only watches.';
    return props.approval.request_truncated ? 'A part of this is not loaded yet.' : null;
  };

  const unseenLines = () => unseen() + hidden();
  return {
    get approval() { return props.approval; },
    get cwd() { return props.cwd; },
    isBusy, problem, whyNot, send, quiet, parts, watchBody: watch,
    isOff: () => isBusy() || whyNot() !== null,
    showsAll, showAll: () => setShowsAll(true),
    /** Lines that a part of the body does not draw. */
    setHidden,
    /** A button says how many lines are not on the screen. */
    withUnseen: (word: string) => (unseenLines() > 0 ? `${word} (${unseenLines().toLocaleString()} ${unseenLines() === 1 ? 'line' : 'lines'} not seen)` : word),
    /** A handler for a button that decides. */
    press: (run: () => void) => (event: MouseEvent) => { if (quiet.countsClick(event)) run(); },
    /** A handler for a key that decides. A dead key does nothing, and goes nowhere else. */
    key: (run: () => void) => () => { if (quiet.countsKey()) run(); },
  };
}
