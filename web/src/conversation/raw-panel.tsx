// Owns a record as it is in the journal, beside the conversation.
import { A, useNavigate } from '@solidjs/router';
import { Show } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { useKeys } from '../parts/keys';
import { Loading } from '../parts/loading';
import { toast } from '../parts/toasts';
import { copyText } from '../text/copy';
import { openAsText } from '../text/output';
import { SafeText } from '../text/safe';
import { useConversation } from '../live/store';

/** More of a record than that is not drawn. */
const MOST_CHARACTERS = 40_000;

/** The raw record. */
export function RawPanel(props: { seq: number }) {
  const { id, folded } = useConversation();
  const navigate = useNavigate();
  const [record, { refetch }] = createAsked(() => props.seq, (seq) => rest.GET('/v1/sessions/{id}/events/{seq}', { params: { path: { id, seq } } }));
  const close = () => navigate(`/s/${id}/r/${props.seq}`);
  const line = () => JSON.stringify(record());
  const shown = () => JSON.stringify(record(), null, 2);
  useKeys('Raw record', [{ keys: 'Escape', word: 'Close', run: close }]);
  return (
    <aside class="raw-panel" aria-label="Raw record">
      <header>
        <h2 class="figures">Record {props.seq}</h2>
        <A class="plain" href={`/s/${id}/r/${Math.max(1, props.seq - 1)}/raw`} aria-label="Record before">‹ Before</A>
        <Show when={props.seq < folded().lastSeq}><A class="plain" href={`/s/${id}/r/${props.seq + 1}/raw`} aria-label="Next record">Next ›</A></Show>
        <button class="plain" onClick={close}>Close</button>
      </header>
      <Show when={!record.error} fallback={<p class="problem">{said(record.error).text} <button type="button" onClick={() => void refetch()}>Try again</button></p>}>
        <Show when={record()} fallback={<Loading>Loading the record</Loading>}>
          <div class="raw-acts">
            <button onClick={() => void copyText(`${line()}\n`).then((isCopied) => toast(isCopied ? 'Copied' : 'The browser did not let it be copied'))}>Copy as NDJSON</button>
            <button onClick={() => openAsText(`${line()}\n`)}>Open as text</button>
          </div>
          <pre tabIndex={0} role="region" aria-label="The record as JSON"><SafeText text={shown().slice(0, MOST_CHARACTERS)} code /></pre>
          <Show when={shown().length > MOST_CHARACTERS}><p class="quiet">{(shown().length - MOST_CHARACTERS).toLocaleString()} more characters</p></Show>
        </Show>
      </Show>
    </aside>
  );
}
