// Owns the sheet behind `?`: the keys that work where one is.
import { For, Show } from 'solid-js';
import { keysOf, lettersOn, type Place } from './keys';
import { Layer } from './layer';

/** Keys as people read them. */
const shown = (keys: string): string => keys.replace(/^Ctrl (.)$/, (_, key: string) => `Ctrl ${key.toUpperCase()}`).replace('Escape', 'Esc').replace('ArrowDown', '↓').replace('ArrowUp', '↑');

/** The sheet. */
export default function KeysSheet(props: { places: Place[]; onClose: () => void }) {
  const held = props.places.filter((place) => place.bindings.length > 0).toReversed();
  return (
    <Layer title="Keys" onClose={props.onClose} kind="wide">
      <Show when={!lettersOn()}><p class="quiet">Single letters are turned off. Settings, Keys turns them on.</p></Show>
      <div class="keys-sheet">
        <For each={held}>{(place) => (
          <section>
            <h3>{place.name}</h3>
            <dl>
              <For each={place.bindings.filter((one) => keysOf(one) !== '')}>{(one) => (
                <div><dt><For each={shown(keysOf(one)).split(' ')}>{(key) => <kbd>{key}</kbd>}</For></dt><dd>{one.word}</dd></div>
              )}</For>
            </dl>
          </section>
        )}</For>
      </div>
    </Layer>
  );
}
