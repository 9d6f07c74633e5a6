// Owns the transcript: the conversation as a feed.
import { For } from 'solid-js';
import { useConversation } from './store';

/** The transcript. */
export function Transcript() {
  const { folded } = useConversation();
  return (
    <div class="transcript" role="feed">
      <For each={folded().blocks}>{(block) => <article>{block.kind}</article>}</For>
    </div>
  );
}
