// Owns the place of the client's search for a daemon in files, which a page cannot do.
export interface Place { url: string; token?: string }

/** A page knows where its daemon is. */
export function find(): never {
  throw new Error('a page does not look for a daemon');
}
