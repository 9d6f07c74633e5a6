// Owns the one socket of the page (`/v1/ws`): it comes back by itself, goes on where it was, and says honestly whether it is
// live. The lobby and the open conversations ride on it.
import { createSignal } from 'solid-js';
import { ticket } from './daemon';
import { loginKey } from './login';

/** A frame of the daemon, with `type`, or a record, with `seq`. */
export type Frame = { [member: string]: unknown; type?: string; session_id?: string; seq?: number };

/** How the connection is. */
export type Connection =
  | { kind: 'connecting'; since: number }
  | { kind: 'live'; since: number }
  | { kind: 'lost'; since: number; tryAt: number };

/** Somebody who takes part in the socket. */
export interface Rider {
  /** The lines with which it begins on a new connection. */
  greeting(): object[];
  /** Whether a frame is its own. */
  takes(frame: Frame): boolean;
  /** `size`: how many characters it has. */
  frame(frame: Frame, size: number): void;
  /** The connection is lost; another greeting follows when it is back. */
  lost?(): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const PING_MS = 15_000;
const PONG_MS = 5_000;
/** The daemon closes with it when the login has ended. */
const LOGIN_ENDED = 4401;

const [connection, setConnection] = createSignal<Connection>({ kind: 'connecting', since: Date.now() });
const riders = new Set<Rider>();
let socket: WebSocket | undefined;
let pause = FIRST_PAUSE_MS;
let retry: ReturnType<typeof setTimeout> | undefined;
let pings: ReturnType<typeof setInterval> | undefined;
let pong: ReturnType<typeof setTimeout> | undefined;
let attempt = 0;
/** A browser does not say why a socket was refused: the next try asks for a ticket first, and hears whether the login has ended. */
let asksFirst = false;
/** When the daemon said something last. */
let heardAt = 0;

export { connection };

/** Whether the page shows the present, and may decide. */
export const isLive = (): boolean => connection().kind === 'live';

/** Takes part in the socket until the returned function is called. */
export function ride(rider: Rider): () => void {
  riders.add(rider);
  if (isLive()) for (const line of rider.greeting()) send(line);
  return () => { riders.delete(rider); };
}

/** Sends a line; `false`: the socket is not there, and nothing was sent. */
export function send(line: object): boolean {
  if (socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(line));
  return true;
}

/** Begins, or tries again at once. */
export function connect(): void {
  clearTimeout(retry);
  retry = undefined;
  if (socket !== undefined || loginKey() === null) return;
  void open();
}

/** Leaves, as at a sign-out. */
export function disconnect(): void {
  clearTimeout(retry);
  attempt += 1;
  lose(false);
}

async function open(): Promise<void> {
  const mine = ++attempt;
  let made: WebSocket;
  try {
    const url = new URL('/v1/ws', location.origin);
    url.protocol = url.protocol.replace('http', 'ws');
    const shown = asksFirst ? `ticket.${await ticket('/v1/ws')}` : `login.${loginKey() ?? ''}`;
    if (mine !== attempt) return;
    made = new WebSocket(url, ['trunkline.v1', shown]);
  } catch {
    if (mine === attempt) lose(true);
    return;
  }
  socket = made;
  asksFirst = true;
  const watch = setTimeout(() => { if (socket === made && made.readyState !== WebSocket.OPEN) lose(true); }, PING_MS);
  made.onopen = () => {
    clearTimeout(watch);
    if (socket !== made) return;
    pause = FIRST_PAUSE_MS;
    asksFirst = false;
    setConnection({ kind: 'live', since: Date.now() });
    for (const rider of riders) for (const line of rider.greeting()) send(line);
    pings = setInterval(ping, PING_MS);
  };
  made.onmessage = ({ data }: MessageEvent<string>) => {
    if (socket !== made) return;
    heardAt = Date.now();
    clearTimeout(pong);
    pong = undefined;
    for (const line of data.includes('\n') ? data.split('\n') : [data]) {
      if (line === '') continue;
      const frame = JSON.parse(line) as Frame;
      for (const rider of riders) if (rider.takes(frame)) rider.frame(frame, line.length);
    }
  };
  made.onclose = ({ code }) => {
    clearTimeout(watch);
    if (code === LOGIN_ENDED) asksFirst = true;
    if (socket === made) lose(true);
  };
}

/** A socket that says nothing is dead, whatever the browser believes. */
function ping(): void {
  if (pong !== undefined || !send({ type: 'trunkline.ping', id: Date.now() })) return;
  pong = setTimeout(() => { pong = undefined; lose(true, heardAt); }, PONG_MS);
}

/** `at`: until when the page showed the present. */
function lose(comesBack: boolean, at = Date.now()): void {
  const old = socket;
  socket = undefined;
  clearInterval(pings);
  clearTimeout(pong);
  pong = undefined;
  if (old !== undefined) {
    old.onclose = null;
    old.onmessage = null;
    old.close();
  }
  for (const rider of riders) rider.lost?.();
  if (!comesBack || loginKey() === null) {
    setConnection({ kind: 'connecting', since: Date.now() });
    return;
  }
  const before = connection();
  const since = before.kind === 'lost' ? before.since : at;
  setConnection({ kind: 'lost', since, tryAt: Date.now() + pause });
  retry = setTimeout(connect, pause);
  pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
}

const awake = () => {
  if (document.visibilityState !== 'visible') return;
  if (socket === undefined) { if (connection().kind === 'lost') connect(); } else ping();
};
addEventListener('online', awake);
addEventListener('focus', awake);
document.addEventListener('visibilitychange', awake);
