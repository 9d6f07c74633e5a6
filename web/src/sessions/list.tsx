// Owns the list of sessions: its lines, its keys, and that it holds still while a person is in it.
import { useLocation, useNavigate } from '@solidjs/router';
import { Match, Show, Suspense, Switch, createEffect, createMemo, createSignal, lazy, on, onCleanup, onMount } from 'solid-js';
import ChevronDown from 'lucide-solid/icons/chevron-down';
import ChevronRight from 'lucide-solid/icons/chevron-right';
import { useBeside } from '../lobby/beside';
import { lobby, sessions } from '../lobby/lobby';
import { useKeys, type Binding } from '../parts/keys';
import { count, many } from '../parts/time';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { asking } from './actions';
import { ListBulk } from './bulk';
import { bindingsOf, doWith, doings, keyWordOf } from './doings';
import { EmptyList } from './empty';
import { ListHead } from './filters';
import { Lines } from './lines-view';
import type { Line } from './lines';
import { Row } from './row';
import type { Entry } from './row-menu';
import { cursor, fold, folded, held, isHeld, pick, picked, pickNone, setCursor, setHeld, sortNow } from './view';
import { place } from '../lobby/words';
import '../look/forms.css';
import '../look/sessions.css';

const RowMenu = lazy(() => import('./row-menu'));
const AskDialog = lazy(() => import('./ask'));

/** A finger that left the list may come back at once. */
const FINGER_MS = 800;
/** Dialogs are loaded after the list, so that they open at once, also without a network. */
const PRELOAD_MS = 1_500;

