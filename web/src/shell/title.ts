// Owns the title of the tab: how many sessions need a person, and the session or the page that is open.
import type { SessionSummary } from '../daemon/types';
import { titleOf } from '../lobby/words';
import { spelledOut } from '../text/hostile';

/** The most characters of a session's title: a tab shows far fewer. */
const MOST_CHARACTERS = 80;

const PAGES: Record<string, string> = { watch: 'Watch', usage: 'Usage', health: 'Health', settings: 'Settings' };

/** The session that an address is about. */
export const sessionIn = (path: string): string | undefined => /^\/s\/([^/]+)/.exec(path)?.[1];

/** The title at an address, where `needs` sessions need a person. */
export function tabTitle(path: string, needs: number, session: SessionSummary | undefined): string {
  const page = path.split('/')[1] ?? '';
  const name = session === undefined ? (Object.hasOwn(PAGES, page) ? PAGES[page] : undefined) : shortened(titleOf(session));
  return [needs > 0 ? `(${needs}) Needs you` : undefined, name, 'Trunkline'].filter((part) => part !== undefined).join(' · ');
}

function shortened(title: string): string {
  const characters = [...spelledOut(title)];
  return characters.length <= MOST_CHARACTERS ? characters.join('') : `${characters.slice(0, MOST_CHARACTERS - 1).join('')}…`;
}
