// Owns the search in a whole conversation, loaded or not: a field, how far the search is, and the hits with their turns.
import { useNavigate } from '@solidjs/router';
import { For, Show, createSignal, onCleanup } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { Layer } from '../shell/layer';
import { ago, count, exact, many } from '../shell/time';
import { hitsIn, turnOf, type Hit } from '../side/find';
import { journal, stubBytes } from '../side/journal';
import { SafeText } from '../text/safe';

const MOST_HITS = 500;
const AFTER_KEY_MS = 250;
const WHO: Record<Hit['who'], string> = { you: 'You', agent: 'Answer', thinking: 'Thought', call: 'Call', result: 'Result' };

/** The search. The newest hits come first. */
export default function FindLayer(props: { sessionId: string; close: () => void }) {
  const navigate = useNavigate();
  const [words, setWords] = createSignal('');
  const [hits, setHits] = createSignal<Hit[]>([]);
  const [far, setFar] = createSignal<{ done: number; of: number; leftOut: number; isOver: boolean } | null>(null);
  const [problem, setProblem] = createSignal('');
  const [turns] = createAsked(() => props.sessionId, readTurns);
  let stopper = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => { stopper.abort(); clearTimeout(timer); });

  const look = async (wanted: string) => {
    stopper.abort();
    stopper = new AbortController();
    const { signal } = stopper;
    setHits([]);
    setFar(null);
    setProblem('');
    if (wanted === '') return;
    let leftOut = 0;
    try {
      for await (const { entries, done, of } of journal(props.sessionId, signal)) {
        if (signal.aborted) return;
        leftOut += entries.filter((entry) => stubBytes(entry) !== undefined).length;
        const found = entries.flatMap((entry) => hitsIn(entry, wanted)).reverse();
        setHits((all) => [...found, ...all].slice(0, MOST_HITS));
        setFar({ done, of, leftOut, isOver: done >= of });
      }
    } catch (error) {
      if (!signal.aborted) setProblem(said(error).text);
    }
  };
  const onInput = (text: string) => {
    setWords(text);
    clearTimeout(timer);
    timer = setTimeout(() => void look(text.trim()), AFTER_KEY_MS);
  };
  const progress = () => {
    const now = far();
    if (now === null) return words().trim() === '' ? 'The whole conversation is searched, loaded or not.' : 'Looking…';
    const found = hits().length >= MOST_HITS ? `The newest ${count(MOST_HITS)} hits` : many(hits().length, 'hit');
    const left = now.leftOut > 0 ? ` ${many(now.leftOut, 'very large record')} not looked into.` : '';
    return now.isOver ? `${found}.${left}` : `${found}. Looking, ${count(now.done)} of ${count(now.of)}`;
  };
  const go = (hit: Hit) => {
    props.close();
    navigate(`/s/${props.sessionId}/r/${hit.seq}`);
  };
  return (
    <Layer title="Find" kind="top" onClose={props.close}>
      <div class="find">
        <input type="search" aria-label="Find in this conversation" autocomplete="off" value={words()} ref={(node) => queueMicrotask(() => node.focus())}
          onInput={(event) => onInput(event.currentTarget.value)}
          onKeyDown={(event) => { const first = hits()[0]; if (event.key === 'Enter' && !event.isComposing && first !== undefined) go(first); }} />
        <p class="quiet" role="status">{problem() || progress()}</p>
        <ol class="find-hits">
          <For each={hits()}>{(hit) => (
            <li>
              <button type="button" class="plain find-hit" onClick={() => go(hit)}>
                <span class="find-where faint"><span>{WHO[hit.who]} · turn {turnOf(hit.seq, turns() ?? [])}</span><time title={exact(hit.ts)}>{ago(hit.ts)}</time></span>
                <span class="find-words"><SafeText text={hit.before} /><mark><SafeText text={hit.match} /></mark><SafeText text={hit.after} /></span>
              </button>
            </li>
          )}</For>
        </ol>
        <Show when={hits().length === 0 && far()?.isOver}><p>Nothing here says that.</p></Show>
      </div>
    </Layer>
  );
}

/** The records at which turns begin. */
async function readTurns(id: string): Promise<number[]> {
  const starts: number[] = [];
  let cursor: string | null | undefined;
  try {
    do {
      const query = { limit: 500, ...(cursor == null ? {} : { cursor }) };
      const page = await rest.GET('/v1/sessions/{id}/turns', { params: { path: { id }, query } });
      starts.push(...page.items.map((turn) => turn.first_seq));
      cursor = page.next_cursor;
    } while (cursor != null);
  } catch { /* a hit without the right turn is still a hit */ }
  return starts.sort((a, b) => a - b);
}
