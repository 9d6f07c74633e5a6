// Owns the careful reading of JSON that others wrote: members are there with the wanted type, or they are not there.

/** An object of JSON. */
export type Raw = Record<string, unknown>;

export const isRaw = (value: unknown): value is Raw => typeof value === 'object' && value !== null && !Array.isArray(value);
/** The object, or an empty one. */
export const raw = (value: unknown): Raw => (isRaw(value) ? value : {});
/** The text, or an empty one. */
export const str = (value: unknown): string => (typeof value === 'string' ? value : '');
export const strOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);
export const numOrNull = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);
/** The list, or an empty one. */
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
/** The entry of a table under a name that others chose; nothing under `constructor` and the like, which every object has. */
export const entryOf = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined => (Object.hasOwn(table, name) ? table[name] : undefined);
