// Owns the page "Sessions": the list where the frame has none beside the page, else what a person does first.
import { A } from '@solidjs/router';
import { For, Match, Show, Switch } from 'solid-js';
import { lobby, sessions } from '../lobby/lobby';
import { hintOf } from '../parts/keys';
import { hasList } from '../parts/layout';
import { many } from '../parts/time';
import { needing } from '../lobby/needing';
import { SafeText } from '../text/safe';
import { SessionList } from './list';
import { nextNeeding } from '../lobby/order';
import { QuickStart } from './quick-start';
import { titleOf } from '../lobby/words';

/** The page. */
export function SessionsPage() {
  return <Show when={!hasList()} fallback={<Home />}><h1 class="only-heard">Sessions</h1><SessionList /></Show>;
}

/** Beside the list: what needs a person, and a new session. */
function Home() {
  const next = () => nextNeeding(sessions());
  return (
    <div class="home">
      <Show when={lobby.isThere}>
        <div class="home-say">
          <Switch fallback={<><h1>Nothing needs you.</h1><p class="quiet">{many(lobby.total, 'session')}.<Hint word="Palette" keys="Ctrl k" says="goes anywhere" /><Hint word="Keys" keys="?" says="shows the keys" /></p></>}>
            <Match when={lobby.total === 0}><h1>Nothing runs yet.</h1><p class="quiet">Say where, and what it should do.</p></Match>
            <Match when={needing() > 0 && next()}>{(one) => (
              <>
                <h1>{needing() === 1 ? 'One session needs you.' : `${needing()} sessions need you.`}</h1>
                <p><A class="button" href={`/s/${one().id}`}><SafeText text={titleOf(one())} /> <Keys keys={hintOf('Next that needs you', '.')} /></A></p>
              </>
            )}</Match>
          </Switch>
        </div>
        <QuickStart />
      </Show>
    </div>
  );
}

function Keys(props: { keys: string }) {
  return <For each={props.keys.split(' ').filter(Boolean)}>{(key) => <><kbd>{key}</kbd> </>}</For>;
}

/** A sentence about a key, as the person has it. */
function Hint(props: { word: string; keys: string; says: string }) {
  return <Show when={hintOf(props.word, props.keys)}>{(keys) => <> <Keys keys={keys()} />{props.says}.</>}</Show>;
}
