// Owns whether the browser lets the page show notices, and of which sessions a person wants to hear that a turn has ended.
import { createSignal } from 'solid-js';
import { choices, choose } from './choices';
import { toast } from './toasts';

const MOST_BELLS = 200;

const [permission, setPermission] = createSignal<NotificationPermission | 'missing'>('Notification' in globalThis ? Notification.permission : 'missing');

/** Whether the browser lets the page show notices. */
export { permission };

/** Asks the browser for notices; only after a person asked for them. */
export async function askForNotices(): Promise<boolean> {
  if (permission() === 'missing') return false;
  setPermission(await Notification.requestPermission());
  return permission() === 'granted';
}

/** Whether a person wants to hear of this session. */
export const hasBell = (sessionId: string): boolean => choices().bells.includes(sessionId);

/** Begins to tell when a turn of this session has ended, or tells it no more. */
export async function turnBell(sessionId: string): Promise<void> {
  const others = choices().bells.filter((id) => id !== sessionId);
  if (hasBell(sessionId)) {
    choose({ bells: others });
  } else if (permission() === 'granted' || await askForNotices()) {
    choose({ bells: [...others, sessionId].slice(-MOST_BELLS) });
    toast('This browser tells you when a turn of it has ended.');
  } else toast('This browser shows no notices of this page.', { isProblem: true });
}
