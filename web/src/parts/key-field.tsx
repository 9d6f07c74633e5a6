// Owns the field in which a person gives a piece of work another key.
import { Show } from 'solid-js';
import { changeKey, changedKeys, keysOf } from './keys';

/** The field, and the way back once the key is another one. */
export function KeyField(props: { word: string; keys: string }) {
  return (
    <>
      <input aria-label={`Key for ${props.word}`} size="10" autocapitalize="off" spellcheck={false} value={keysOf(props)}
        onChange={(event) => changeKey(props.word, event.currentTarget.value.trim())} />
      <Show when={props.word in changedKeys()}><button type="button" onClick={() => changeKey(props.word, null)}>As it was</button></Show>
    </>
  );
}
