// Owns the line about the connection: nothing in the first 1.5 s of a loss, then what is so, and when the page tries again.
import { Match, Show, Switch, createEffect, createMemo, createSignal, onCleanup } from 'solid-js';
import { connect, connection, isLive, ride } from '../daemon/link';
import { now } from '../parts/time';
import { isOld, reload } from './upgrade';

/** A loss shorter than this is no news. */
const CALM_MS = 1_500;
/** A daemon that said good-bye is believed to come back for so long. */
const RESTART_MS = 30_000;

/** The banner. It is a polite region, and empty while all is well. */
export function Banner() {
  const [saidBye, setSaidBye] = createSignal(false);
  onCleanup(ride({ greeting: () => [], takes: (frame) => frame.type === 'trunkline.shutdown', frame: () => { setSaidBye(true); } }));
  createEffect(() => { if (isLive()) setSaidBye(false); });
  const [isNews, setNews] = createSignal(false);
  createEffect(() => {
    const state = connection();
    const wait = state.kind === 'lost' ? state.since + CALM_MS - Date.now() : Infinity;
    setNews(wait <= 0);
    if (wait <= 0 || wait === Infinity) return;
    const timer = setTimeout(() => setNews(true), wait);
    onCleanup(() => clearTimeout(timer));
  });
  const lost = createMemo(() => { const state = connection(); return state.kind === 'lost' && isNews() ? state : undefined; });
  const isRestarting = () => saidBye() && now() - (lost()?.since ?? 0) < RESTART_MS;
  const asOf = () => new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }).format(lost()?.since ?? now());
  const wait = () => Math.max(0, Math.ceil(((lost()?.tryAt ?? 0) - now()) / 1000));
  return (
    <div class="banner-place">
      <div role="status" aria-live="polite">
        <Switch>
          <Match when={lost() && isRestarting()}>
            <p class="banner is-calm"><span aria-hidden="true">◔</span> The daemon is restarting. Your agents go on.</p>
          </Match>
          <Match when={lost()}>
            <p class="banner"><span aria-hidden="true">▲</span> Offline. As of {asOf()}.</p>
          </Match>
          <Match when={isOld()}>
            <p class="banner is-calm"><span aria-hidden="true">◔</span> The daemon has a newer console. It comes when this turn is over.</p>
          </Match>
        </Switch>
      </div>
      <Show when={isOld() && lost() === undefined}>
        <section class="banner-try is-calm" aria-label="Connection"><button type="button" onClick={reload}>Load it now</button></section>
      </Show>
      <Show when={lost()}>
        <section class="banner-try" aria-label="Connection" classList={{ 'is-calm': isRestarting() }}>
          <span class="figures">{wait() > 0 ? `Trying again in ${wait()} s` : 'Trying now'}</span>
          <button type="button" onClick={connect}>Try now</button>
        </section>
      </Show>
    </div>
  );
}
