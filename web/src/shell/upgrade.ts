// Owns the reload of a page whose files are older than the daemon: only between turns, with nothing open and nothing being
// written. Drafts are in the browser's database, and the transcript keeps its place over a reload.
import { createEffect, createRoot, createSignal, on } from 'solid-js';
import { isLive } from '../daemon/link';
import { lobby } from '../lobby/lobby';
import { lastKey } from '../parts/keys';
import { now } from '../parts/time';

/** A person who pressed a key so recently is not disturbed. */
const QUIET_MS = 3_000;

const [isOld, setOld] = createSignal(false);

/** Whether the daemon has newer files than this page. */
export { isOld };

/** The start of the page in its HTML; its name is another one in another build. */
export const entryOf = (html: string): string | undefined => /<script\b[^>]*\bsrc="([^"]+)"/.exec(html)?.[1];

/** Whether a page may be loaded anew now, as far as the page itself can tell. */
export function mayReload(page: { isTurnRunning: boolean; isLayerOpen: boolean; msSinceKey: number; isLive: boolean }): boolean {
  return page.isLive && !page.isTurnRunning && !page.isLayerOpen && page.msSinceKey > QUIET_MS;
}

/** Loads the page anew. */
export const reload = (): void => { location.reload(); };

async function hasOtherFiles(): Promise<boolean> {
  try {
    const answer = await fetch('/', { cache: 'no-cache' });
    const there = answer.ok ? entryOf(await answer.text()) : undefined;
    const here = document.querySelector('script[type="module"][src]')?.getAttribute('src');
    return there !== undefined && here != null && there !== here;
  } catch {
    return false;
  }
}

const isTurnRunning = (): boolean => {
  const id = /^\/s\/([^/]+)/.exec(location.pathname)?.[1];
  const session = id === undefined ? undefined : lobby.byId[id];
  return session !== undefined && (session.turn != null || session.state === 'busy' || session.state === 'waiting');
};

/** Watches for another build of the daemon until the returned function is called. */
export function watchUpgrade(): () => void {
  return createRoot((end) => {
    let known: string | null = null;
    createEffect(on(() => lobby.build, (build) => {
      if (build === null) return;
      const isOther = known !== null && known !== build;
      known = build;
      if (isOther) void hasOtherFiles().then(setOld);
    }));
    createEffect(() => {
      if (!isOld()) return;
      now();
      const page = {
        isTurnRunning: isTurnRunning(), isLayerOpen: document.querySelector('[role="dialog"], [role="menu"]') !== null,
        msSinceKey: performance.now() - lastKey(), isLive: isLive(),
      };
      if (mayReload(page)) reload();
    });
    return end;
  });
}
