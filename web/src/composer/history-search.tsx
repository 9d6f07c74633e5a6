// Owns the search in what a person sent before (Alt R): a field and a list, the newest first.
import { For, Show, createMemo, createSignal, onMount } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { useBack } from '../parts/back';
import { found, readHistory } from './history';

const MOST_SHOWN = 30;

/** The search. `choose` puts a text into the box; `close` leaves it as it was. */
export function HistorySearch(props: { sessionId: string; choose: (text: string) => void; close: () => void }) {
  const [history] = createAsked(() => props.sessionId, readHistory);
  const [query, setQuery] = createSignal('');
  const [active, setActive] = createSignal(0);
  const hits = createMemo(() => found(history() ?? [], query()).slice(0, MOST_SHOWN));
  let field: HTMLInputElement | undefined;
  let list: HTMLUListElement | undefined;
  onMount(() => field?.focus());
  useBack(() => true, () => props.close());
  const move = (by: number) => {
    if (hits().length === 0) return;
    setActive((at) => (at + by + hits().length) % hits().length);
    list?.children[active()]?.scrollIntoView({ block: 'nearest' });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const hit = hits()[active()];
    if (event.key === 'Escape') props.close();
    else if (event.key === 'ArrowDown' || (event.altKey && event.key.toLowerCase() === 'r')) move(1);
    else if (event.key === 'ArrowUp') move(-1);
    else if (event.key === 'Enter' && hit !== undefined) props.choose(hit);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="history-search">
      <div class="with-button">
        <input ref={(node) => { field = node; }} type="search" aria-label="Search what you sent" placeholder="Search what you sent" autocomplete="off"
          role="combobox" aria-autocomplete="list" aria-controls="history-hits" aria-expanded={hits().length > 0}
          aria-activedescendant={hits().length > 0 ? `history-hit-${active()}` : undefined}
          onInput={(event) => { setQuery(event.currentTarget.value); setActive(0); }} onKeyDown={onKey} />
        <button type="button" class="plain" onClick={() => props.close()}>Close</button>
      </div>
      <Show when={hits().length > 0} fallback={<p class="quiet history-none">{history.loading ? 'Looking…' : 'Nothing that you sent has these words.'}</p>}>
        <ul ref={(node) => { list = node; }} id="history-hits" class="completions is-open-list" role="listbox" aria-label="What you sent">
          <For each={hits()}>{(text, place) => (
            <li id={`history-hit-${place()}`} class="completion" role="option" aria-selected={place() === active()} onClick={() => props.choose(text)}>
              <span class="one-line">{text.slice(0, 300)}</span>
            </li>
          )}</For>
        </ul>
      </Show>
    </div>
  );
}
