// Owns the limits of the account on the page of usage, as the CLIs of sessions said last.
import { For, Show } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { ago, exact, now } from '../parts/time';
import { SafeText } from '../text/safe';
import { bySize, isOld, nameOf, wordOf } from './limits-words';

/** The limits; nothing where no CLI has spoken of one. */
export function Limits() {
  const [limits, { refetch }] = createAsked(async () => (await rest.GET('/v1/rate-limits')).items.sort(bySize));
  return (
    <>
      <Show when={limits.error as unknown}>{(error) => <p class="problem">The limits of the account could not be read: {said(error()).text} <button type="button" onClick={() => void refetch()}>Try again</button></p>}</Show>
      <Show when={(limits()?.length ?? 0) > 0}>
        <section class="limits" aria-labelledby="limits-heading">
          <h2 id="limits-heading">Limits of the account</h2>
          <ul>
            <For each={limits()}>{(limit) => (
              <li classList={{ 'is-warned': limit.status !== 'allowed' && !isOld(limit, now()) }}>
                <b><SafeText text={nameOf(limit)} /></b>{' '}
                <Show when={!isOld(limit, now())} fallback={<span>Began anew</span>}>
                  <span><SafeText text={wordOf(limit)} /></span>{' '}
                  <Show when={limit.utilization !== null}>
                    <meter min="0" max="1" high="0.8" value={limit.utilization ?? 0} aria-label={`${nameOf(limit)}: used`} />{' '}
                    <span class="figures">{Math.round((limit.utilization ?? 0) * 100)} %</span>
                  </Show>
                </Show>
                <Show when={limit.resets_at}>{(at) => <span class="faint" title={exact(at())}> {isOld(limit, now()) ? `${ago(at())}` : `until ${exact(at())}`}</span>}</Show>
                <a class="faint" href={`/s/${limit.session_id}`} title={exact(limit.at)}> said {ago(limit.at)}</a>
              </li>
            )}</For>
          </ul>
        </section>
      </Show>
    </>
  );
}
