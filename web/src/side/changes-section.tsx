// Owns the list of changed files: in the side panel from what is loaded, and from the whole journal once somebody looks.
import { A } from '@solidjs/router';
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup, type Accessor } from 'solid-js';
import type { Conversation } from '../live/store';
import { said } from '../daemon/daemon';
import type { Folded } from '../fold/model';
import { count } from '../parts/time';
import { Told } from '../parts/told';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { calm } from './calm';
import { changeIn, changeOf, fromCwd, withChanges, type Change, type ChangedFile } from './changes';
import { journal } from './journal';

const changesOf = (folded: Folded): Change[] => [...folded.calls.values()]
  .map((call) => (call.result === null || call.result.isError ? null : changeOf(call.result.typed, call.result.seq)))
  .filter((one) => one !== null).sort((a, b) => a.seq - b.seq);

/** The files that were changed in what is loaded. */
export const changedFiles = (folded: Folded): Map<string, ChangedFile> => withChanges(new Map(), changesOf(folded));

/** All files of a session that were changed. */
export interface AllChanges {
  files: Accessor<ChangedFile[]>;
  /** How far the reading of older records is; `null`: it is over. */
  reading: Accessor<{ done: number; of: number } | null>;
  problem: Accessor<string>;
}

/** Reads what is not loaded, and goes on with what comes. */
export function readChanges(conversation: Conversation): AllChanges {
  const stopper = new AbortController();
  onCleanup(() => stopper.abort());
  const folded = calm(() => conversation.folded(), 1_000);
  const [older, setOlder] = createSignal<ReadonlyMap<string, ChangedFile>>(new Map());
  const [reading, setReading] = createSignal<{ done: number; of: number } | null>(null);
  const [problem, setProblem] = createSignal('');
  /** Up to this record all is read; and whether more is being read. */
  let readUpTo = 0;
  let isReading = false;
  const readOlder = async () => {
    const end = conversation.folded().firstSeq;
    if (isReading || !conversation.hasOlder() || end <= readUpTo) return;
    isReading = true;
    try {
      let known: ReadonlyMap<string, ChangedFile> = older();
      for await (const { entries, done } of journal(conversation.id, stopper.signal, readUpTo)) {
        known = withChanges(known, entries.map(changeIn).filter((one) => one !== null));
        setReading({ done: Math.min(done, end), of: end });
        if (done >= end) break;
      }
      readUpTo = end;
      setOlder(known);
    } catch (error) {
      if (!stopper.signal.aborted) setProblem(said(error).text);
    } finally {
      isReading = false;
      setReading(null);
    }
  };
  // Whether there are older records is known once the newest ones are there; and a page that is open for long lets old ones go.
  const firstSeq = createMemo(() => (conversation.isOpened() ? folded().firstSeq : 0));
  createEffect(on(firstSeq, (seq) => { if (seq > 0) void readOlder(); }));
  const files = createMemo(() => [...withChanges(older(), changesOf(folded())).values()].sort((a, b) => a.path.localeCompare(b.path)));
  return { files, reading, problem };
}

/** How many lines the changes of a file added and removed. */
export function Counts(props: { file: ChangedFile }) {
  return (
    <span class="diff-counts figures">
      <span class="is-added">+{count(props.file.added)}</span> <Show when={props.file.before !== null} fallback={<span class="faint">new</span>}><span class="is-removed">−{count(props.file.removed)}</span></Show>
    </span>
  );
}

/** The list in the side panel. */
export function ChangesSection(props: { conversation: Conversation }) {
  const { files, reading, problem } = readChanges(props.conversation);
  const cwd = () => props.conversation.session()?.cwd ?? '/';
  const href = (path: string) => `/s/${props.conversation.id}/changes?file=${encodeURIComponent(path)}`;
  return (
    <>
      <Told><Show when={reading()}>{(now) => <p class="quiet">Reading older records, {count(now().done)} of {count(now().of)}</p>}</Show></Told>
      <Show when={problem()}><p class="problem">{problem()}</p></Show>
      <Show when={files().length > 0} fallback={<Show when={props.conversation.isOpened() && reading() === null}><p class="quiet">No tool has changed a file.</p></Show>}>
        <ul class="side-rows">
          <For each={files()}>{(file) => (
            <li><A class="side-row" href={href(file.path)} title={spelledOut(file.path)}>
              <code class="one-line side-path"><SafeText text={fromCwd(file.path, cwd())} /></code><Counts file={file} />
            </A></li>
          )}</For>
        </ul>
        <A class="side-all" href={`/s/${props.conversation.id}/changes`}>Read all changes</A>
      </Show>
    </>
  );
}
