// Owns how the list of completions is drawn: above the box, its chosen row named to the box.
import { For, Show, createEffect } from 'solid-js';
import { SafeText } from '../text/safe';
import type { Choice, Completer } from './completer';

/** The id of a row, for `aria-activedescendant`. */
export const rowId = (place: number): string => `completion-${place}`;

/** The list. It is there only while something fits. */
export function CompletionList(props: { completer: Completer; choose: (choice: Choice) => void }) {
  let list: HTMLUListElement | undefined;
  createEffect(() => {
    const at = props.completer.active();
    list?.children[at]?.scrollIntoView({ block: 'nearest' });
  });
  const sign = () => (props.completer.asked()?.kind === 'command' ? '/' : '@');
  return (
    <Show when={props.completer.choices().length > 0}>
      <ul ref={(node) => { list = node; }} id="completions" class="completions" role="listbox"
        aria-label={sign() === '/' ? 'Commands' : 'Files'}>
        <For each={props.completer.choices()}>{(choice, place) => (
          <li id={rowId(place())} role="option" aria-selected={place() === props.completer.active()} class="completion"
            // The box keeps the focus.
            onPointerDown={(event) => event.preventDefault()} onClick={() => props.choose(choice)}>
            <code class="one-line">{sign()}<SafeText text={choice.word} /></code>
            <Show when={choice.hint}><span class="faint one-line"><SafeText text={choice.hint ?? ''} /></span></Show>
            <Show when={choice.about}><span class="quiet one-line completion-about"><SafeText text={choice.about ?? ''} /></span></Show>
          </li>
        )}</For>
      </ul>
    </Show>
  );
}
