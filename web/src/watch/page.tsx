// Owns the page "Watch", for a second screen: up to nine sessions that are read from three metres.
import { A, useSearchParams } from '@solidjs/router';
import { For, Show, createMemo } from 'solid-js';
import { lobby, sessions } from '../lobby/lobby';
import type { SessionSummary } from '../daemon/types';
import { askedBy } from '../lobby/asked';
import { arrange } from '../lobby/order';
import { lastPart, sayingOf, timeOf, titleOf } from '../lobby/words';
import { StateShape, shownAs, wordOf } from '../lobby/state';
import { exact, many, now } from '../parts/time';
import { SafeText } from '../text/safe';
import '../look/watch.css';

const MOST = 9;

/** The page. Without a choice (`?only=id,id`) the first nine in the order of attention are there. */
export default function WatchPage() {
  const [query, setQuery] = useSearchParams<{ only?: string }>();
  const only = () => (query.only ?? '').split(',').filter((id) => id !== '');
  const ids = createMemo(() => {
    if (only().length > 0) return only().filter((id) => lobby.byId[id] !== undefined).slice(0, MOST);
    return arrange(sessions()).flatMap((group) => group.projects.flatMap((project) => project.rows.map((row) => row.id))).slice(0, MOST);
  });
  return (
    <div class="watch">
      <header class="watch-head">
        <h1>Watch</h1>
        <Show when={only().length > 0} fallback={<Show when={ids().length > 0}><span class="quiet">The first {MOST} in the order of attention. “Keep” leaves the chosen ones alone here.</span></Show>}>
          <button type="button" onClick={() => setQuery({ only: null })}>All that matter</button>
        </Show>
      </header>
      <ul class="watch-tiles">
        <For each={ids()} fallback={<li class="quiet">Nothing runs.</li>}>{(id) => (
          <Show when={lobby.byId[id]}>{(session) => (
            <Tile session={session()} isKept={only().includes(id)}
              onKeep={() => setQuery({ only: (only().includes(id) ? only().filter((one) => one !== id) : [...only(), id].slice(0, MOST)).join(',') || null })} />
          )}</Show>
        )}</For>
      </ul>
    </div>
  );
}

/** One session: shape, title, current step, and three lines. */
function Tile(props: { session: SessionSummary; isKept: boolean; onKeep: () => void }) {
  const saying = createMemo(() => sayingOf(props.session, askedBy(props.session), now()));
  const shown = () => shownAs(props.session);
  return (
    <li class="tile" classList={{ 'is-needing': shown() === 'needs' }}>
      <div class="tile-head">
        <StateShape shown={shown()} large />
        <A href={`/s/${props.session.id}`} class="tile-title"><SafeText text={titleOf(props.session)} /></A>
        <button type="button" class="plain tile-keep" aria-pressed={props.isKept} onClick={props.onKeep}>Keep</button>
      </div>
      <p class="tile-state figures"><b>{wordOf(shown())}</b> <time title={exact(props.session.updated_at)}>{timeOf(props.session, now())}</time></p>
      <p class="tile-step"><SafeText text={saying().words} /><Show when={saying().code !== ''}> <code><SafeText text={saying().code} /></code></Show></p>
      <p class="tile-line quiet one-line"><SafeText text={props.session.last_prompt ?? ''} /></p>
      <p class="tile-line faint one-line figures"><SafeText text={lastPart(props.session.cwd)} /> · {many(props.session.turns, 'turn')}<Show when={props.session.queued_prompts > 0}> · {props.session.queued_prompts} queued</Show></p>
    </li>
  );
}
