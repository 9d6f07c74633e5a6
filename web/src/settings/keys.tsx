// Owns the person's own keys.
import { For, Show, createMemo } from 'solid-js';
import { changeKey, changedKeys, keysOf, lettersOn, places, useLetters } from '../parts/keys';

/** The part "Keys": those of the frame, which hold on every page, and those that were changed. */
export function Keys() {
  const rows = createMemo(() => {
    const known = places().flatMap((place) => place.bindings.map((binding) => ({ place: place.name, binding })));
    const words = new Set(known.map(({ binding }) => binding.word));
    const others = Object.keys(changedKeys()).filter((word) => !words.has(word));
    return [...known, ...others.map((word) => ({ place: 'Elsewhere', binding: { word, keys: '', run: () => undefined } }))];
  });
  return (
    <div class="choices">
      <label><input type="checkbox" checked={lettersOn()} onChange={(event) => useLetters(event.currentTarget.checked)} /> Single letters work as keys outside of text fields</label>
      <p class="quiet">Keys are such as <kbd>a</kbd>, <kbd>Shift S</kbd>, <kbd>Ctrl k</kbd>, <kbd>g s</kbd>. An empty field turns a key off. The keys of a page are in its list under <kbd>?</kbd>.</p>
      <ul class="health-list"><For each={rows()}>{({ place, binding }) => (
        <li>
          <span class="key-word">{binding.word} <span class="faint">{place}</span></span>
          <input aria-label={`Key for ${binding.word}`} size="10" value={keysOf(binding)} onChange={(event) => changeKey(binding.word, event.currentTarget.value.trim())} />
          <Show when={binding.word in changedKeys()}><button onClick={() => changeKey(binding.word, null)}>As it was</button></Show>
        </li>
      )}</For></ul>
    </div>
  );
}
