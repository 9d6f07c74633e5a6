// Owns what a part of the page asks the daemon for and shows when it is there. It is in the place of the framework's resources:
// those hold back a change of pages until they are there, and for good when their question changes meanwhile.
import { createComputed, createMemo, createSignal, on, onCleanup, untrack, type Accessor } from 'solid-js';
import { isLive } from './link';

/** An answer: call it for the value, `undefined` before the first one. A new question keeps the old answer meanwhile. */
export interface Asked<T> {
  (): T | undefined;
  readonly loading: boolean;
  /** The error of the last question. */
  readonly error: unknown;
}

/** Asks again, or sets the answer by hand. */
export interface AskedActs<T> {
  refetch: () => Promise<void>;
  mutate: (value: T | undefined) => void;
}

type Question = string | number | boolean | object | null | undefined;

/** Asks at once. */
export function createAsked<T>(ask: () => Promise<T>): [Asked<T>, AskedActs<T>];
/** Asks whenever the question changes; nothing while it is `undefined`, `null` or `false`. */
export function createAsked<Q extends Question, T>(question: Accessor<Q>, ask: (question: Exclude<Q, null | undefined | false>) => Promise<T>): [Asked<T>, AskedActs<T>];
export function createAsked<T>(first: Accessor<unknown>, second?: (question: never) => Promise<T>): [Asked<T>, AskedActs<T>] {
  const question = createMemo<unknown>(second === undefined ? () => true : first);
  const ask = (second ?? first) as (question: unknown) => Promise<T>;
  const [state, setState] = createSignal<{ value: T | undefined; loading: boolean; error: unknown }>({ value: undefined, loading: false, error: undefined });
  // Only the newest question is answered, and none once its part of the page is gone.
  let newest = 0;
  const load = async (of: unknown): Promise<void> => {
    const mine = ++newest;
    if (of === undefined || of === null || of === false) {
      setState((before) => ({ ...before, loading: false, error: undefined }));
      return;
    }
    setState((before) => ({ ...before, loading: true, error: undefined }));
    try {
      const value = await ask(of);
      if (mine === newest) setState({ value, loading: false, error: undefined });
    } catch (error) {
      if (mine === newest) setState((before) => ({ ...before, loading: false, error }));
    }
  };
  createComputed(on(question, (of) => { untrack(() => void load(of)); }));
  // A question that failed while the daemon was away is asked again when it is back.
  createComputed(on(isLive, (live) => { if (live && untrack(state).error !== undefined) untrack(() => void load(question())); }, { defer: true }));
  onCleanup(() => { newest += 1; });
  const asked = Object.defineProperties(() => state().value, {
    loading: { get: () => state().loading },
    error: { get: () => state().error },
  }) as Asked<T>;
  return [asked, { refetch: () => load(untrack(question)), mutate: (value) => { newest += 1; setState({ value, loading: false, error: undefined }); } }];
}
