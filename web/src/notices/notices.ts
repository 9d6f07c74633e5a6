// Owns the notices of the browser while the page is open, and the marks on its tab.
import { createEffect, createRoot, createSignal, on } from 'solid-js';
import { isLive } from '../daemon/link';
import { lobby, sessions } from '../lobby/lobby';
import type { SessionSummary } from '../daemon/types';
import { choices } from '../parts/choices';
import { due, isQuiet, itemsOf, type Item } from './rules';

const shown = new Map<string, Notification | null>();
const [permission, setPermission] = createSignal<NotificationPermission | 'missing'>('Notification' in globalThis ? Notification.permission : 'missing');

/** Whether the browser lets the page show notices. */
export { permission };

/** Asks the browser for notices; only after a person asked for them. */
export async function askForNotices(): Promise<boolean> {
  if (permission() === 'missing') return false;
  setPermission(await Notification.requestPermission());
  return permission() === 'granted';
}

/** The session that the person looks at, if the page is in sight. */
function watched(): string | null {
  if (document.visibilityState !== 'visible' || !document.hasFocus()) return null;
  return /^\/s\/([0-9a-f-]+)/.exec(location.pathname)?.[1] ?? null;
}

function show(key: string, title: string, body: string, address: string): void {
  if (permission() !== 'granted' || !choices().notices || isQuiet(new Date().getHours(), choices().quiet)) {
    shown.set(key, null);
    return;
  }
  const made = new Notification(title, { body, tag: key, silent: !choices().sound, icon: '/quiet.svg' });
  made.onclick = () => {
    focus();
    dispatchEvent(new CustomEvent('trunkline-open', { detail: address }));
    made.close();
  };
  shown.set(key, made);
}

const addressOf = (item: Item): string => (item.key.startsWith('approval ') ? `/needs/${item.key.slice(9)}` : `/s/${item.sessionId}`);

function tell(): void {
  if (!lobby.isThere || !isLive()) return;
  const told = due(itemsOf(sessions()), new Set([...shown.keys()].filter((key) => !key.startsWith('done '))), Date.now(), watched());
  for (const key of told.takeBack) {
    shown.get(key)?.close();
    shown.delete(key);
  }
  if (told.together) {
    for (const item of told.show) shown.set(item.key, null);
    const last = told.show.at(-1);
    if (last !== undefined) show(last.key, `${told.show.length} need you`, '', '/needs');
    return;
  }
  for (const item of told.show) {
    if (choices().noticeContent) show(item.key, item.title, item.text, addressOf(item));
    else show(item.key, 'A session needs you', '', addressOf(item));
  }
}

/** Tells of turns that ended, where that was asked for. */
function tellDone(now: SessionSummary[], before: SessionSummary[] | undefined): void {
  if (!choices().noticeDone || before === undefined) return;
  const wasUnread = new Map(before.map((one) => [one.id, one.unread]));
  for (const one of now) {
    if (!one.unread || wasUnread.get(one.id) !== false || one.id === watched()) continue;
    const title = choices().noticeContent ? (one.title ?? one.first_prompt ?? one.cwd) : 'A turn has ended';
    show(`done ${one.id} ${one.turns}`, title, choices().noticeContent ? (one.last_line?.text ?? '') : '', `/s/${one.id}`);
  }
}

const ICONS = { needs: '/needs.svg', working: '/working.svg', quiet: '/quiet.svg', offline: '/offline.svg' } as const;

/** The tab's icon, and the number on an installed page. */
function mark(): void {
  const needs = sessions().filter((one) => one.attention != null && one.attention.rank <= 3).length;
  const isWorking = sessions().some((one) => one.state === 'busy');
  const icon = !isLive() ? ICONS.offline : needs > 0 ? ICONS.needs : isWorking ? ICONS.working : ICONS.quiet;
  const link = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  if (link !== null && link.getAttribute('href') !== icon) link.setAttribute('href', icon);
  const badge = navigator as { setAppBadge?: (n: number) => Promise<void>; clearAppBadge?: () => Promise<void> };
  void (needs > 0 ? badge.setAppBadge?.(needs) : badge.clearAppBadge?.())?.catch(() => undefined);
}

/** Begins to tell; the returned function ends it. `open` goes to an address of the page. */
export function startNotices(open: (address: string) => void): () => void {
  const onOpen = (event: Event) => open((event as CustomEvent<string>).detail);
  addEventListener('trunkline-open', onOpen);
  const timer = setInterval(tell, 10_000);
  const end = createRoot((dispose) => {
    createEffect(() => { sessions(); tell(); });
    createEffect(mark);
    createEffect(on(sessions, (now, before) => tellDone(now, before)));
    return dispose;
  });
  return () => {
    end();
    clearInterval(timer);
    removeEventListener('trunkline-open', onOpen);
  };
}
