// Owns the line in the header of a conversation that says where else it is open.
import Users from 'lucide-solid/icons/users';
import { Show } from 'solid-js';
import type { AttachedClient } from '../daemon/types';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { companyWords } from '../live/company';

/** The line; nothing while nobody else is there. */
export function Company(props: { others: AttachedClient[]; open: () => void }) {
  const words = () => spelledOut(`Also open: ${companyWords(props.others)}`);
  return (
    <Show when={props.others.length > 0}>
      <button type="button" class="plain company" aria-label={words()} title={words()} onClick={() => props.open()}>
        <Users size={16} stroke-width={1.75} aria-hidden="true" /><span class="one-line">also open: <SafeText text={companyWords(props.others)} /></span>
      </button>
    </Show>
  );
}
