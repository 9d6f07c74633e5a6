// Owns the notices of the browser while the page is open: when they are shown, what a press on one does, and the offer to have them.
import { createEffect, createRoot, on } from 'solid-js';
import { isLive } from '../daemon/link';
import { canAct } from '../daemon/role';
import { attempt } from '../lobby/acts';
import { lobby, sessions } from '../lobby/lobby';
import { decide, ownDecision, wholeOf } from '../lobby/pending';
import { lineOf } from '../lobby/request';
import { askForNotices, hasBell, permission } from '../parts/bell';
import { choices, choose } from '../parts/choices';
import { toast } from '../parts/toasts';
import { onPress, showNotice, takeBack, type Press } from './device';
import { due, isOver, isQuiet, isSeenAt, itemsOf, type Item, type Told } from './rules';

const TELL_MS = 10_000;
/** A page without the focus waits so long: another page may show what is told. */
const YIELD_MS = 300;
/** A decision that waited longer is a reason to offer notices. */
const LONG_MS = 30_000;
const OFFER_MS = 20_000;
const STORE = 'trunkline.told';

/** The keys of all that was told, in every page of this browser. */
function stored(): string[] | null {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(STORE) ?? 'null');
    return Array.isArray(kept) ? kept.map(String) : null;
  } catch {
    return null;
  }
}

let told: string[] | null = null;

function remember(keys: string[]): void {
  if (told?.join() === keys.join()) return;
  told = keys;
  try {
    localStorage.setItem(STORE, JSON.stringify(keys));
  } catch { /* this page remembers it */ }
}

let recent: Told[] = [];
/** The items and what was seen of them when notices were taken back last. */
let cleared = '';

/** Whether a person looks at an item now. */
const isSeen = (item: Item): boolean => document.visibilityState === 'visible' && document.hasFocus() && isSeenAt(item, location.pathname);

/** The question of a request, in one line. */
async function wordsOf(item: Item): Promise<string> {
  const approval = item.approvalId === null ? undefined : await wholeOf(item.sessionId, item.approvalId).catch(() => undefined);
  if (approval === undefined) return item.text;
  const { word, text } = lineOf(approval, lobby.byId[item.sessionId]?.cwd ?? '');
  return `${word} ${text.slice(0, 200)}`.trim();
}

async function show(item: Item): Promise<void> {
  const { key, address, sessionId, approvalId } = item;
  const saysAll = choices().noticeContent;
  const title = saysAll ? item.title : item.rank === null ? 'A turn has ended' : 'A session needs you';
  const body = saysAll ? await wordsOf(item) : '';
  const deny = item.canDeny && approvalId !== null && canAct() ? { sessionId, approvalId } : null;
  await showNotice({ tag: key, title, body, keys: [key], address, deny, isSilent: !choices().sound });
  // It may have been decided while the notice was made.
  await clear();
}

const clear = (): Promise<void> => { const items = itemsOf(sessions()); return takeBack((keys) => isOver(keys, items, isSeen)); };

function tell(): void {
  if (!lobby.isThere || !isLive()) return;
  const items = itemsOf(sessions());
  const before = stored() ?? told;
  // Turns that ended before this browser first came are no news.
  const known = new Set(before ?? items.filter(({ rank }) => rank === null).map(({ key }) => key));
  const now = Date.now();
  const { show: news, together, seen } = due(items, known, recent, now, isSeen);
  const keys = items.map(({ key }) => key);
  remember(keys.filter((key) => known.has(key) || seen.includes(key) || news.some((item) => item.key === key)));
  const state = `${keys.join()} ${items.filter(isSeen).map(({ key }) => key).join()}`;
  if (state !== cleared) {
    cleared = state;
    void clear().catch(() => undefined);
  }
  if (permission() !== 'granted' || isQuiet(new Date().getHours(), choices().quiet)) return;
  const needs = new Set(items.filter(({ rank }) => rank !== null).map(({ sessionId }) => sessionId));
  const wanted = news.filter(({ rank, sessionId }) => (rank === null ? (choices().noticeDone || hasBell(sessionId)) && !needs.has(sessionId) : choices().notices));
  recent = [...recent.filter(({ at }) => now - at < LONG_MS), ...wanted.map(({ key }) => ({ key, at: now }))];
  const apart = together === null || !choices().notices ? wanted : wanted.filter(({ rank }) => rank === null);
  for (const item of apart) void show(item).catch(() => undefined);
  if (together === null || apart.length === wanted.length) return;
  // Those that were shown one by one are in this one.
  void takeBack((keys) => keys.length === 1 && together.includes(keys[0]!))
    .then(() => showNotice({ tag: 'together', title: `${together.length} need you`, body: '', keys: together, address: '/needs', deny: null, isSilent: !choices().sound }))
    .catch(() => undefined);
}

/** Offers notices, once: a decision waited long, as nobody knew of it. */
function offer(): void {
  if (permission() !== 'default' || choices().notices || choices().noticesOffered) return;
  choose({ noticesOffered: true });
  toast('It waited for you. This browser can tell you the next time.', {
    ms: OFFER_MS, act: { word: 'Tell me', run: () => { void askForNotices().then((isGranted) => { if (isGranted) choose({ notices: true }); }); } },
  });
}

/** Does what a press on a notice means. */
function answer(press: Press, open: (address: string) => void): void {
  if (press.action !== 'deny' || press.deny === null) {
    open(press.address);
    return;
  }
  void attempt(decide(press.deny.sessionId, press.deny.approvalId, { decision: 'deny' })).then((decided) => { if (decided !== undefined) toast('Denied.'); });
}

/** Begins to tell; the returned function ends it. `open` goes to an address of the page, `place` is where it is. */
export function startNotices(open: (address: string) => void, place: () => string): () => void {
  const hush = onPress((press) => answer(press, open));
  let later: ReturnType<typeof setTimeout> | undefined;
  const soon = () => {
    if (document.hasFocus()) tell();
    else later ??= setTimeout(() => { later = undefined; tell(); }, YIELD_MS);
  };
  const timer = setInterval(soon, TELL_MS);
  document.addEventListener('visibilitychange', soon);
  addEventListener('focus', soon);
  const end = createRoot((dispose) => {
    createEffect(() => { sessions(); place(); permission(); choices(); isLive(); soon(); });
    createEffect(on(ownDecision, (made) => { if (made !== undefined && made.waitedMs > LONG_MS) offer(); }, { defer: true }));
    return dispose;
  });
  return () => {
    end();
    hush();
    clearInterval(timer);
    clearTimeout(later);
    document.removeEventListener('visibilitychange', soon);
    removeEventListener('focus', soon);
  };
}
