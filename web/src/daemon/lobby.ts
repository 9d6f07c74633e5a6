// Owns the page's picture of all sessions: a snapshot, then each change, resumed by event ids.
import { createMemo, createRoot, createSignal } from 'solid-js';
import { createStore, produce, reconcile } from 'solid-js/store';
import { ride, type Frame } from './link';
import type { LobbyFrame, SessionSummary } from './types';

interface Lobby {
  byId: Record<string, SessionSummary>;
  /** The daemon's program; another one after an upgrade. `null` before the first snapshot. */
  build: string | null;
  /** How many sessions there are; the snapshot has the newest of them. */
  total: number;
  /** When something was last heard: "as of". */
  asOf: number;
  isThere: boolean;
}

/** The newest sessions, of very many. */
const MOST_SESSIONS = 2_000;

const [lobby, setLobby] = createStore<Lobby>({ byId: {}, build: null, total: 0, asOf: 0, isThere: false });
const [lastEventId, setLastEventId] = createSignal<string | null>(null);

export { lobby };

/** All sessions that the page knows of. */
export const sessions = createRoot(() => createMemo(() => Object.values(lobby.byId)));

/** Begins to watch; the returned function ends it. */
export function watchLobby(): () => void {
  return ride({
    greeting: () => {
      const after = lastEventId();
      return [{ type: 'trunkline.watch', limit: MOST_SESSIONS, ...(after === null ? {} : { last_event_id: after }) }];
    },
    takes: (frame) => frame.type === 'trunkline.lobby' || frame.type === 'trunkline.session',
    frame: (frame) => apply(frame),
  });
}

function apply(frame: Frame): void {
  const news = frame as unknown as LobbyFrame;
  setLastEventId(news.event_id);
  if (news.type === 'trunkline.lobby') {
    const byId = Object.fromEntries(news.sessions.map((session) => [session.id, session]));
    setLobby('byId', reconcile(byId));
    setLobby({ build: news.build, total: news.total, isThere: true, asOf: Date.now() });
    return;
  }
  const { session, session_id, change } = news;
  setLobby(produce((state) => {
    state.asOf = Date.now();
    if (change === 'made' && state.byId[session_id] === undefined) state.total += 1;
    if (change === 'deleted' || session == null) {
      if (state.byId[session_id] !== undefined) state.total -= 1;
      delete state.byId[session_id];
    }
  }));
  if (session != null && change !== 'deleted') setLobby('byId', session_id, reconcile(session));
}
