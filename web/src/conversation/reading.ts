// Owns how the reader has the transcript: what is open, which row is the current one, what is new, and which turns are folded.
import { createContext, createSignal, useContext, type Accessor } from 'solid-js';

/** The reader's place and choices, for as long as the conversation is open. */
export interface Reading {
  /** The rows that the reader opened or folded, by their keys. */
  isOpen(key: string, byItself: boolean): boolean;
  setOpen(key: string, isOpen: boolean): void;
  chosen: Accessor<ReadonlyMap<string, boolean>>;
  /** The row on which keys act. */
  current: Accessor<string | null>;
  setCurrent(key: string | null): void;
  /** Long lines wrap. */
  wraps: Accessor<boolean>;
  toggleWraps(): void;
}

export const ReadingContext = createContext<Reading>();

/** The reading of this transcript. */
export function useReading(): Reading {
  const found = useContext(ReadingContext);
  if (found === undefined) throw new Error('outside of a transcript');
  return found;
}

/** A fresh reading. */
export function createReading(): Reading {
  const [chosen, setChosen] = createSignal<ReadonlyMap<string, boolean>>(new Map());
  const [current, setCurrent] = createSignal<string | null>(null);
  const [wraps, setWraps] = createSignal(matchMedia('(max-width: 599px)').matches);
  return {
    chosen, current, setCurrent, wraps,
    isOpen: (key, byItself) => chosen().get(key) ?? byItself,
    setOpen: (key, isOpen) => { setChosen((all) => new Map(all).set(key, isOpen)); },
    toggleWraps: () => { setWraps((on) => !on); },
  };
}
