// Owns the page of all changes of a session: each file as one comparison, with remarks on lines that go to the agent at once.
import { A, useNavigate, useSearchParams } from '@solidjs/router';
import { For, Show, createEffect, createMemo, createSignal } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { putIntoBox } from '../composer/draft';
import type { Conversation } from '../live/store';
import { canAct } from '../daemon/role';
import { useKeys } from '../parts/keys';
import { count, many } from '../parts/time';
import { Told } from '../parts/told';
import { compareAnywhere } from '../text/diff-view';
import { hunksOf, type DiffRow } from '../text/diff';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { fromCwd, type ChangedFile } from './changes';
import { Counts, readChanges } from './changes-section';
import { openReview, promptOf, remarkOn, type Review } from './review';
import './side.css';

const FIRST_ROWS = 400;
const STEP = 200;

/** The page. */
export default function ChangesPage(props: { conversation: Conversation }) {
  const navigate = useNavigate();
  const [query] = useSearchParams<{ file?: string }>();
  const { files, reading, problem } = readChanges(props.conversation);
  const review = openReview(props.conversation.id);
  const cwd = () => props.conversation.session()?.cwd ?? '/';
  const back = () => navigate(`/s/${props.conversation.id}`);
  const send = () => {
    if (review.remarks().length === 0) return;
    putIntoBox(props.conversation.id, promptOf(review.remarks(), (path) => fromCwd(path, cwd())));
    review.clear();
    back();
  };
  useKeys('Changes', [{ keys: 'Escape', word: 'Back to the conversation', run: back }]);
  return (
    <section class="changes-page" aria-label="Changes">
      <header class="changes-head">
        <A href={`/s/${props.conversation.id}`}>‹ Conversation</A>
        <h2>Changes <span class="faint figures">{files().length > 0 ? many(files().length, 'file') : ''}</span></h2>
        <Show when={canAct() && review.remarks().length > 0}>
          <button type="button" class="plain" onClick={() => review.clear()}>Drop the remarks</button>
          <button type="button" class="primary" onClick={send}>Put {many(review.remarks().length, 'remark')} into the box</button>
        </Show>
      </header>
      <Told><Show when={reading()}>{(now) => <p class="quiet">Reading older records, {count(now().done)} of {count(now().of)}</p>}</Show></Told>
      <Show when={problem()}><p class="problem">{problem()}</p></Show>
      <Show when={files().length > 0} fallback={<Show when={props.conversation.isOpened() && reading() === null} fallback={<p class="quiet">Waiting for the records</p>}><p>No tool of this session has changed a file. Changes by commands are not known here.</p></Show>}>
        <p class="faint">The changes by tools since this session began, each file as one. Changes by commands are not known here.</p>
        <For each={files().map((file) => file.path)}>{(path) => (
          <Show when={files().find((file) => file.path === path)}>{(file) => (
            <File file={file()} cwd={cwd()} review={review} isOpen={query.file === path || (query.file === undefined && files().length <= 8)} isWanted={query.file === path} />
          )}</Show>
        )}</For>
      </Show>
    </section>
  );
}

function File(props: { file: ChangedFile; cwd: string; review: Review; isOpen: boolean; isWanted: boolean }) {
  const [isOpen, setOpen] = createSignal(props.isOpen);
  let head: HTMLElement | undefined;
  createEffect(() => { if (props.isWanted) { setOpen(true); queueMicrotask(() => head?.scrollIntoView({ block: 'start' })); } });
  const name = () => fromCwd(props.file.path, props.cwd);
  const remarks = () => props.review.remarks().filter((one) => one.path === props.file.path).length;
  return (
    <section class="card changed-file" aria-label={spelledOut(name())}>
      <h3 ref={(node) => { head = node; }}>
        <button type="button" class="plain changed-head" aria-expanded={isOpen()} onClick={() => setOpen(!isOpen())}>
          <span aria-hidden="true">{isOpen() ? '▾' : '▸'}</span>
          <code class="one-line"><SafeText text={name()} /></code>
          <Show when={remarks() > 0}><span class="chip">{many(remarks(), 'remark')}</span></Show>
          <Counts file={props.file} />
        </button>
      </h3>
      <Show when={isOpen()}>
        <Show when={props.file.after !== undefined && props.file.before !== undefined}
          fallback={<p class="quiet changed-unknown">Its content is too large, or not in the records: {many(props.file.changes, 'change')}.</p>}>
          <Rows path={props.file.path} before={props.file.before ?? ''} after={props.file.after ?? ''} review={props.review} />
        </Show>
      </Show>
    </section>
  );
}

