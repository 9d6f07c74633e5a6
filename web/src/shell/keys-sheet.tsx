// Owns the sheet behind `?`: the keys that work where one is. Each line is a button that does the same; keys can be changed there.
import { For, Show, createSignal } from 'solid-js';
import { KeyField } from '../parts/key-field';
import { asRead, keysOf, lettersOn, type Binding, type Place } from '../parts/keys';
import { Layer } from '../parts/layer';

/** Places of one name are one: parts of a page say which keys they take by themselves. */
export function byName(places: readonly Place[]): Pick<Place, 'name' | 'bindings'>[] {
  const found = new Map<string, Binding[]>();
  for (const { name, bindings } of places) if (bindings.length > 0) found.set(name, [...found.get(name) ?? [], ...bindings]);
  return [...found].map(([name, bindings]) => ({ name, bindings }));
}

/** The sheet. */
export default function KeysSheet(props: { places: Place[]; onClose: () => void }) {
  const held = byName(props.places.toReversed());
  const take = (one: Binding) => {
    props.onClose();
    // The action finds the focus where it was before.
    setTimeout(() => { one.run(new KeyboardEvent('keydown', { key: '' })); }, 20);
  };
  const [isChanging, setChanging] = createSignal(false);
  return (
    <Layer title="Keys" onClose={props.onClose} kind="wide">
      <div class="keys-acts"><button type="button" aria-pressed={isChanging()} onClick={() => setChanging(!isChanging())}>Change keys</button>
        <Show when={isChanging()}><span class="quiet">Such as <kbd>a</kbd>, <kbd>Shift S</kbd>, <kbd>Ctrl k</kbd>, <kbd>g s</kbd>. An empty field turns a key off.</span></Show></div>
      <Show when={!lettersOn()}><p class="quiet">Single letters are turned off. Settings, Keys turns them on.</p></Show>
      <div class="keys-sheet">
        <For each={held}>{(place) => (
          <section>
            <h3>{place.name}</h3>
            <ul>
              <For each={place.bindings}>{(one) => (
                <li><Show when={isChanging()} fallback={
                  <button type="button" class="plain keys-line" onClick={() => take(one)}>
                    <span class="keys-keys"><For each={asRead(keysOf(one)).split(' ').filter(Boolean)}>{(key) => <kbd>{key}</kbd>}</For></span><span>{one.word}</span>
                  </button>
                }><span class="keys-line is-changed"><span>{one.word}</span> <KeyField word={one.word} keys={one.keys} /></span></Show></li>
              )}</For>
            </ul>
          </section>
        )}</For>
      </div>
    </Layer>
  );
}
