// Owns the palette (Ctrl K): sessions, pages and actions by their words.
import { useNavigate } from '@solidjs/router';
import { For, Show, createMemo, createSignal, onMount } from 'solid-js';
import { sessions } from '../lobby/lobby';
import { arrange } from '../lobby/order';
import { lastPart, titleOf } from '../lobby/words';
import { SafeText } from '../text/safe';
import { hintOf, type Place } from '../parts/keys';
import { Layer } from '../parts/layer';
import { bestOf } from '../parts/match';
import { StateShape, shownAs, type Shown } from '../lobby/state';

const MOST = 30;

interface Entry { word: string; text: string; more: string; shape?: Shown; run: () => void }

/** The palette. Actions are those that worked where one was. */
export default function Palette(props: { places: Place[]; onClose: () => void }) {
  const navigate = useNavigate();
  const [query, setQuery] = createSignal('');
  const [at, setAt] = createSignal(0);
  let field: HTMLInputElement | undefined;
  let list: HTMLUListElement | undefined;
  onMount(() => field?.focus());
  const all = createMemo((): Entry[] => [
    ...arrange(sessions()).flatMap((group) => group.projects.flatMap((project) => project.rows)).map((one): Entry => ({
      word: titleOf(one), text: `${titleOf(one)} ${one.cwd} ${one.tag ?? ''}`, more: lastPart(one.cwd), shape: shownAs(one), run: () => navigate(`/s/${one.id}`),
    })),
    ...props.places.toReversed().flatMap((place) => place.bindings.filter((one) => one.word !== 'Palette').map((one): Entry => ({
      word: one.word, text: `${one.word} ${place.name}`, more: hintOf(one.word, one.keys), run: () => { one.run(new KeyboardEvent('keydown', { key: '' })); },
    }))),
  ]);
  const found = createMemo(() => bestOf(query(), all(), (one) => one.text, MOST));
  const move = (by: number) => {
    const n = found().length;
    if (n === 0) return;
    setAt((at() + by + n) % n);
    list?.children[at()]?.scrollIntoView({ block: 'nearest' });
  };
  const take = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    props.onClose();
    // The action finds the focus where it was before.
    setTimeout(entry.run, 20);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown') move(1);
    else if (event.key === 'ArrowUp') move(-1);
    else if (event.key === 'Enter') take(found()[at()]);
    else return;
    event.preventDefault();
  };
  return (
    <Layer title="Palette" onClose={props.onClose} kind="top">
      <input ref={field} class="palette-field" role="combobox" aria-label="Session, page or action" placeholder="Session, page or action" autocomplete="off" spellcheck={false}
        aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-activedescendant={found().length > 0 ? `palette-${at()}` : undefined}
        value={query()} onKeyDown={onKeyDown} onInput={(event) => { setQuery(event.currentTarget.value); setAt(0); }} />
      <ul id="palette-list" class="palette-list" role="listbox" aria-label="Found" ref={list}>
        <For each={found()}>{(entry, index) => (
          <li id={`palette-${index()}`} role="option" aria-selected={at() === index()} class="palette-entry" classList={{ 'is-chosen': at() === index() }}
            onPointerMove={() => setAt(index())} onClick={() => take(entry)}>
            <Show when={entry.shape}>{(shape) => <StateShape shown={shape()} />}</Show>
            <span class="one-line palette-word"><SafeText text={entry.word} /></span>
            <Show when={entry.shape} fallback={<Show when={entry.more !== ''}><kbd>{entry.more}</kbd></Show>}><span class="faint one-line"><SafeText text={entry.more} /></span></Show>
          </li>
        )}</For>
      </ul>
      <Show when={found().length === 0}><p class="quiet">Nothing has "{query()}".</p></Show>
    </Layer>
  );
}
