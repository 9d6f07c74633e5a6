// Owns the frame around every page: list, page, side panel, the bar between pages, messages, and the socket's life.
import { useLocation, useNavigate } from '@solidjs/router';
import { Match, Show, Suspense, Switch, createEffect, createSignal, lazy, onCleanup, onMount, type ParentProps } from 'solid-js';
import { openOutboxes } from '../composer/outbox';
import { connect, disconnect } from '../daemon/link';
import { lobby, watchLobby } from '../lobby/lobby';
import { learnRole } from '../daemon/role';
import { startNotices } from '../notices/notices';
import { markTab } from '../notices/tab';
import { SessionList } from '../sessions/list';
import { Rail } from '../sessions/rail';
import { layer, placesHere, setLayer, useAnywhere } from './anywhere';
import { useBack, watchBack } from '../parts/back';
import { Banner } from './banner';
import { hintOf, useKeys } from '../parts/keys';
import { hasList, layout } from '../parts/layout';
import { Nav } from './nav';
import { needing } from '../lobby/needing';
import { SidePlace, isSideShown } from '../parts/side';
import { Toasts } from '../parts/toasts';
import { sessionIn, tabTitle } from './title';
import { watchUpgrade } from './upgrade';

const KeysSheet = lazy(() => import('./keys-sheet'));
const Palette = lazy(() => import('./palette'));
const MessageLog = lazy(() => import('./log'));

/** The frame. */
export function Shell(props: ParentProps) {
  const location = useLocation();
  const navigate = useNavigate();
  const anywhere = useAnywhere();
  const [isListOver, setListOver] = createSignal(false);
  onMount(() => {
    connect();
    // Layers are loaded after the page, so that they open at once, also without a network.
    setTimeout(() => { void Palette.preload(); void KeysSheet.preload(); void MessageLog.preload(); }, 2_000);
    void learnRole();
    void openOutboxes();
    const leave = watchLobby();
    const still = startNotices(navigate, () => location.pathname);
    const unmark = markTab();
    const unwatch = watchUpgrade();
    onCleanup(() => { unwatch(); unmark(); still(); leave(); disconnect(); });
  });
  createEffect(() => {
    const id = sessionIn(location.pathname);
    document.title = tabTitle(location.pathname, needing(), id === undefined ? undefined : lobby.byId[id]);
  });
  // A person who opens another page has done with the list that lies over this one.
  createEffect(() => { void location.pathname; setListOver(false); });
  watchBack();
  useBack(() => isListOver() && layout() === 'middle', () => setListOver(false));
  useKeys('List over the page', [{ keys: 'Escape', word: 'Close the list', run: () => { setListOver(false); } }], { works: isListOver });
  useKeys('Layer', [], { works: () => layer() !== null, isLayer: true });
  const doings = anywhere.filter(({ word }) => ['Next that needs you', 'Last place', 'Palette', 'Messages of this page', 'Keys', 'Theme'].includes(word));
  const onList = () => location.pathname === '/' || location.pathname === '/new';
  return (
    <div class="shell" classList={{ [`is-${layout()}`]: true, 'has-side': isSideShown() }}>
      <Banner />
      <Show when={hasList()}>
        <section class="beside" aria-label="List of sessions"><SessionList /></section>
      </Show>
      <Show when={layout() === 'middle'}>
        <section class="beside" aria-label="List of sessions">
          <Show when={!onList()}>
            <button type="button" class="plain rail-open" aria-expanded={isListOver()} onClick={() => setListOver(!isListOver())}>List</button>
            <Rail />
          </Show>
        </section>
        <Show when={isListOver()}><section class="list-over" aria-label="List of sessions, over the page"><SessionList /></section></Show>
      </Show>
      <Nav doings={doings.map((one) => ({ word: one.word, keys: hintOf(one.word, one.keys), run: () => { one.run(new KeyboardEvent('keydown')); } }))} />
      <main class="content"><Suspense>{props.children}</Suspense></main>
      <SidePlace />
      <Toasts />
      <Suspense>
        <Switch>
          <Match when={layer() === 'palette'}><Palette places={placesHere()} onClose={() => setLayer(null)} /></Match>
          <Match when={layer() === 'keys'}><KeysSheet places={placesHere()} onClose={() => setLayer(null)} /></Match>
          <Match when={layer() === 'log'}><MessageLog onClose={() => setLayer(null)} /></Match>
        </Switch>
      </Suspense>
    </div>
  );
}
