// Owns the daemon's configuration as the page shows it: each value with its origin, read only.
import { For, Show, createMemo, createSignal } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { Told } from '../parts/told';

/** The part "Configuration". */
export function Configuration() {
  const [loaded, { refetch }] = createAsked(() => rest.GET('/v1/daemon/configuration'));
  const [filter, setFilter] = createSignal('');
  const rows = createMemo(() => {
    if (loaded.error || !loaded()) return [];
    const wanted = filter().toLowerCase();
    return Object.entries(loaded()?.values ?? {}).filter(([key]) => key.toLowerCase().includes(wanted)).sort(([a], [b]) => a.localeCompare(b));
  });
  return (
    <div class="choices">
      <Told><Show when={loaded.error as unknown}>{(error) => <p class="problem">The configuration could not be read: {said(error()).text} <button type="button" onClick={() => void refetch()}>Try again</button></p>}</Show></Told>
      <Show when={!loaded.error && loaded()}>{(configuration) => (
        <>
          <p class="quiet">{configuration().file ? <>The daemon read it at its start from <code>{configuration().file}</code>, where it is changed.</> : 'The daemon found no configuration file at its start. The defaults hold.'}</p>
          <input type="search" placeholder="Filter" aria-label="Filter the configuration" value={filter()} onInput={(event) => setFilter(event.currentTarget.value)} />
          <div class="usage-table" tabindex="0" role="region" aria-label="The configuration in force">
            <table><thead><tr><th scope="col">Name</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
              <tbody><For each={rows()}>{([key, one]) => (
                <tr><th scope="row"><code>{key}</code></th><td class="config-value"><code>{JSON.stringify(one.value)}</code></td><td class="quiet">{one.origin}</td></tr>
              )}</For></tbody></table>
          </div>
          <Show when={rows().length === 0}><p>No name has "{filter()}".</p></Show>
          <Show when={configuration().variables.length > 0}><p class="quiet">Sessions get these variables, whose values are not shown: <code>{configuration().variables.join(', ')}</code></p></Show>
        </>
      )}</Show>
    </div>
  );
}
