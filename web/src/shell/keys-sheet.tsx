// Owns the sheet behind `?`: the keys that work where one is. Each line is a button that does the same.
import { For, Show } from 'solid-js';
import { keysOf, lettersOn, type Binding, type Place } from '../parts/keys';
import { Layer } from '../parts/layer';

/** Keys as people read them. */
const shown = (keys: string): string => keys.replace(/^(Ctrl|Alt) (.)$/, (_, held: string, key: string) => `${held} ${key.toUpperCase()}`).replace('Escape', 'Esc').replace('ArrowDown', '↓').replace('ArrowUp', '↑');

/** The sheet. */
export default function KeysSheet(props: { places: Place[]; onClose: () => void }) {
  const held = props.places.filter((place) => place.bindings.length > 0).toReversed();
  const take = (one: Binding) => {
    props.onClose();
    // The action finds the focus where it was before.
    setTimeout(() => { one.run(new KeyboardEvent('keydown', { key: '' })); }, 20);
  };
  return (
    <Layer title="Keys" onClose={props.onClose} kind="wide">
      <Show when={!lettersOn()}><p class="quiet">Single letters are turned off. Settings, Keys turns them on.</p></Show>
      <div class="keys-sheet">
        <For each={held}>{(place) => (
          <section>
            <h3>{place.name}</h3>
            <ul>
              <For each={place.bindings}>{(one) => (
                <li><button type="button" class="plain keys-line" onClick={() => take(one)}>
                  <span class="keys-keys"><For each={shown(keysOf(one)).split(' ').filter(Boolean)}>{(key) => <kbd>{key}</kbd>}</For></span><span>{one.word}</span>
                </button></li>
              )}</For>
            </ul>
          </section>
        )}</For>
      </div>
    </Layer>
  );
}
