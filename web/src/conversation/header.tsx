// Owns the header of a conversation: its title, how it is, and the acts on the whole of it.
import { A } from '@solidjs/router';
import ChevronLeft from 'lucide-solid/icons/chevron-left';
import { Show, Suspense, createSignal, lazy } from 'solid-js';
import { BUSY_WORDS, interrupt, isDoing, rename, stop } from '../lobby/acts';
import { canAct } from '../daemon/role';
import type { Session } from '../daemon/types';
import { titleOf } from '../lobby/words';
import { BusyButton } from '../parts/busy';
import { titleWith, useKeys } from '../parts/keys';
import { openSide } from '../parts/side';
import { StateShape, shownAs, wordOf } from '../lobby/state';
import { clock, now } from '../parts/time';
import { showPanel } from '../side/panels';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { Company } from './company-chip';
import { ContextGauge } from './context-gauge';
import { HeaderMenus } from './header-menus';
import { HeaderMore } from './header-more';
import { PlanChip } from './plan-chip';
import type { Conversation } from '../live/store';
import './header.css';

const FindLayer = lazy(() => import('./header-find'));
const RewindLayer = lazy(() => import('./header-rewind'));

/** The header. */
export function Header(props: { conversation: Conversation }) {
  return <Show when={props.conversation.session()}>{(session) => <Filled conversation={props.conversation} session={session()} />}</Show>;
}

function Filled(props: { conversation: Conversation; session: Session }) {
  const [isRenaming, setRenaming] = createSignal(false);
  const layer = () => props.conversation.layer();
  const closeLayer = () => props.conversation.openLayer(null);
  const rewindAt = () => { const open = layer(); return open?.kind === 'rewind' ? open : undefined; };
  const shown = () => shownAs(props.session);
  const isWorking = () => props.session.turn != null || props.session.state === 'busy';
  const isRunning = () => ['starting', 'idle', 'busy', 'waiting'].includes(props.session.state);
  const state = () => {
    const { turn } = props.session;
    return turn != null && shown() === 'working' ? `${wordOf(shown())} ${clock(now() - Date.parse(turn.started_at))}` : wordOf(shown());
  };
  useKeys('Conversation', [
    { keys: 'r', word: 'Rename', run: () => { if (!canAct()) return false; setRenaming(true); return; } },
    { keys: '/', word: 'Find (slash)', run: () => { props.conversation.openLayer({ kind: 'find' }); } },
    { keys: 'Ctrl f', word: 'Find', inText: true, run: () => {
      // The second time it is the browser's own.
      if (layer()?.kind === 'find') return false;
      props.conversation.openLayer({ kind: 'find' });
      return;
    } },
  ]);
  const save = (title: string) => {
    setRenaming(false);
    if (title.trim() !== (props.session.title ?? '')) void rename(props.session.id, title);
  };
  return (
    <header class="conversation-header">
      <A class="header-back" href="/" aria-label="All sessions" title={titleWith('All sessions', 'Sessions', 'g s')}><ChevronLeft size={20} aria-hidden="true" /></A>
      <Show when={isRenaming()} fallback={
        <h1 class="header-title"><button type="button" class="plain one-line" disabled={!canAct()} title={`${spelledOut(titleOf(props.session))}\n${titleWith('Rename', 'Rename', 'r')}`} onClick={() => setRenaming(true)}><SafeText text={titleOf(props.session)} /></button></h1>
      }>
        <h1 class="only-heard"><SafeText text={titleOf(props.session)} /></h1>
        <input class="header-title" aria-label="Title" value={props.session.title ?? ''} placeholder={spelledOut(titleOf(props.session))} maxlength="1024"
          ref={(node) => queueMicrotask(() => { node.focus(); node.select(); })} onBlur={(event) => { if (isRenaming()) save(event.currentTarget.value); }}
          onKeyDown={(event) => {
            if (event.isComposing) return;
            if (event.key === 'Enter') save(event.currentTarget.value);
            if (event.key === 'Escape') { event.stopPropagation(); setRenaming(false); }
          }} />
      </Show>
      <div class="header-state">
        <span class="header-how"><StateShape shown={shown()} /> <span class="figures">{state()}</span></span>
        <PlanChip todos={props.conversation.folded().todos} open={() => { showPanel('plan'); openSide(); }} />
        <ContextGauge session={props.session} open={() => { showPanel('context'); openSide(); }} />
        <Show when={canAct()}><HeaderMenus session={props.session} /></Show>
        <Company others={props.conversation.others()} open={() => { showPanel('about'); openSide(); }} />
      </div>
      <div class="header-acts">
        <Show when={canAct() && isRunning()}>
          <Show when={isWorking()} fallback={<BusyButton title="Stop" busyWord={BUSY_WORDS.stop} isBusy={isDoing('stop', props.session.id)} run={() => stop(props.session.id)}><span aria-hidden="true">■</span> Stop</BusyButton>}>
            <BusyButton title={titleWith('Interrupt', 'Interrupt', 'Escape')} busyWord={BUSY_WORDS.interrupt} isBusy={isDoing('interrupt', props.session.id)} run={() => interrupt(props.session.id)}><span aria-hidden="true">■</span> Interrupt</BusyButton>
          </Show>
        </Show>
        <HeaderMore conversation={props.conversation} session={props.session} rename={() => setRenaming(true)} />
      </div>
      <Suspense>
        <Show when={layer()?.kind === 'find'}><FindLayer sessionId={props.session.id} close={closeLayer} /></Show>
        <Show when={rewindAt()}>{(at) => <RewindLayer conversation={props.conversation} session={props.session} at={at().prompt} close={closeLayer} />}</Show>
      </Suspense>
    </header>
  );
}
