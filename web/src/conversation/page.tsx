// Owns the page of one conversation: where its parts stand. The header, the dock with decisions, tasks and queue, the box and
// the side panel are of other folders.
import { useParams } from '@solidjs/router';
import { Show, Suspense, lazy } from 'solid-js';
import { Composer } from '../composer/composer';
import { wholeText } from '../composer/content';
import { DecisionDock } from '../decision/dock';
import { SidePanel } from '../side/side-panel';
import { TasksStrip } from '../side/tasks';
import { Between } from './between';
import { Header } from './header';
import { ConversationContext, openConversation } from '../live/store';
import { Transcript } from './transcript';

const ChangesPage = lazy(() => import('../side/changes-page'));

/** One conversation. Another session is another page. */
export function ConversationPage() {
  const params = useParams();
  return <Show when={params.id} keyed>{(id) => <One id={id} />}</Show>;
}

function One(props: { id: string }) {
  const params = useParams();
  const conversation = openConversation(props.id);
  return (
    <ConversationContext.Provider value={conversation}>
      <div class="conversation">
        <section class="conversation-main" aria-label="Conversation">
          <Header conversation={conversation} />
          <Show when={params.rest === 'changes'} fallback={<Transcript />}><Suspense><ChangesPage conversation={conversation} /></Suspense></Show>
          <div class="conversation-dock"><DecisionDock sessionId={props.id} /><Between conversation={conversation} /><TasksStrip conversation={conversation} /></div>
          <div class="conversation-box">
            <Show when={params.rest === 'changes' ? undefined : conversation.session()}>{(session) => (
              <Composer session={session()} suggestion={conversation.folded().suggestion}
                onSent={(uuid, draft) => conversation.echo(uuid, wholeText(draft), draft.pictures.map(({ mediaType, data }) => ({ mediaType, base64: data })))}
                onNotSent={conversation.dropEcho} />
            )}</Show>
          </div>
        </section>
        <SidePanel conversation={conversation} />
      </div>
    </ConversationContext.Provider>
  );
}
