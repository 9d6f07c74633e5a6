// Owns the keys: parts of the page say which ones they take, and the newest layer comes first. Letters count outside of text
// fields alone, and never with a key of an input method.
import { createSignal, onCleanup, useContext } from 'solid-js';
import { PaneContext } from './pane';

/** A key and its work. `keys` is such as `a`, `Shift S`, `Ctrl k`, `g s`, `Escape`. */
export interface Binding {
  keys: string;
  /** The word of the button that does the same. */
  word: string;
  /** Returns `false` to let the key pass on. */
  run: (event: KeyboardEvent) => void | boolean;
  /** Works in text fields too; only for keys that write nothing. */
  inText?: boolean;
}

/** Where a set of keys holds: what `?` shows as its heading. */
export interface Place {
  name: string;
  bindings: Binding[];
  /** Whether its keys work now. Without it they work for as long as it is there. */
  works?: () => boolean;
  /** Whether it comes before places that are newer, such as a list that has the focus. */
  isFirst?: () => boolean;
  /** Whether it is a layer: keys of places before it do nothing while it works. */
  isLayer?: boolean;
}

// A list beside the signal that tells of it: what is written to a signal while one page gives way to another may be taken back at
// the end of that, and a dialog that has gone would hold the keys of the page for good.
let held: readonly Place[] = [];
const [version, setVersion] = createSignal(0);

/** All places that are on the page, the newest last. */
export function places(): readonly Place[] {
  version();
  return held;
}

function hold(next: readonly Place[]): void {
  held = next;
  setVersion((n) => n + 1);
}

const [lettersOn, setLettersOn] = createSignal(stored('trunkline.letters') !== 'off');
const [changed, setChanged] = createSignal<Record<string, string>>(JSON.parse(stored('trunkline.keys') ?? '{}') as Record<string, string>);

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch { /* the choice lasts as long as the page */ }
}

export { lettersOn, changed as changedKeys };

/** Turns single letters on or off. */
export function useLetters(on: boolean): void {
  store('trunkline.letters', on ? 'on' : 'off');
  setLettersOn(on);
}

/** Gives a piece of work another key; an empty one turns it off, `null` goes back. */
export function changeKey(word: string, keys: string | null): void {
  const next = { ...changed() };
  if (keys === null) delete next[word]; else next[word] = keys;
  store('trunkline.keys', JSON.stringify(next));
  setChanged(next);
}

/** The keys of a binding as the person has them. */
export const keysOf = (binding: Pick<Binding, 'keys' | 'word'>): string => changed()[binding.word] ?? binding.keys;

/** Keys as people read them: `Ctrl k` is `Ctrl K`. */
export const asRead = (keys: string): string => keys.replace(/^(Ctrl|Alt) (.)$/, (_, held: string, key: string) => `${held} ${key.toUpperCase()}`)
  .replace('Escape', 'Esc').replace('ArrowDown', '↓').replace('ArrowUp', '↑');

/** The keys of a piece of work as a hint beside its button, by the word and the keys of its binding. Empty: no key does it now. */
export function hintOf(word: string, keys: string): string {
  const own = keysOf({ word, keys });
  const isLetters = own.split(' ').every((key) => key === 'Shift' || key.length === 1);
  return isLetters && !lettersOn() ? '' : asRead(own);
}

/** The title of a button with the hint of its keys: `Model (M)`. */
export function titleWith(title: string, word: string, keys: string): string {
  const hint = hintOf(word, keys);
  return hint === '' ? title : `${title} (${hint})`;
}

/** Holds a set of keys as long as the component is there. On a page that is split the half that a person is in has its keys. */
export function useKeys(name: string, bindings: Binding[], when: Pick<Place, 'works' | 'isFirst' | 'isLayer'> = {}): void {
  const pane = useContext(PaneContext);
  const works = () => (pane?.isActive() ?? true) && (when.works?.() ?? true);
  const place: Place = { name, bindings, ...when, works };
  hold([...held, place]);
  onCleanup(() => hold(held.filter((other) => other !== place)));
}

/** The places whose keys work now; of two that take a key the later one gets it. */
export function placesNow(): Place[] {
  const all = places().filter((place) => place.works?.() ?? true);
  const layer = all.findLastIndex((place) => place.isLayer === true);
  const working = layer < 0 ? all : all.slice(layer);
  const isFirst = (place: Place): boolean => place.isFirst?.() ?? false;
  return [...working.filter((place) => !isFirst(place)), ...working.filter(isFirst)];
}

/** Whether a key writes nothing and does nothing by itself: it is held for another one. */
export const isModifier = (key: string): boolean => key === 'Shift' || key === 'Control' || key === 'Alt' || key === 'Meta';

let lastKeyAt = 0;
/** When a key was pressed last, in milliseconds of `performance.now()`. */
export const lastKey = (): number => lastKeyAt;

let prefix: string | null = null;
let prefixTimer: ReturnType<typeof setTimeout> | undefined;

const isText = (target: EventTarget | null): boolean => target instanceof HTMLElement
  && (target.isContentEditable || target.matches('textarea, select, input:not([type=checkbox], [type=radio], [type=button])'));

function pressed(event: KeyboardEvent): string {
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push('Ctrl');
  if (event.altKey) parts.push('Alt');
  const isLetter = event.key.length === 1;
  if (event.shiftKey && (!isLetter || parts.length > 0 || /[A-Z]/.test(event.key))) parts.push('Shift');
  parts.push(isLetter && parts.length > 0 ? event.key.toLowerCase() : event.key);
  return parts.join(' ');
}

/** `Shift S` and `S` are the same key. */
const normal = (keys: string): string => keys.replace(/^Shift ([A-Z])$/, '$1').replace(/^Shift ([a-z])$/, (_, letter: string) => letter.toUpperCase());

function onKey(event: KeyboardEvent): void {
  if (event.isComposing || event.keyCode === 229) return;
  const before = prefix;
  prefix = null;
  clearTimeout(prefixTimer);
  const inText = isText(event.target);
  const key = normal(pressed(event));
  const isLetter = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (!event.defaultPrevented && !(isLetter && !lettersOn())) {
    const wanted = before === null ? key : `${before} ${key}`;
    for (const place of placesNow().reverse()) {
      for (const binding of place.bindings) {
        const keys = normal(keysOf(binding));
        if (keys === wanted && (!inText || binding.inText === true)) {
          if (binding.run(event) !== false) {
            event.preventDefault();
            lastKeyAt = performance.now();
            return;
          }
        } else if (!inText && before === null && keys.startsWith(`${key} `)) {
          prefix = key;
        }
      }
    }
    if (prefix !== null) prefixTimer = setTimeout(() => { prefix = null; }, 1000);
  }
  if (!isModifier(event.key)) lastKeyAt = performance.now();
}

addEventListener('keydown', onKey);
