// Owns who else has a conversation open: other browsers and programs, as the daemon tells on the conversation's part of the socket.
import { createSignal, onCleanup, type Accessor } from 'solid-js';
import { ride } from '../daemon/link';
import type { AttachedClient } from '../daemon/types';

const FRAMES = new Set<unknown>(['trunkline.snapshot', 'trunkline.clients']);

/** The others that have this conversation open; it ends with the component. */
export function watchCompany(sessionId: string): Accessor<AttachedClient[]> {
  const [all, setAll] = createSignal<AttachedClient[]>([]);
  const [own, setOwn] = createSignal<unknown>(null);
  onCleanup(ride({
    greeting: () => [],
    takes: (frame) => FRAMES.has(frame.type) && frame.session_id === sessionId,
    frame: (frame) => {
      // A snapshot begins another connection, which has another id.
      if (frame.type === 'trunkline.snapshot') setOwn(frame.connection_id);
      setAll((frame.clients as AttachedClient[] | undefined) ?? []);
    },
    lost: () => { setAll([]); },
  }));
  return () => all().filter((one) => one.connection_id !== own());
}

/** The others in words, each name once: `Chrome on Android, editor (2)`. */
export function companyWords(others: readonly AttachedClient[]): string {
  const times = new Map<string, number>();
  for (const one of others) {
    const name = `${one.login ?? one.client_id ?? 'a program'}${one.role === 'viewer' ? ', which only watches' : ''}`;
    times.set(name, (times.get(name) ?? 0) + 1);
  }
  return [...times].map(([name, n]) => (n === 1 ? name : `${name} (${n})`)).join('; ');
}
