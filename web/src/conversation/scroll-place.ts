// Owns the reader's place in a conversation over a reload of the page: the record at the top, where one was not at the end.

const nameOf = (id: string): string => `trunkline.place/${id}`;

/** A place: the row at the top, its record, and how far below the top it begins. */
export interface ScrollPlace { key: string; seq: number; below: number }

/** Keeps a place; `null`: the end, which needs none. */
export function keepPlace(id: string, place: ScrollPlace | null): void {
  try {
    if (place === null) sessionStorage.removeItem(nameOf(id));
    else sessionStorage.setItem(nameOf(id), JSON.stringify(place));
  } catch { /* without storage a reload goes to the end */ }
}

/** Takes what was kept, once; `null`: nothing was. */
export function takePlace(id: string): ScrollPlace | null {
  try {
    const kept = sessionStorage.getItem(nameOf(id));
    sessionStorage.removeItem(nameOf(id));
    return kept === null ? null : JSON.parse(kept) as ScrollPlace;
  } catch {
    return null;
  }
}
