// Owns times, durations, money and sizes in words. Times are relative below a day, and exact on hover.
import { createSignal } from 'solid-js';

const [now, setNow] = createSignal(Date.now());
setInterval(() => setNow(Date.now()), 1_000);

/** The present, once a second. */
export { now };

/** Makes something when it is first asked for, and keeps it. A formatter takes longer to make than to use. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

const dates = once(() => new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' }));
const exactTimes = once(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }));
const counts = once(() => new Intl.NumberFormat());

const millis = (at: string | number): number => (typeof at === 'number' ? at : Date.parse(at));

/** How long it is: `12 s`, `4 min`, `2:10 h`, `3 d`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)}:${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} h`;
  return `${Math.floor(s / 86_400)} d`;
}

/** How long something has run: `0:41`, `12:05`, `1:02:05`. */
export function clock(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const rest = `${String(Math.floor((s % 3600) / 60)).padStart(s >= 3600 ? 2 : 1, '0')}:${String(s % 60).padStart(2, '0')}`;
  return s >= 3600 ? `${Math.floor(s / 3600)}:${rest}` : rest;
}

/** When it was: relative below a day, else the date. */
export function ago(at: string | number): string {
  const ms = now() - millis(at);
  if (ms < 86_400_000) return ms < 5_000 ? 'now' : span(ms);
  return dates().format(millis(at));
}

/** The exact time, for hover and long press. */
export const exact = (at: string | number): string => exactTimes().format(millis(at));

/** Money: `$0.004`, `$0.42`, `$12.40`. */
export function money(usd: number): string {
  if (usd === 0) return '$0';
  return `$${usd < 0.01 ? usd.toPrecision(1) : usd.toFixed(2)}`;
}

/** A count with its groups. */
export const count = (n: number): string => counts().format(n);

/** Bytes: `812 B`, `64 kB`, `12 MB`. */
export function bytes(n: number): string {
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]] as const) {
    if (n >= size) return `${(n / size).toPrecision(n / size < 10 ? 2 : 3).replace(/\.0$/, '')} ${unit}`;
  }
  return `${n} B`;
}

/** One thing or several: `many(3, 'file')` is `3 files`. */
export const many = (n: number, one: string, other = `${one}s`): string => `${count(n)} ${n === 1 ? one : other}`;