/** All sessions in the order of attention. */
export function SessionList() {
  const navigate = useNavigate();
  const location = useLocation();
  let root: HTMLDivElement | undefined;
  let search: HTMLInputElement | undefined;
  let scroller: HTMLDivElement | undefined;
  const [menu, setMenu] = createSignal<{ id: string; at: HTMLElement } | null>(null);
  const all = doings(navigate);
  // Beside the open session where the page has room for two, else in a tab.
  const split = useBeside();
  const openBeside = (id: string) => { if (split.canSplit()) split.show(id); else window.open(`/s/${id}`, '_blank', 'noopener'); };
  const rows = createMemo(() => held().lines.flatMap((line) => (line.kind === 'row' ? [line.id] : [])));
  const open = () => /^\/s\/([^/]+)/.exec(location.pathname)?.[1] ?? null;
  // The row of the keys is always one of the list: the open session, else the first.
  createEffect(() => {
    const here = rows();
    if (cursor() === null || !here.includes(cursor() ?? '')) setCursor(here.find((id) => id === open()) ?? here[0] ?? null);
  });
  // A session that is opened is the row of the keys too; later news of the list leave the keys where the person has them.
  createEffect(on(open, (id) => { if (id !== null && rows().includes(id)) setCursor(id); }));
  useHolding(() => root);

  // A row that was out of sight is drawn within some frames.
  const focusSoon = (id: string, frames = 30) => requestAnimationFrame(() => {
    if (cursor() !== id) return;
    const row = root?.querySelector<HTMLElement>(`[data-row="${CSS.escape(id)}"]`);
    if (row != null) row.focus(); else if (frames > 0) focusSoon(id, frames - 1);
  });
  const focusRow = (id: string | null) => {
    if (id === null) return;
    setCursor(id);
    const line = held().lines.findIndex((one) => one.kind === 'row' && one.id === id);
    reveal(line);
    focusSoon(id);
  };
  let reveal: (line: number) => void = () => undefined;
  const step = (by: number) => {
    const here = rows();
    const at = here.indexOf(cursor() ?? '');
    focusRow(here[Math.min(here.length - 1, Math.max(0, at + (hasFocus() ? by : 0)))] ?? null);
  };
  const hasFocus = () => root?.contains(document.activeElement) === true;
  const meant = () => (picked().size > 0 ? [...picked()] : cursor() === null ? [] : [cursor() ?? '']);
  const decide = (what: 'allow' | 'deny') => {
    const button = root?.querySelector<HTMLElement>(`.is-cursor [data-decides="${what}"]`);
    if (button == null || !hasFocus()) return false;
    button.click();
    return;
  };
  const foldHere = () => {
    const line = held().lines.find((one) => one.kind === 'row' && one.id === cursor());
    if (line !== undefined) fold(line.group);
  };
  const bindings: Binding[] = [
    { keys: 'j', word: 'Next row', run: () => step(1) },
    { keys: 'k', word: 'Row before', run: () => step(-1) },
    { keys: 'ArrowDown', word: 'Next row (arrow)', run: () => step(1) },
    { keys: 'ArrowUp', word: 'Row before (arrow)', run: () => step(-1) },
    { keys: 'Home', word: 'First row', run: () => focusRow(rows()[0] ?? null) },
    { keys: 'End', word: 'Last row', run: () => focusRow(rows().at(-1) ?? null) },
    { keys: 'Enter', word: 'Open', run: () => { if (document.activeElement?.matches('button, a') || cursor() === null) return false; navigate(`/s/${cursor()}`); return; } },
    { keys: 'o', word: 'Open beside', run: () => { if (cursor() !== null) openBeside(cursor() ?? ''); } },
    { keys: 'x', word: 'Select', run: () => { if (cursor() !== null) pick(cursor() ?? ''); } },
    { keys: 'f', word: 'Fold group', run: foldHere },
    { keys: 'a', word: 'Allow once', run: () => decide('allow') },
    { keys: 'd', word: 'Deny', run: () => decide('deny') },
    { keys: '/', word: 'Filter', run: () => { search?.focus(); } },
    { keys: 'Escape', word: 'Select nothing', run: () => { if (picked().size === 0) return false; pickNone(); return; } },
    ...bindingsOf(all, meant),
  ];
  // Beside another page the list has its keys while the focus is in it.
  useKeys('Sessions', bindings, { works: () => hasFocus() || location.pathname === '/', isFirst: hasFocus });
  // Keys that come while a dialog is still on its way are not meant for the list.
  useKeys('Dialog of the list', [], { works: () => asking() !== null || menu() !== null, isLayer: true });
  onMount(() => setTimeout(() => { void RowMenu.preload(); void AskDialog.preload(); }, PRELOAD_MS));
  const entries = (id: string): Entry[] => {
    const session = lobby.byId[id];
    const line = held().lines.find((one) => one.kind === 'row' && one.id === id);
    return [
      { word: 'Open', keys: 'Enter', run: () => navigate(`/s/${id}`) },
      { word: split.canSplit() ? 'Open beside' : 'Open in a new tab', keyWord: 'Open beside', keys: 'o', run: () => openBeside(id) },
      { word: picked().has(id) ? 'Select no more' : 'Select', keyWord: 'Select', keys: 'x', run: () => pick(id) },
      ...(line === undefined ? [] : [{ word: 'Fold group', keys: 'f', run: () => fold(line.group) }]),
      ...all.filter((one) => session !== undefined && one.suits(session))
        .map((one): Entry => ({ word: one.word, keyWord: keyWordOf(all, one.keys), keys: one.keys, isDanger: one.isDanger ?? false, run: () => void doWith(one, [id]) })),
    ];
  };

  return (
    <div class="session-list" ref={root} onFocusIn={(event) => {
      const id = (event.target as HTMLElement).dataset.row;
      if (id !== undefined) setCursor(id);
    }}>
      <ListHead field={(element) => { search = element; }} onLeave={() => focusRow(cursor())} />
      <ListBulk doings={all.filter((one) => one.forMany)} />
      <div class="list-moved" role="status">
        <Show when={isHeld() && held().moved > 0}>
          <button type="button" class="plain" onClick={sortNow}>{count(held().moved)} moved · sort now</button>
        </Show>
      </div>
      <div class="list-scroll" ref={scroller}>
        <Show when={held().lines.length > 0} fallback={<EmptyList />}>
          <Lines lines={held().lines} scroller={() => scroller} onReveal={(found) => { reveal = found; }}>
            {(line) => <LineView line={line()} onMenu={(id, at) => setMenu({ id, at })} />}
          </Lines>
        </Show>
        <Show when={lobby.isThere && lobby.total > sessions().length}>
          <p class="faint list-more">The newest {count(sessions().length)} of {many(lobby.total, 'session')}.</p>
        </Show>
      </div>
      <Suspense>
        <Show when={menu()} keyed>{(shown) => <RowMenu at={shown.at} entries={entries(shown.id)} onClose={() => setMenu(null)} />}</Show>
        <Show when={asking()}><AskDialog /></Show>
      </Suspense>
    </div>
  );
}

