// Owns the page of one conversation: where its parts stand, and another session beside it where the page is split. The header, the dock with decisions, tasks and queue, the box and
// the side panel are of other folders.
import { A, useParams } from '@solidjs/router';
import { Show, Suspense, createEffect, createSignal, lazy, on } from 'solid-js';
import { Composer } from '../composer/composer';
import { wholeText } from '../composer/content';
import { DecisionDock } from '../decision/dock';
import { useBeside } from '../lobby/beside';
import { useKeys } from '../parts/keys';
import { PaneContext } from '../parts/pane';
import { SidePanel } from '../side/side-panel';
import { TasksStrip } from '../side/tasks';
import { Between } from './between';
import { Header } from './header';
import { ConversationContext, openConversation, type Conversation } from '../live/store';
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
  const { beside, canSplit, show, toggle } = useBeside();
  const [isSecond, setSecond] = createSignal(false);
  const [second, openedSecond] = createSignal<Conversation>();
  // A half that has gone has no keys.
  createEffect(on(beside, () => { setSecond(false); openedSecond(undefined); }));
  useKeys('Conversation', [{ keys: '\\', word: 'Split', run: () => { if (!canSplit()) return false; toggle(); return; } }]);
  return (
    <div class="conversation" classList={{ 'is-split': beside() !== undefined }}>
      <Half conversation={conversation} rest={params.rest} isActive={!isSecond()} enter={() => setSecond(false)} />
      <Show when={beside()} keyed>{(id) => <Beside id={id} isActive={isSecond()} enter={() => setSecond(true)} close={() => show(null)} opened={openedSecond} />}</Show>
      <Show when={(isSecond() ? second() : undefined) ?? conversation} keyed>{(active) => <SidePanel conversation={active} />}</Show>
    </div>
  );
}

/** The session beside the open one. */
function Beside(props: { id: string; isActive: boolean; enter: () => void; close: () => void; opened: (conversation: Conversation) => void }) {
  const conversation = openConversation(props.id);
  props.opened(conversation);
  return <Half conversation={conversation} rest={undefined} isActive={props.isActive} enter={props.enter} close={props.close} />;
}

/** A conversation, on the whole page or on a half of it. */
function Half(props: { conversation: Conversation; rest: string | undefined; isActive: boolean; enter: () => void; close?: () => void }) {
  const { conversation } = props;
  const { id } = conversation;
  return (
    <PaneContext.Provider value={{ isActive: () => props.isActive }}>
      <ConversationContext.Provider value={conversation}>
        <section class="conversation-main" classList={{ 'is-active': props.isActive }} aria-label={props.close === undefined ? 'Conversation' : 'Conversation beside'} onFocusIn={() => props.enter()} onPointerDown={() => props.enter()}>
          <Show when={props.close}>{(close) => (
            <div class="beside-head"><A href={`/s/${id}`}>Open alone</A><button type="button" class="plain" onClick={() => close()()}>Close</button></div>
          )}</Show>
          <Header conversation={conversation} />
          <Show when={props.rest === 'changes'} fallback={<Transcript rest={props.rest} />}><Suspense><ChangesPage conversation={conversation} /></Suspense></Show>
          <div class="conversation-dock"><DecisionDock sessionId={id} /><Between conversation={conversation} /><TasksStrip conversation={conversation} /></div>
          <div class="conversation-box">
            <Show when={props.rest === 'changes' ? undefined : conversation.session()}>{(session) => (
              <Composer session={session()} suggestion={conversation.folded().suggestion}
                onSent={(uuid, draft) => conversation.echo(uuid, wholeText(draft), draft.pictures.map(({ mediaType, data }) => ({ mediaType, base64: data })))}
                onNotSent={conversation.dropEcho} />
            )}</Show>
          </div>
        </section>
      </ConversationContext.Provider>
    </PaneContext.Provider>
  );
}
