// Owns what a list without a row says.
import { Match, Show, Switch } from 'solid-js';
import { isLive } from '../daemon/link';
import { lobby } from '../lobby/lobby';
import { Loading } from '../parts/loading';
import { hasList } from '../parts/layout';
import { NO_FILTER, inWords, isEmpty } from './filter';
import { QuickStart } from './quick-start';
import { filter, useFilter } from './view';

/** The empty list: nothing runs yet, nothing is found, or nothing is known. */
export function EmptyList() {
  const change = useFilter();
  return (
    <div class="list-empty">
      <Switch>
        <Match when={!lobby.isThere}><Loading>{isLive() ? 'Reading the sessions…' : 'Waiting for the daemon…'}</Loading></Match>
        <Match when={!isEmpty(filter())}>
          <p>No session has {inWords(filter())}.</p>
          <button type="button" onClick={() => change(NO_FILTER)}>Clear filters</button>
        </Match>
        <Match when={lobby.total === 0}>
          <Show when={!hasList()} fallback={<p class="quiet">No session yet.</p>}><h2>Nothing runs yet.</h2><QuickStart /></Show>
        </Match>
      </Switch>
    </div>
  );
}