interface Shown { row: DiffRow | null; skipped: number }

function Rows(props: { path: string; before: string; after: string; review: Review }) {
  const [rows] = createAsked(() => [props.before, props.after] as const, ([before, after]) => compareAnywhere(before, after));
  const [most, setMost] = createSignal(FIRST_ROWS);
  const [asked, setAsked] = createSignal<string | null>(null);
  const items = createMemo((): Shown[] => {
    const { hunks, after } = hunksOf(rows() ?? []);
    const shown = hunks.flatMap((hunk): Shown[] => [...(hunk.skipped > 0 ? [{ row: null, skipped: hunk.skipped }] : []), ...hunk.rows.map((row) => ({ row, skipped: 0 }))]);
    return after > 0 && shown.length > 0 ? [...shown, { row: null, skipped: after }] : shown;
  });
  const onKey = (event: KeyboardEvent) => {
    const from = event.target as HTMLElement;
    if (!from.matches('.remark-on') || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('.remark-on')];
    all[all.indexOf(from) + (event.key === 'ArrowDown' ? 1 : -1)]?.focus();
    event.preventDefault();
  };
  return (
    <Show when={rows()} fallback={<p class="quiet">Comparing…</p>}>
      <div class="diff review-rows" onKeyDown={onKey}>
        <Show when={items().length === 0}><p class="quiet">It holds again what it held before.</p></Show>
        <For each={items().slice(0, most())}>{(item, place) => (
          <Show when={item.row} fallback={<p class="faint">{many(item.skipped, 'equal line')}</p>}>{(row) => (
            <Line path={props.path} row={row()} review={props.review} isFirst={place() <= 1} asked={asked()} ask={setAsked} />
          )}</Show>
        )}</For>
        <Show when={items().length > most()}>
          <button type="button" class="plain diff-gap" onClick={() => setMost(most() + STEP)}>▾ {count(items().length - most())} more lines · show {Math.min(STEP, items().length - most())}</button>
        </Show>
      </div>
    </Show>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '−' } as const;

function Line(props: { path: string; row: DiffRow; review: Review; isFirst: boolean; asked: string | null; ask: (line: string | null) => void }) {
  const side = () => (props.row.new === null ? 'old' as const : 'new' as const);
  const line = () => props.row.new ?? props.row.old ?? 0;
  const key = () => `${side()} ${line()}`;
  const remark = () => remarkOn(props.review.remarks(), props.path, line(), side());
  const say = (text: string) => {
    props.review.say({ path: props.path, line: line(), side: side(), code: props.row.text, text });
    props.ask(null);
  };
  let field: HTMLTextAreaElement | undefined;
  return (
    <>
      <div class={`diff-row review-row is-${props.row.kind}`} data-line={line()} data-sign={SIGNS[props.row.kind]}>
        <Show when={canAct()}>
          <button type="button" class="remark-on" tabindex={props.isFirst ? 0 : -1} aria-label={`Remark on ${side() === 'old' ? 'removed line' : 'line'} ${line()}`} title="Remark" onClick={() => props.ask(key())}>+</button>
        </Show>
        <SafeText text={props.row.text} code />{'\n'}
      </div>
      <Show when={props.asked === key()} fallback={
        <Show when={remark()}>{(one) => (
          <div class="remark"><span class="remark-text">{one().text}</span>
            <button type="button" class="plain" onClick={() => props.ask(key())}>Edit</button><button type="button" class="plain" onClick={() => say('')}>Remove</button></div>
        )}</Show>
      }>
        <form class="remark" onSubmit={(event) => { event.preventDefault(); say(field?.value ?? ''); }}>
          <textarea rows="2" aria-label={`Remark on line ${line()}`} value={remark()?.text ?? ''} ref={(node) => { field = node; queueMicrotask(() => node.focus()); }}
            onKeyDown={(event) => {
              if (event.isComposing) return;
              if (event.key === 'Escape') { event.stopPropagation(); props.ask(null); }
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); say(event.currentTarget.value); }
            }} />
          <button type="button" class="plain" onClick={() => props.ask(null)}>Cancel</button>
          <button>Keep remark</button>
        </form>
      </Show>
    </>
  );
}
