// Owns how the images and the long pasted texts of a box are shown above it.
import X from 'lucide-solid/icons/x';
import { For, Show, createSignal } from 'solid-js';
import { bytes } from '../parts/time';
import { linesOf, pastesIn, type Draft, type Paste } from './content';
import { addressOf } from './picture';

/** The images and pasted texts. */
export function Attachments(props: { draft: Draft; change: (part: Partial<Draft>) => void }) {
  const pastes = () => pastesIn(props.draft);
  const [opened, setOpened] = createSignal<string>();
  const removePaste = (paste: Paste, text: string) => props.change({
    text: props.draft.text.split(paste.mark).join(text), pastes: props.draft.pastes.filter((other) => other.mark !== paste.mark),
  });
  return (
    <Show when={props.draft.pictures.length > 0 || pastes().length > 0}>
      <ul class="attachments" aria-label="With this message">
        <For each={props.draft.pictures}>{(picture) => (
          <li class="attachment">
            <img src={addressOf(picture)} alt={picture.name} />
            <span class="attachment-words">
              <span class="one-line">{picture.name}</span>
              <span class="faint">{picture.bytesBefore === undefined ? bytes(picture.bytes) : `${bytes(picture.bytes)}, shrunk from ${bytes(picture.bytesBefore)}`}</span>
            </span>
            <button type="button" class="plain" aria-label={`Remove ${picture.name}`} title="Remove"
              onClick={() => props.change({ pictures: props.draft.pictures.filter((other) => other.id !== picture.id) })}><X size={16} /></button>
          </li>
        )}</For>
        <For each={pastes()}>{(paste) => (
          <li class="attachment is-paste">
            <button type="button" class="plain" aria-expanded={opened() === paste.mark}
              onClick={() => setOpened((at) => (at === paste.mark ? undefined : paste.mark))}>{paste.mark.slice(1, -1)}</button>
            <button type="button" class="plain" aria-label={`Remove ${paste.mark.slice(1, -1)}`} title="Remove" onClick={() => removePaste(paste, '')}><X size={16} /></button>
            <Show when={opened() === paste.mark}>
              <pre class="paste-text" tabindex="0" aria-label="Pasted text">{paste.text}</pre>
              <button type="button" onClick={() => removePaste(paste, paste.text)}>Put its {linesOf(paste.text)} lines into the box</button>
            </Show>
          </li>
        )}</For>
      </ul>
    </Show>
  );
}
