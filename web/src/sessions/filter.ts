// Owns the filter of the list, as it stands in the address: `?q=&state=&project=&tag=`.
import type { SessionSummary } from '../daemon/types';
import { GROUPS, groupOf, type GroupName } from '../lobby/order';

/** The conditions of a search; an empty text is none. */
export interface Filter { q: string; state: GroupName | ''; project: string; tag: string }

/** No condition at all. */
export const NO_FILTER: Filter = { q: '', state: '', project: '', tag: '' };

/** Reads the filter of an address. */
export function filterOf(search: string): Filter {
  const query = new URLSearchParams(search);
  const state = GROUPS.find(({ name }) => name === query.get('state'))?.name ?? '';
  return { q: query.get('q') ?? '', state, project: query.get('project') ?? '', tag: query.get('tag') ?? '' };
}

/** Writes it, so that the address is short. */
export function searchOf(filter: Filter): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) if (value !== '') query.set(name, String(value));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** Whether there is no condition. */
export const isEmpty = (filter: Filter): boolean => Object.values(filter).every((value) => value === '');

/** Whether a session meets every condition; each word of `q` is looked for in all that a row can show. */
export function matches(session: SessionSummary, filter: Filter): boolean {
  if (filter.state !== '' && groupOf(session) !== filter.state) return false;
  if (filter.project !== '' && session.cwd !== filter.project) return false;
  if (filter.tag !== '' && session.tag !== filter.tag) return false;
  if (filter.q.trim() === '') return true;
  const labels = Object.entries(session.labels).map(([key, value]) => `${key}=${value}`).join(' ');
  const text = [session.title, session.first_prompt, session.last_prompt, session.cwd, session.last_line?.text, session.tag, session.model, session.id, labels]
    .join('\n').toLowerCase();
  return filter.q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** A filter in words, for a list that has nothing to show. */
export function inWords(filter: Filter): string {
  const words: string[] = [];
  if (filter.q !== '') words.push(`"${filter.q}"`);
  if (filter.state !== '') words.push(GROUPS.find(({ name }) => name === filter.state)?.word ?? filter.state);
  if (filter.project !== '') words.push(filter.project);
  if (filter.tag !== '') words.push(`the tag ${filter.tag}`);
  return words.join(', ');
}
