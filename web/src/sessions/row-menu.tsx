// Owns the menu of a row: everything that its keys do, in words.
import { DropdownMenu } from '@kobalte/core/dropdown-menu';
import { For, Show } from 'solid-js';
import { useBack } from '../parts/back';
import { hintOf } from '../parts/keys';

/** An entry of the menu, with its key; `keyWord`: the word of the key's binding, where it is another one. */
export interface Entry { word: string; keys: string; keyWord?: string; run: () => void; isDanger?: boolean }

/** The menu, at the button that opened it. */
export default function RowMenu(props: { at: HTMLElement; entries: Entry[]; onClose: () => void }) {
  useBack(() => true, () => props.onClose());
  return (
    <DropdownMenu open modal={false} onOpenChange={(isOpen) => { if (!isOpen) props.onClose(); }} placement="bottom-end"
      getAnchorRect={() => props.at.getBoundingClientRect()}>
      <DropdownMenu.Portal>
        <DropdownMenu.Content class="menu" onCloseAutoFocus={(event) => { event.preventDefault(); props.at.focus(); }}>
          <For each={props.entries}>{(entry) => (
            <DropdownMenu.Item class="menu-entry" classList={{ 'is-danger': entry.isDanger === true }} onSelect={entry.run}>
              {entry.word} <Show when={entry.keys !== '' && hintOf(entry.keyWord ?? entry.word, entry.keys)}>{(keys) => <kbd>{keys()}</kbd>}</Show>
            </DropdownMenu.Item>
          )}</For>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu>
  );
}
