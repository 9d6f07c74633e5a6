// Owns the way between pages: the bar "Sessions · Needs you · Usage · More", and what is behind More.
import { A, useLocation } from '@solidjs/router';
import { For, Show, createSignal, type JSX } from 'solid-js';
import ChartColumn from 'lucide-solid/icons/chart-column';
import Diamond from 'lucide-solid/icons/diamond';
import Ellipsis from 'lucide-solid/icons/ellipsis';
import List from 'lucide-solid/icons/list';
import { needing } from '../lobby/needing';
import { useBack } from '../parts/back';

/** Pages behind More, in their order. */
const MORE = [
  { href: '/watch', word: 'Watch' },
  { href: '/health', word: 'Health' },
  { href: '/settings/look', word: 'Settings' },
] as const;

/** A thing to do that stands behind More, beside the pages. */
export interface Doing { word: string; keys: string; run: () => void }

function Entry(props: { href: string; word: string; end?: boolean; children: JSX.Element }) {
  return <A href={props.href} end={props.end ?? false} class="nav-entry">{props.children}<span class="nav-word">{props.word}</span></A>;
}

/** The bar. */
export function Nav(props: { doings: Doing[] }) {
  let sheet: HTMLDivElement | undefined;
  const location = useLocation();
  const isBehindMore = () => MORE.some(({ href }) => location.pathname.startsWith(href.replace('/look', '')));
  const [isOpen, setOpen] = createSignal(false);
  const close = () => sheet?.hidePopover();
  useBack(isOpen, close);
  return (
    <nav class="pages" aria-label="Pages">
      <Entry href="/" word="Sessions" end><List size={20} stroke-width={1.75} aria-hidden="true" /></Entry>
      <Entry href="/needs" word="Needs you">
        <span class="nav-icon">
          <Diamond size={20} stroke-width={1.75} aria-hidden="true" />
          <Show when={needing() > 0}><span class="badge figures">{needing()}</span></Show>
        </span>
      </Entry>
      <Entry href="/usage" word="Usage"><ChartColumn size={20} stroke-width={1.75} aria-hidden="true" /></Entry>
      <button type="button" class="nav-entry" classList={{ active: isBehindMore() }} popovertarget="more">
        <Ellipsis size={20} stroke-width={1.75} aria-hidden="true" /><span class="nav-word">More</span>
      </button>
      <div id="more" class="more" popover ref={sheet} role="group" aria-label="More" onToggle={(event) => setOpen(event.newState === 'open')}>
        <For each={MORE}>{({ href, word }) => <A href={href} class="more-entry" onClick={close}>{word}</A>}</For>
        <For each={props.doings}>{(one) => (
          <button type="button" class="plain more-entry" onClick={() => { close(); one.run(); }}>{one.word} <Show when={one.keys}><kbd>{one.keys}</kbd></Show></button>
        )}</For>
      </div>
    </nav>
  );
}
