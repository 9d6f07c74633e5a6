// Owns what the list shows now: filter, folded groups, the row of the keys, selected rows, and whether it holds still.
import { useLocation, useNavigate } from '@solidjs/router';
import { createEffect, createMemo, createRoot, createSignal } from 'solid-js';
import { lobby, sessions } from '../lobby/lobby';
import { deleting } from './actions';
import { NO_FILTER, filterOf, matches, searchOf, type Filter } from './filter';
import { areSameLines, heldLines, linesOf, type Held, type Line } from './lines';
import { arrange, type GroupName } from '../lobby/order';

const FOLDED = 'trunkline.folded';

function storedFolds(): Set<GroupName> {
  try {
    return new Set(JSON.parse(localStorage.getItem(FOLDED) ?? '["at-rest"]') as GroupName[]);
  } catch {
    return new Set(['at-rest']);
  }
}

const [filter, setFilterSignal] = createSignal<Filter>(NO_FILTER);
const [folded, setFolded] = createSignal<ReadonlySet<GroupName>>(storedFolds());
const [cursor, setCursor] = createSignal<string | null>(null);
const [picked, setPicked] = createSignal<ReadonlySet<string>>(new Set());
const [isHeld, setHeld] = createSignal(false);
const [sorts, setSorts] = createSignal(0);

export { filter, folded, cursor, setCursor, picked, isHeld, setHeld };

/** Sorts a list that holds still. */
export const sortNow = (): void => { setSorts((n) => n + 1); };

/** Folds a group, or opens it; kept in this browser. */
export function fold(group: GroupName): void {
  const next = new Set(folded());
  if (!next.delete(group)) next.add(group);
  setFolded(next);
  try {
    localStorage.setItem(FOLDED, JSON.stringify([...next]));
  } catch { /* it lasts as long as the page */ }
}

/** Selects a row for what is done with many, or takes it out. */
export function pick(id: string): void {
  const next = new Set(picked());
  if (!next.delete(id)) next.add(id);
  setPicked(next);
}

/** Selects nothing any more. */
export const pickNone = (): void => { setPicked(new Set<string>()); };

/** The sessions that the filter lets through, without those that are being deleted. */
export const found = createRoot(() => createMemo(() => sessions().filter((one) => !deleting().has(one.id) && matches(one, filter()))));

const wanted = createRoot(() => createMemo<Line[]>(() => {
  // A filter that names a state, or words, is asked for: then nothing is folded away.
  const none = filter().q !== '' || filter().state !== '';
  return linesOf(arrange(found()), none ? new Set() : folded());
}, [], { equals: areSameLines }));

/** The lines as they are shown, and how many rows would stand elsewhere. */
export const held = createRoot(() => createMemo<Held & { own: unknown[] }>((before) => {
  // The person's own changes of the list hold at once.
  const own = [filter(), folded(), sorts()];
  const lines = wanted();
  const isSame = before !== undefined && own.every((value, at) => value === before.own[at]);
  if (!isHeld() || !isSame) return { lines, moved: 0, own };
  return { ...heldLines(before.lines, lines, (id) => lobby.byId[id] !== undefined && !deleting().has(id)), own };
}, undefined as unknown as Held & { own: unknown[] }));

/** Keeps the filter in the address while the list is the page; the returned function changes it. */
export function useFilter(): (change: Partial<Filter>) => void {
  const location = useLocation();
  const navigate = useNavigate();
  createEffect(() => {
    if (location.pathname === '/') setFilterSignal(filterOf(location.search));
  });
  return (change) => {
    const next = { ...filter(), ...change };
    setFilterSignal(next);
    if (location.pathname === '/') navigate(`/${searchOf(next)}`, { replace: true, scroll: false });
  };
}
