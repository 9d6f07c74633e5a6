// Owns what a person has filled in and not sent yet: it outlives a reload of the page, and goes once it is sent.
import { createStore, type SetStoreFunction } from 'solid-js/store';
import { createEffect } from 'solid-js';

const PLACE = 'trunkline.answer.';
const nameOf = (id: string): string => `${PLACE}${id}`;

/** A store for what is filled in for one request. */
export function keptStore<T extends object>(id: string, fresh: T): [T, SetStoreFunction<T>] {
  const [state, setState] = createStore<T>(read(id, fresh));
  createEffect(() => {
    const text = JSON.stringify(state);
    try {
      sessionStorage.setItem(nameOf(id), text);
    } catch { /* what is filled in lasts as long as the page */ }
  });
  return [state, setState];
}

function read<T extends object>(id: string, fresh: T): T {
  try {
    const text = sessionStorage.getItem(nameOf(id));
    return text === null ? fresh : { ...fresh, ...JSON.parse(text) as Partial<T> };
  } catch {
    return fresh;
  }
}

/** Forgets what was filled in. */
export function forgetKept(id: string): void {
  try {
    sessionStorage.removeItem(nameOf(id));
  } catch { /* nothing was kept */ }
}

/** Forgets all that was filled in. */
export function forgetAllKept(): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(PLACE)) sessionStorage.removeItem(name);
  } catch { /* nothing was kept */ }
}
