// Owns what a person has filled in and not sent yet: it outlives a reload and the tab, and goes once it is sent, or after a while.
import { createStore, type SetStoreFunction } from 'solid-js/store';
import { createEffect } from 'solid-js';

const PLACE = 'trunkline.answer.';
const nameOf = (id: string): string => `${PLACE}${id}`;
/** Answers to requests that ended elsewhere are in nobody's way for so long. */
const KEPT_MS = 7 * 86_400_000;

interface Kept { at: number; state: object }

/** A store for what is filled in for one request. */
export function keptStore<T extends object>(id: string, fresh: T): [T, SetStoreFunction<T>] {
  const untouched = JSON.stringify(fresh);
  const [state, setState] = createStore<T>({ ...fresh, ...read(nameOf(id))?.state });
  createEffect(() => {
    const text = JSON.stringify(state);
    try {
      if (text === untouched) localStorage.removeItem(nameOf(id));
      else localStorage.setItem(nameOf(id), `{"at":${Date.now()},"state":${text}}`);
    } catch { /* what is filled in lasts as long as the page */ }
  });
  return [state, setState];
}

function read(name: string): Kept | null {
  try {
    const kept = JSON.parse(localStorage.getItem(name) ?? 'null') as Partial<Kept> | null;
    return typeof kept?.at === 'number' && typeof kept.state === 'object' && kept.state !== null ? { at: kept.at, state: kept.state } : null;
  } catch {
    return null;
  }
}

function forget(isMeant: (name: string) => boolean): void {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith(PLACE) && isMeant(name)) localStorage.removeItem(name);
  } catch { /* nothing was kept */ }
}

/** Forgets what was filled in. */
export const forgetKept = (id: string): void => forget((name) => name === nameOf(id));

/** Forgets all that was filled in. */
export const forgetAllKept = (): void => forget(() => true);

forget((name) => Date.now() - (read(name)?.at ?? 0) > KEPT_MS);
