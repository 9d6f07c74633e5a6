// Owns how a person says no: with a reason or without one, and with an interruption or without one. A press that opened it does
// not say it.
import { Show, createSignal, onMount } from 'solid-js';
import type { Deciding } from './deciding';

/** The field for the reason, and its buttons. It was opened by the person, so it takes the focus. */
export function Deny(props: { deciding: Deciding; word?: string; label?: string; interrupts: boolean; begin?: string; onBack: () => void }) {
  const [reason, setReason] = createSignal(props.begin ?? '');
  let field: HTMLTextAreaElement | undefined;
  onMount(() => field?.focus());
  const deny = (interrupt: boolean) => void props.deciding.send({ decision: 'deny', ...(reason().trim() === '' ? {} : { message: reason().trim() }), ...(interrupt ? { interrupt } : {}) });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); event.stopPropagation(); if (props.deciding.quiet.countsText()) deny(props.interrupts); }
    if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); props.onBack(); }
  };
  return (
    <div class="deny">
      <label>{props.label ?? 'What should it do instead?'}
        <textarea ref={field} rows={2} value={reason()} onInput={(event) => setReason(event.currentTarget.value)} onKeyDown={onKeyDown} />
      </label>
      <div class="decision-buttons">
        <button onClick={() => props.onBack()}>Back</button>
        <Show when={!props.interrupts}><button disabled={props.deciding.isOff()} onClick={props.deciding.press(() => deny(true))}>{props.word ?? 'Deny'} and interrupt</button></Show>
        <button class="danger" disabled={props.deciding.isOff()} onClick={props.deciding.press(() => deny(props.interrupts))}>{props.interrupts ? `${props.word ?? 'Deny'} and interrupt` : props.word ?? 'Deny'}</button>
      </div>
    </div>
  );
}
