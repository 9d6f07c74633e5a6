// Owns the page's picture of all sessions: a snapshot, then each change, resumed by event ids.
import { batch, createSignal } from 'solid-js';
import { createStore, produce, reconcile } from 'solid-js/store';
import { ride, type Frame } from '../daemon/link';
import type { LobbyFrame, SessionSummary } from '../daemon/types';

interface Lobby {
  byId: Record<string, SessionSummary>;
  /** The daemon's program; another one after an upgrade. `null` before the first snapshot. */
  build: string | null;
  /** How many sessions there are; the snapshot has the newest of them. */
  total: number;
  isThere: boolean;
}

/** A session as it was told last. It is not a plain object, so that the store leaves it as it is: it is replaced as a whole, and a
 * list of a thousand sessions does not watch each member of each. */
class Told {
  constructor(session: SessionSummary) {
    Object.assign(this, session);
  }
}
const told = (session: SessionSummary): SessionSummary => new Told(session) as SessionSummary;

/** Sessions by their ids, and nothing else: an id is a part of an address, which may be any name that every object has. */
const bare = (sessions: Iterable<readonly [string, SessionSummary]> = []): Record<string, SessionSummary> => Object.assign(Object.create(null), Object.fromEntries(sessions)) as Record<string, SessionSummary>;

/** The newest sessions, of very many. */
const MOST_SESSIONS = 2_000;

const [lobby, setLobby] = createStore<Lobby>({ byId: bare(), build: null, total: 0, isThere: false });
const [lastEventId, setLastEventId] = createSignal<string | null>(null);
const [sessions, setSessions] = createSignal<SessionSummary[]>([]);
const known = new Map<string, SessionSummary>();

export { lobby };

/** All sessions that the page knows of. */
export { sessions };

/** Begins to watch; the returned function ends it. */
export function watchLobby(): () => void {
  return ride({
    greeting: () => {
      const after = lastEventId();
      return [{ type: 'trunkline.watch', limit: MOST_SESSIONS, ...(after === null ? {} : { last_event_id: after }) }];
    },
    takes: (frame) => frame.type === 'trunkline.lobby' || frame.type === 'trunkline.session',
    frame: (frame) => batch(() => apply(frame)),
  });
}

function apply(frame: Frame): void {
  const news = frame as unknown as LobbyFrame;
  setLastEventId(news.event_id);
  if (news.type === 'trunkline.lobby') {
    known.clear();
    for (const session of news.sessions) known.set(session.id, told(session));
    setLobby('byId', reconcile(bare(known)));
    setLobby({ build: news.build, total: news.total, isThere: true });
  } else {
    const { session, session_id, change } = news;
    if (session == null || change === 'deleted') {
      if (known.delete(session_id)) setLobby('total', (total) => total - 1);
      setLobby('byId', produce((byId) => { delete byId[session_id]; }));
    } else {
      if (change === 'made' && !known.has(session_id)) setLobby('total', (total) => total + 1);
      const now = told(session);
      known.set(session_id, now);
      setLobby('byId', session_id, now);
    }
  }
  setSessions([...known.values()]);
}
