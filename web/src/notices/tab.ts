// Owns the marks of the page's tab: its icon, and the number on an installed page.
import { createEffect, createRoot } from 'solid-js';
import { isLive } from '../daemon/link';
import { sessions } from '../lobby/lobby';
import { needing } from '../lobby/needing';

const ICONS = { needs: '/needs.svg', working: '/working.svg', quiet: '/quiet.svg', offline: '/offline.svg' } as const;

function mark(): void {
  const needs = needing();
  const isWorking = sessions().some((one) => one.state === 'busy');
  const icon = !isLive() ? ICONS.offline : needs > 0 ? ICONS.needs : isWorking ? ICONS.working : ICONS.quiet;
  const link = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  if (link !== null && link.getAttribute('href') !== icon) link.setAttribute('href', icon);
  const badge = navigator as { setAppBadge?: (n: number) => Promise<void>; clearAppBadge?: () => Promise<void> };
  void (needs > 0 ? badge.setAppBadge?.(needs) : badge.clearAppBadge?.())?.catch(() => undefined);
}

/** Begins to mark the tab; the returned function ends it. */
export const markTab = (): (() => void) => createRoot((dispose) => {
  createEffect(mark);
  return dispose;
});
