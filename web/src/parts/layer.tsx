// Owns the frame of every dialog: title, close button, Esc, Back, and the focus that comes back.
import { Dialog } from '@kobalte/core/dialog';
import X from 'lucide-solid/icons/x';
import { onCleanup, type ParentProps } from 'solid-js';
import { SafeText } from '../text/safe';
import { useBack } from './back';
import { useKeys } from './keys';

/** A dialog over the page. It is open as long as it is there; `onClose` takes it away. `hasAddress`: Back leaves it by itself. */
export function Layer(props: ParentProps<{ title: string; onClose: () => void; kind?: 'wide' | 'top'; hasAddress?: boolean }>) {
  useKeys(props.title, [], { isLayer: true });
  useBack(() => props.hasAddress !== true, () => props.onClose());
  const before = document.activeElement;
  onCleanup(() => setTimeout(() => {
    const isFree = document.activeElement === null || document.activeElement === document.body;
    if (isFree && before instanceof HTMLElement && before.isConnected) before.focus();
  }));
  let content: HTMLElement | undefined;
  // The first thing that can take the focus would be the button that closes it. On touch a field would bring the keyboard up.
  const onOpenAutoFocus = (event: Event) => {
    const wanted = content?.querySelector<HTMLElement>('[autofocus]');
    if (!wanted || matchMedia('(pointer: coarse)').matches) return;
    event.preventDefault();
    wanted.focus();
  };
  return (
    <Dialog open onOpenChange={(isOpen) => { if (!isOpen) props.onClose(); }}>
      <Dialog.Portal>
        <Dialog.Overlay class="layer-back" />
        <div class="layer-place" classList={{ 'is-top': props.kind === 'top' }}>
          <Dialog.Content ref={content} onOpenAutoFocus={onOpenAutoFocus} class="layer" classList={{ 'is-wide': props.kind === 'wide' }}>
            <header class="layer-head">
              <Dialog.Title class="layer-title"><SafeText text={props.title} /></Dialog.Title>
              <Dialog.CloseButton class="plain" aria-label="Close"><X size={20} stroke-width={1.75} aria-hidden="true" /></Dialog.CloseButton>
            </header>
            {props.children}
          </Dialog.Content>
        </div>
      </Dialog.Portal>
    </Dialog>
  );
}
