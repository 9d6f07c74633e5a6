// Owns the page of one conversation: where its parts stand. The header, the dock with decisions, tasks and queue, the box and
// the side panel are of other folders.
import { useParams } from '@solidjs/router';
import { Show } from 'solid-js';
import { ConversationContext, openConversation } from './store';
import { Transcript } from './transcript';

/** One conversation. Another session is another page. */
export function ConversationPage() {
  const params = useParams();
  return <Show when={params.id} keyed>{(id) => <One id={id} />}</Show>;
}

function One(props: { id: string }) {
  const conversation = openConversation(props.id);
  return (
    <ConversationContext.Provider value={conversation}>
      <div class="conversation">
        <section class="conversation-main" aria-label="Conversation">
          <header class="conversation-head"><h1 class="one-line">{conversation.session()?.title ?? conversation.session()?.last_prompt ?? 'Conversation'}</h1></header>
          <Transcript />
          <div class="conversation-dock" />
          <div class="conversation-box" />
        </section>
        <div class="conversation-side" />
      </div>
    </ConversationContext.Provider>
  );
}
