// Owns giving files back what they held before a prompt: which prompt, then which files get which content, and only then the act.
import { useNavigate } from '@solidjs/router';
import { For, Match, Show, Switch, createMemo, createSignal, onCleanup } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { BUSY_WORDS, attempt, fork } from '../lobby/acts';
import { BusyButton } from '../parts/busy';
import { rest, said } from '../daemon/daemon';
import type { Session } from '../daemon/types';
import type { PromptBlock } from '../fold/model';
import { Layer } from '../parts/layer';
import { createLong } from '../parts/loading';
import { ago, exact, many } from '../parts/time';
import { toast } from '../parts/toasts';
import { changeIn, fromCwd, withChanges, type ChangedFile } from '../side/changes';
import { journal } from '../side/journal';
import { Diff } from '../text/diff-view';
import { SafeText } from '../text/safe';
import type { Conversation } from '../live/store';

interface Payload { canRewind?: boolean | null; error?: string | null; filesChanged?: (string | null)[] | null; insertions?: number | null; deletions?: number | null }

/** The dialog. `at`: the prompt that was chosen already. */
export default function RewindLayer(props: { conversation: Conversation; session: Session; at?: PromptBlock | undefined; close: () => void }) {
  const [prompt, setPrompt] = createSignal<PromptBlock | undefined>(props.at);
  const prompts = createMemo(() => props.conversation.folded().blocks
    .filter((block): block is PromptBlock => block.kind === 'prompt' && block.uuid !== null && !block.isOfTheCli && block.seq > 0).reverse());
  return (
    <Layer title="Rewind files" kind="wide" onClose={props.close}>
      <Show when={prompt()} keyed fallback={
        <div class="rewind">
          <p class="quiet">Files get back what they held before a message. First you see which ones, and what. The conversation stays as it is.</p>
          <Show when={prompts().length > 0} fallback={<p>There is no message of yours to go back to.</p>}>
            <ol class="rewind-prompts">
              <For each={prompts()}>{(one) => (
                <li><button type="button" class="plain" onClick={() => setPrompt(one)}>
                  <span class="one-line"><SafeText text={one.text.slice(0, 200) || 'An image'} /></span><time class="faint" title={exact(one.at)}>{ago(one.at)}</time>
                </button></li>
              )}</For>
            </ol>
          </Show>
          <Show when={props.conversation.hasOlder()}><BusyButton busyWord="Loading…" run={() => props.conversation.loadOlder(1_000)}>Older messages</BusyButton></Show>
        </div>
      }>{(one) => <Preview {...props} prompt={one} back={() => setPrompt(undefined)} />}</Show>
    </Layer>
  );
}

function Preview(props: { conversation: Conversation; session: Session; prompt: PromptBlock; back: () => void; close: () => void }) {
  const navigate = useNavigate();
  const params = () => ({ path: { id: props.session.id } });
  const body = (dryRun: boolean) => ({ user_message_id: props.prompt.uuid ?? '', dry_run: dryRun });
  const stopper = new AbortController();
  onCleanup(() => stopper.abort());
  const [preview] = createAsked(async () => {
    try {
      return (await rest.POST('/v1/sessions/{id}/rewind', { params: params(), body: body(true) })).response as Payload | null;
    } catch (error) {
      return { canRewind: false, error: said(error).text } satisfies Payload;
    }
  });
  const [files] = createAsked(async () => {
    let known: Map<string, ChangedFile> = new Map();
    for await (const { entries } of journal(props.session.id, stopper.signal, props.prompt.seq)) {
      known = withChanges(known, entries.map(changeIn).filter((one) => one !== null));
    }
    return known;
  });
  const rewind = async () => {
    const done = await attempt(rest.POST('/v1/sessions/{id}/rewind', { params: params(), body: body(false) }));
    const answer = done?.response as Payload | null | undefined;
    if (answer?.canRewind === false) toast(answer.error ?? 'Nothing was changed.', { isProblem: true });
    else if (done !== undefined) {
      toast(`${many(preview()?.filesChanged?.length ?? 0, 'file has', 'files have')} what they held before that message.`);
      props.close();
    }
  };
  const forkBefore = async () => {
    const query = { order: 'desc' as const, before: props.prompt.seq, limit: 1 };
    const last = await attempt(rest.GET('/v1/sessions/{id}/messages', { params: { ...params(), query } }));
    const at = last?.items[0]?.uuid;
    if (last !== undefined && at == null) toast('No message comes before this one.');
    const made = at == null ? undefined : await fork(props.session.id, at);
    if (made !== undefined) navigate(`/s/${made.id}`);
  };
  const paths = () => (preview()?.filesChanged ?? []).filter((path): path is string => path !== null);
  return (
    <div class="rewind">
      <p>Before: <SafeText text={props.prompt.text.slice(0, 200) || 'an image'} /></p>
      <Switch>
        <Match when={preview.loading}><p class="quiet">Asking what would change…</p></Match>
        <Match when={preview()?.canRewind !== true}>
          <p class="problem">{preview()?.error ?? 'The agent kept no earlier content of its files.'}</p>
          <p class="quiet">A session keeps it where it was made with “file checkpoints”.</p>
        </Match>
        <Match when={paths().length === 0}><p>No file would change.</p></Match>
        <Match when={true}>
          <p>{many(paths().length, 'file')} would change: <span class="diff-counts figures"><span class="is-added">+{preview()?.insertions ?? 0}</span> <span class="is-removed">−{preview()?.deletions ?? 0}</span></span></p>
          <ul class="rewind-files">
            <For each={paths()}>{(path) => <FileBack path={path} cwd={props.session.cwd} file={files()?.get(path)} isRead={files() !== undefined} />}</For>
          </ul>
        </Match>
      </Switch>
      <div class="layer-acts">
        <button type="button" onClick={props.back}>Another message</button>
        <BusyButton title="A copy of the conversation that ends before this message" busyWord={BUSY_WORDS.fork} run={forkBefore}>Fork before it</BusyButton>
        <BusyButton class="primary" disabled={preview()?.canRewind !== true || paths().length === 0} busyWord="Rewinding…" run={rewind}>{paths().length > 0 ? `Rewind ${many(paths().length, 'file')}` : 'Rewind'}</BusyButton>
      </div>
    </div>
  );
}

function FileBack(props: { path: string; cwd: string; file: ChangedFile | undefined; isRead: boolean }) {
  const isLong = createLong(() => props.file === undefined && !props.isRead);
  const words = () => {
    if (props.file === undefined) return props.isRead ? 'Its content is not in the records.' : isLong() ? 'Reading…' : '';
    return props.file.before === null ? 'It was made since then, and is removed.' : 'It gets back:';
  };
  return (
    <li class="rewind-file">
      <details>
        <summary><code class="one-line"><SafeText text={fromCwd(props.path, props.cwd)} /></code></summary>
        <p class="quiet">{words()}</p>
        <Show when={props.file?.before != null ? props.file : undefined}>{(file) => (
          <Show when={file().after !== undefined} fallback={<Diff before="" after={file().before ?? ''} path={props.path} />}>
            <Diff before={file().after ?? ''} after={file().before ?? ''} path={props.path} />
          </Show>
        )}</Show>
      </details>
    </li>
  );
}
