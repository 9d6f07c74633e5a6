// Owns the person's own keys.
import { For, createMemo } from 'solid-js';
import { KeyField } from '../parts/key-field';
import { changedKeys, lettersOn, places, useLetters } from '../parts/keys';

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
      <p class="quiet">Keys are such as <kbd>a</kbd>, <kbd>Shift S</kbd>, <kbd>Ctrl k</kbd>, <kbd>g s</kbd>. An empty field turns a key off. The keys of a page are in its list under <kbd>?</kbd>, and are changed there.</p>
      <ul class="health-list"><For each={rows()}>{({ place, binding }) => (
        <li>
          <span class="key-word">{binding.word} <span class="faint">{place}</span></span>
          <KeyField word={binding.word} keys={binding.keys} />
        </li>
      )}</For></ul>
    </div>
  );
}
