// Owns how the state of a session is shown: shape, word and colour, never colour alone.
import type { SessionSummary } from '../daemon/types';
import { isLive } from '../daemon/link';

/** How a session is, in the page's words. */
export type Shown = 'needs' | 'working' | 'starting' | 'ready' | 'to-read' | 'parked' | 'stopped' | 'failed' | 'stopping';

const WORDS: Record<Shown, string> = {
  needs: 'Needs you', working: 'Working', starting: 'Starting', ready: 'Ready', 'to-read': 'To read', parked: 'Parked',
  stopped: 'Stopped', failed: 'Failed', stopping: 'Stopping',
};
const SHAPES: Record<Shown, string> = {
  needs: '◆', working: '≡', starting: '◔', ready: '○', 'to-read': '•', parked: '‖', stopped: '□', failed: '▲', stopping: '◌',
};

/** The word for a state. */
export const wordOf = (shown: Shown): string => WORDS[shown];

/** Whether all that a session waits for are decisions that a person put off: they are muted, and stay counted. */
export const isMuted = (session: SessionSummary): boolean => session.attention == null && session.put_off != null && session.put_off.rank <= 2;

/** How a session is shown. A decision that waits comes first, and a restart that is due is work. */
export function shownAs(session: SessionSummary): Shown {
  const rank = session.attention?.rank;
  if (rank === 1 || rank === 2 || isMuted(session)) return 'needs';
  if (session.restart != null) return 'working';
  switch (session.state) {
    case 'failed': return 'failed';
    case 'waiting': return session.attention ? 'needs' : 'working';
    case 'busy': return 'working';
    case 'starting': return 'starting';
    case 'stopping': return 'stopping';
    default: break;
  }
  if (session.unread) return 'to-read';
  if (session.state === 'idle') return 'ready';
  return session.state === 'parked' ? 'parked' : 'stopped';
}

/** The shape of a state with its name. */
export function StateShape(props: { shown: Shown; large?: boolean }) {
  return (
    <span class="state-shape" classList={{ [`is-${props.shown}`]: true, 'is-large': props.large === true, 'is-still': !isLive() }}
      role="img" aria-label={WORDS[props.shown]} title={WORDS[props.shown]}>{SHAPES[props.shown]}</span>
  );
}
