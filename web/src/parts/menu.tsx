// Owns how a menu behind a button looks and behaves, for every part of the page.
import { DropdownMenu } from '@kobalte/core/dropdown-menu';
import Check from 'lucide-solid/icons/check';
import { For, Show, createSignal, type JSX } from 'solid-js';
import { useBack } from './back';
import './menu.css';
import { SafeText } from '../text/safe';

/** One thing that can be chosen. */
export interface MenuItem {
  word: string;
  run: () => void;
  /** Its purpose, in a quieter line. */
  about?: string | undefined;
  /** Its key, as it is shown. */
  keys?: string | undefined;
  /** It is the one in force; `undefined`: nothing is. */
  isChosen?: boolean | undefined;
  isDangerous?: boolean | undefined;
  isOff?: boolean | undefined;
}

/** Items that belong together. */
export interface MenuGroup { name?: string | undefined; items: MenuItem[] }

/** A button with a menu. `open` and `onOpen` are there for keys that open it. */
export function Menu(props: {
  label: string; title?: string; children: JSX.Element; groups: MenuGroup[]; class?: string; hint?: string | undefined;
  open?: boolean; onOpen?: (isOpen: boolean) => void;
}) {
  const [isOpenItself, setOpenItself] = createSignal(false);
  const isOpen = () => props.open ?? isOpenItself();
  const setOpen = (is: boolean) => { setOpenItself(is); props.onOpen?.(is); };
  useBack(isOpen, () => setOpen(false));
  return (
    <DropdownMenu modal={false} gutter={4} open={isOpen()} onOpenChange={setOpen}>
      <DropdownMenu.Trigger class={`plain menu-button ${props.class ?? ''}`} aria-label={props.label} title={props.title ?? props.label}>{props.children}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content class="menu">
          <Show when={props.hint}><p class="menu-hint quiet">{props.hint}</p></Show>
          <For each={props.groups.filter((group) => group.items.length > 0)}>{(group, place) => (
            <>
              <Show when={place() > 0}><DropdownMenu.Separator class="menu-line" /></Show>
              <DropdownMenu.Group>
                <Show when={group.name}><DropdownMenu.GroupLabel class="menu-group faint">{group.name}</DropdownMenu.GroupLabel></Show>
                <For each={group.items}>{(item) => (
                  <DropdownMenu.Item class="menu-item" classList={{ 'is-danger': item.isDangerous === true }} disabled={item.isOff ?? false} onSelect={item.run}>
                    <Show when={item.isChosen !== undefined}>
                      <span class="menu-mark"><Show when={item.isChosen}><Check size={16} aria-hidden="true" /></Show></span>
                    </Show>
                    <span class="menu-words">
                      <span><SafeText text={item.word} /><Show when={item.isChosen}><span class="only-heard">, in force</span></Show></span>
                      <Show when={item.about}><span class="faint"><SafeText text={item.about ?? ''} /></span></Show>
                    </span>
                    <Show when={item.keys}><kbd class="menu-keys faint">{item.keys}</kbd></Show>
                  </DropdownMenu.Item>
                )}</For>
              </DropdownMenu.Group>
            </>
          )}</For>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu>
  );
}