function LineView(props: { line: Line; onMenu: (id: string, at: HTMLElement) => void }) {
  return (
    <Switch>
      <Match when={props.line.kind === 'group' && props.line}>{(line) => (
        <h2 class="line-group" classList={{ 'is-needs': line().group === 'needs' && line().counted > 0 }}>
          <button type="button" class="plain" aria-expanded={!folded().has(line().group)} onClick={() => fold(line().group)}>
            <Show when={folded().has(line().group)} fallback={<ChevronDown size={16} aria-hidden="true" />}><ChevronRight size={16} aria-hidden="true" /></Show>
            {line().word} <span class="figures">{line().counted}</span><Show when={line().size > line().counted + line().muted}><span class="faint figures">· {line().size - line().counted - line().muted} to look at</span></Show><Show when={line().muted > 0}><span class="faint figures">· {line().muted} muted</span></Show>
          </button>
        </h2>
      )}</Match>
      <Match when={props.line.kind === 'project' && props.line}>{(line) => (
        <h3 class="line-project one-line" title={spelledOut(line().cwd)}><SafeText text={place(line().cwd)} /> <span class="faint figures">{line().size}</span></h3>
      )}</Match>
      <Match when={props.line.kind === 'row' && props.line}>{(line) => (
        <Show when={lobby.byId[line().id]}>{(session) => <Row session={session()} inProject={line().inProject} onMenu={props.onMenu} />}</Show>
      )}</Match>
    </Switch>
  );
}

/** Holds the list still while pointer, focus or finger is in it. */
function useHolding(root: () => HTMLElement | undefined): void {
  let isOver = false;
  let isTouched = false;
  let lift: ReturnType<typeof setTimeout> | undefined;
  const update = () => setHeld(isOver || isTouched || root()?.contains(document.activeElement) === true);
  const within = (event: Event) => event.target instanceof Node && root()?.contains(event.target) === true;
  const onOver = (event: PointerEvent) => { if (event.pointerType === 'mouse') { isOver = within(event); update(); } };
  const onDown = (event: PointerEvent) => { if (event.pointerType !== 'mouse' && within(event)) { clearTimeout(lift); isTouched = true; update(); } };
  const onUp = (event: PointerEvent) => {
    if (event.pointerType === 'mouse' || !isTouched) return;
    clearTimeout(lift);
    lift = setTimeout(() => { isTouched = false; update(); }, FINGER_MS);
  };
  const onOut = () => { isOver = false; update(); };
  const onFocus = () => queueMicrotask(update);
  addEventListener('pointerover', onOver);
  addEventListener('pointerdown', onDown);
  addEventListener('pointerup', onUp);
  addEventListener('pointercancel', onUp);
  document.documentElement.addEventListener('pointerleave', onOut);
  addEventListener('focusin', onFocus);
  addEventListener('focusout', onFocus);
  onCleanup(() => {
    clearTimeout(lift);
    removeEventListener('pointerover', onOver);
    removeEventListener('pointerdown', onDown);
    removeEventListener('pointerup', onUp);
    removeEventListener('pointercancel', onUp);
    document.documentElement.removeEventListener('pointerleave', onOut);
    removeEventListener('focusin', onFocus);
    removeEventListener('focusout', onFocus);
    setHeld(false);
  });
}
