// Owns the search in a whole conversation, loaded or not: a field, how far the daemon is with it, and the hits with their turns.
import { useNavigate } from '@solidjs/router';
import { For, Show, createSignal, onCleanup } from 'solid-js';
import { rest, said } from '../daemon/daemon';
import type { FindHit } from '../daemon/types';
import { Layer } from '../parts/layer';
import { ago, exact } from '../parts/time';
import { SafeText } from '../text/safe';
import { MOST_HITS, NOTHING, placeOfHit, progressOf, withPage, type Found } from './find';

const AFTER_KEY_MS = 250;
/** The longest words that the daemon looks for. */
const MOST_CHARACTERS = 200;
const WHO = { you: 'You', agent: 'Answer', thinking: 'Thought', call: 'Call', result: 'Result' };

/** The search. The newest hits come first. */
export default function FindLayer(props: { sessionId: string; close: () => void }) {
  const navigate = useNavigate();
  const [words, setWords] = createSignal('');
  const [found, setFound] = createSignal<Found>(NOTHING);
  const [problem, setProblem] = createSignal('');
  let stopper = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => { stopper.abort(); clearTimeout(timer); });

  const look = async (wanted: string) => {
    stopper.abort();
    stopper = new AbortController();
    const { signal } = stopper;
    setFound(NOTHING);
    setProblem('');
    if (wanted === '') return;
    let cursor: string | null | undefined;
    try {
      do {
        const query = { q: wanted, limit: 100, ...(cursor == null ? {} : { cursor }) };
        const page = await rest.GET('/v1/sessions/{id}/find', { params: { path: { id: props.sessionId }, query }, signal });
        setFound((before) => withPage(before, page));
        cursor = page.next_cursor;
      } while (cursor != null && found().hits.length < MOST_HITS && !signal.aborted);
    } catch (error) {
      if (!signal.aborted) setProblem(said(error).text);
    }
  };
  const onInput = (text: string) => {
    setWords(text);
    clearTimeout(timer);
    timer = setTimeout(() => void look(text.trim()), AFTER_KEY_MS);
  };
  const go = (hit: FindHit) => {
    props.close();
    navigate(placeOfHit(props.sessionId, hit));
  };
  return (
    <Layer title="Find" kind="top" onClose={props.close}>
      <div class="find">
        <input type="search" aria-label="Find in this conversation" autocomplete="off" maxlength={MOST_CHARACTERS} value={words()} ref={(node) => queueMicrotask(() => node.focus())}
          onInput={(event) => onInput(event.currentTarget.value)}
          onKeyDown={(event) => { const first = found().hits[0]; if (event.key === 'Enter' && !event.isComposing && first !== undefined) go(first); }} />
        <p class="quiet" role="status">{problem() || progressOf(found(), words().trim())}</p>
        <ol class="find-hits">
          <For each={found().hits}>{(hit) => (
            <li>
              <button type="button" class="plain find-hit" onClick={() => go(hit)}>
                <span class="find-where faint">
                  <span>{hit.parent_tool_use_id != null ? 'Sub-agent · ' : ''}{WHO[hit.who]}{hit.tool == null ? '' : ` of ${hit.tool}`}{hit.turn == null ? '' : ` · turn ${hit.turn}`}</span>
                  <time title={exact(hit.ts)}>{ago(hit.ts)}</time>
                </span>
                <span class="find-words"><SafeText text={hit.excerpt.before} /><mark><SafeText text={hit.excerpt.words} /></mark><SafeText text={hit.excerpt.after} /></span>
              </button>
            </li>
          )}</For>
        </ol>
        <Show when={found().hits.length === 0 && found().isOver}><p>Nothing here says that.</p></Show>
      </div>
    </Layer>
  );
}
