// Owns the line about what happens between two answers, so that a silence has a reason: the API is asked again, or the conversation
// is being made shorter.
import { Show, createMemo } from 'solid-js';
import type { Folded } from '../fold/model';
import type { Conversation } from '../live/store';
import { SafeText } from '../text/safe';

/** The words; empty while nothing of it happens. */
export function betweenWords({ retry, isCompacting }: Pick<Folded, 'retry' | 'isCompacting'>): string {
  if (retry !== null) return `The API is asked again, try ${retry.attempt}${retry.of > 0 ? ` of ${retry.of}` : ''}${retry.reason === '' ? '' : `: ${retry.reason}`}`;
  return isCompacting ? 'The conversation is being compacted' : '';
}

/** The line above the box. */
export function Between(props: { conversation: Conversation }) {
  const words = createMemo(() => betweenWords(props.conversation.folded()));
  return <div role="status" class="between-place"><Show when={words()}>{(text) => <p class="between one-line"><span aria-hidden="true">≡</span> <SafeText text={text()} /></p>}</Show></div>;
}
