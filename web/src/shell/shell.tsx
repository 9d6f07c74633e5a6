// Owns the frame around every page: navigation, the banner about the connection, messages, and the socket's life.
import { A, useNavigate } from '@solidjs/router';
import { For, Show, createEffect, createMemo, createRoot, onCleanup, onMount, type ParentProps } from 'solid-js';
import { connect, connection, disconnect } from '../daemon/link';
import { lobby, sessions, watchLobby } from '../daemon/lobby';
import { startNotices } from '../notices/notices';
import { useKeys } from './keys';
import { now } from './time';
import { Toasts } from './toasts';

const PAGES = [
  { href: '/', word: 'Sessions', keys: 'g s' },
  { href: '/needs', word: 'Needs you', keys: 'g n' },
  { href: '/usage', word: 'Usage', keys: 'g u' },
  { href: '/health', word: 'Health', keys: 'g h' },
  { href: '/settings', word: 'Settings', keys: 'g ,' },
] as const;

/** A loss shorter than this is no news. */
const CALM_MS = 1_500;

/** How many sessions wait for a person, by ranks 1 to 3. */
export const needing = createRoot(() => createMemo(() => sessions().filter((one) => one.attention != null && one.attention.rank <= 3).length));

/** The frame. */
export function Shell(props: ParentProps) {
  const navigate = useNavigate();
  onMount(() => {
    connect();
    const leave = watchLobby();
    const still = startNotices(navigate);
    onCleanup(() => { still(); leave(); disconnect(); });
  });
  createEffect(() => {
    const n = needing();
    document.title = n > 0 ? `(${n}) Needs you · Trunkline` : 'Trunkline';
  });
  useKeys('Anywhere', PAGES.map(({ href, word, keys }) => ({ keys, word, run: () => navigate(href) })));
  return (
    <div class="shell">
      <Banner />
      <nav class="pages" aria-label="Pages">
        <For each={PAGES}>{({ href, word }) => (
          <A href={href} end={href === '/'} class="plain">
            {word}<Show when={href === '/needs' && needing() > 0}> <span class="badge figures">{needing()}</span></Show>
          </A>
        )}</For>
      </nav>
      <main class="content">{props.children}</main>
      <Toasts />
    </div>
  );
}

/** Says when the page is not live, once a loss has lasted. */
function Banner() {
  const lost = createMemo(() => {
    const state = connection();
    return state.kind === 'lost' && now() - state.since >= CALM_MS ? state : undefined;
  });
  const asOf = () => new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }).format(lobby.asOf || lost()?.since || now());
  return (
    <div role="status" aria-live="polite" class="banner-place">
      <Show when={lost()}>{(state) => (
        <div class="banner">
          <span><span aria-hidden="true">▲ </span>Offline. As of {asOf()}.</span>
          <span>Trying again in {Math.max(0, Math.ceil((state().tryAt - now()) / 1000))} s <button class="plain" onClick={connect}>Try now</button></span>
        </div>
      )}</Show>
    </div>
  );
}
