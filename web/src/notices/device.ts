// Owns how a notice is put on the screen, pressed and taken back: by the service worker where there is one, as phones know no other
// way and buttons need it; else by the page itself.
/** A notice. */
export interface Notice {
  /** A notice of the same tag takes the place of the one before. */
  tag: string;
  title: string;
  body: string;
  isSilent: boolean;
  /** The items that it tells of. */
  keys: string[];
  /** Where a press leads. */
  address: string;
  /** The request that its button Deny is about; `null`: it has no buttons. */
  deny: { sessionId: string; approvalId: string } | null;
}

/** A press on a notice, or on one of its buttons. */
export interface Press { action: string; address: string; deny: Notice['deny'] }

/** The name of the messages by which the service worker tells of a press. */
const PRESS = 'trunkline-notice';

const worker = async (): Promise<ServiceWorkerRegistration | undefined> => {
  const found = await navigator.serviceWorker?.getRegistration();
  return found?.active ? found : undefined;
};

/** The notices of pages that have no service worker. */
let own: Notification[] = [];
const presses = new Set<(press: Press) => void>();

/** Shows a notice. */
export async function showNotice(notice: Notice): Promise<void> {
  const { tag, title, body, keys, address, deny } = notice;
  const data = { keys, address, deny };
  const options = { body, tag, data, silent: notice.isSilent, icon: '/icon-192.png' };
  const registration = await worker();
  if (registration !== undefined) {
    const actions = deny === null ? [] : [{ action: 'deny', title: 'Deny' }, { action: 'review', title: 'Review' }];
    await registration.showNotification(title, { ...options, actions } as NotificationOptions);
    return;
  }
  const made = new Notification(title, options);
  own = [...own.filter((one) => one.tag !== tag), made];
  made.onclick = () => {
    focus();
    made.close();
    for (const listener of presses) listener({ action: '', address, deny });
  };
}

/** Takes back each notice of which `isOver` says so. */
export async function takeBack(isOver: (keys: readonly string[]) => boolean): Promise<void> {
  const registration = await worker();
  for (const one of [...(await registration?.getNotifications() ?? []), ...own]) {
    const { keys } = (one.data ?? {}) as Partial<Notice>;
    if (Array.isArray(keys) && isOver(keys)) one.close();
  }
  own = own.filter((one) => !isOver((one.data as Notice).keys));
}

/** Hears of presses until the returned function is called. */
export function onPress(listener: (press: Press) => void): () => void {
  const hear = ({ data }: MessageEvent) => { if ((data as { type?: unknown } | null)?.type === PRESS) listener(data as Press); };
  presses.add(listener);
  navigator.serviceWorker?.addEventListener('message', hear);
  return () => {
    presses.delete(listener);
    navigator.serviceWorker?.removeEventListener('message', hear);
  };
}
