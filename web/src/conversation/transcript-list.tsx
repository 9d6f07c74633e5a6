// Owns the rows of a conversation as a feed, of which only what is near is drawn.
import { A } from '@solidjs/router';
import { createVirtualizer, elementScroll } from '@tanstack/solid-virtual';
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup, onMount, type Accessor } from 'solid-js';
import { isLive } from '../daemon/link';
import type { Folded } from '../fold/model';
import { spelledOut } from '../text/hostile';
import { ReadingContext, createReading } from './reading';
import { RowView, nameOf } from './row';
import { createRowActs, type RowAct } from './row-acts';
import { RowMenu } from './row-menu';
import { isSameRow, rowsOf, type Row } from './rows';
import { keepPlace, takePlace, type ScrollPlace } from './scroll-place';
import { watchSeen } from './seen';
import { createSticking } from './sticking';
import { useConversation } from '../live/store';
import { belowTop, holdRow } from './hold-place';
import { useTranscriptKeys, type TranscriptParts } from './transcript-keys';

/** Heights before a row is measured. */
const ESTIMATES: Record<Row['kind'], number> = {
  prompt: 72, text: 64, thinking: 36, call: 40, group: 160, note: 28, turn: 32, work: 36, new: 32, begin: 32,
};
/** Rows that are marks between others: nothing is done to them. */
const BARE = new Set<Row['kind']>(['new', 'begin']);
/** So much is free above the first row while there are older ones. No row stands there: one that stays the first would take the reader along. */
const OLDER_PX = 44;
/** Older records are loaded when so many screens are left above. */
const SCREENS_ABOVE = 2;

/** The rows. `source`: another conversation than the agent's own, as that of a sub-agent. `marked`: a record to show. */
export function TranscriptList(props: { source?: Accessor<Folded>; marked?: number | null }) {
  const conversation = useConversation();
  const reading = createReading();
  const sticking = createSticking();
  const isMain = props.source === undefined;
  const folded = props.source ?? conversation.folded;
  const [scroller, setScroller] = createSignal<HTMLDivElement>();
  const [foldUpTo, setFoldUpTo] = createSignal(0);
  const [newAfter, setNewAfter] = createSignal(0);
  const [leftAt, setLeftAt] = createSignal(0);

  const hasOlder = () => isMain && conversation.hasOlder();
  const rows = createMemo(() => rowsOf(folded(), isMain ? conversation.echoes() : [], {
    foldUpTo: isMain ? foldUpTo() : 0, chosen: reading.chosen(), newAfter: newAfter(), hasOlder: hasOlder(), marked: props.marked ?? null,
  }));
  const indexOf = createMemo(() => new Map(rows().map((row, index) => [row.key, index])));

  let sized: HTMLDivElement | undefined;
  const virtual = createVirtualizer<HTMLDivElement, HTMLElement>({
    get count() { return rows().length; },
    getScrollElement: () => scroller() ?? null,
    estimateSize: (index) => ESTIMATES[rows()[index]?.kind ?? 'text'],
    getItemKey: (index) => rows()[index]?.key ?? index,
    get paddingStart() { return hasOlder() ? OLDER_PX : 0; },
    overscan: 5,
    anchorTo: 'end',
    scrollEndThreshold: 2,
    // A place further down than the list is high so far would be cut: the height comes before the place, and not with the next drawing.
    scrollToFn: (offset, options, instance) => {
      if (sized !== undefined) sized.style.height = `${instance.getTotalSize()}px`;
      elementScroll(offset, options, instance);
    },
  });
  const visible = createMemo(() => virtual.getVirtualItems().map((item) => String(item.key)));
  const top = () => virtual.getVirtualItems()[0]?.start ?? 0;

  const firstVisible = (): ScrollPlace | null => {
    const element = scroller();
    const first = element === undefined ? undefined : virtual.getVirtualItems().find((item) => item.end > element.scrollTop + 1);
    const row = first === undefined ? undefined : rows().slice(first.index).find((one) => one.seq > 0);
    return row === undefined || element === undefined ? null : { key: row.key, seq: row.seq, below: belowTop(element, row.key) ?? 0 };
  };
  const rowAt = (seq: number) => rows().findLast((row) => row.seq > 0 && row.seq <= seq && row.kind !== 'work') ?? rows()[0];
  // The place that the reader is being brought back to. Until then it is the reader's place, whatever is in sight.
  let wayBack: ScrollPlace | null = null;
  const placeNow = () => wayBack ?? firstVisible();
  const backTo = (to: ScrollPlace) => {
    const { key, seq, below } = to;
    const mine = { ...to };
    wayBack = mine;
    sticking.release();
    // A place that cannot be loaded now is loaded when the daemon is back.
    void conversation.loadTo(seq).then(() => {
      if (wayBack !== mine || !conversation.isOpened()) return;
      const there = indexOf().has(key) ? key : rowAt(seq)?.key;
      const element = scroller();
      if (there === undefined || element === undefined) return;
      holdRow(element, there, there === key ? below : 0, () => {
        const index = indexOf().get(there);
        if (index !== undefined) virtual.scrollToIndex(index, { align: 'start' });
      }, () => { if (wayBack === mine) wayBack = null; });
    }).catch(() => undefined);
  };
  if (isMain) {
    // The end is opened anew where too much was missed: the reader stays at the same record.
    let anchor = takePlace(conversation.id);
    createEffect(on(conversation.isOpened, (isOpened) => {
      if (!isOpened) {
        if (!sticking.isStuck()) anchor = placeNow() ?? anchor;
      } else if (anchor !== null && props.marked == null) {
        backTo(anchor);
        anchor = null;
      }
    }));
    createEffect(on(isLive, (live) => { if (live && wayBack !== null && conversation.isOpened() && !sticking.isStuck()) backTo(wayBack); }, { defer: true }));
    const onHide = () => keepPlace(conversation.id, sticking.isStuck() ? null : placeNow());
    addEventListener('pagehide', onHide);
    onCleanup(() => removeEventListener('pagehide', onHide));
  }

  // Turns that the reader had seen when the page was opened are folded, and a line marks where the new begins.
  createEffect(on(conversation.isOpened, (isOpened) => {
    const session = conversation.session();
    if (!isOpened || session === undefined || !isMain) return;
    setFoldUpTo(session.seen_seq);
    if (session.unread && session.seen_seq > 0) setNewAfter(session.seen_seq);
    queueMicrotask(sticking.settle);
  }));
  // A person who sends a message has read all before it.
  createEffect(on(conversation.toEnd, () => {
    if (!isMain) return;
    setFoldUpTo(folded().lastSeq);
    setNewAfter(0);
    sticking.stick();
  }, { defer: true }));

  // The list looks for the window of its element, which has none before it is in the page.
  let place: HTMLDivElement | undefined;
  onMount(() => {
    const element = place!;
    setScroller(element);
    onCleanup(sticking.attach(element));
    const growth = new ResizeObserver(sticking.settle);
    for (const child of element.children) growth.observe(child);
    growth.observe(element);
    onCleanup(() => growth.disconnect());
  });
  createEffect(on(sticking.isStuck, (isStuck) => { if (!isStuck) setLeftAt(folded().lastSeq); }));

  const mayLoad = () => {
    const element = scroller();
    if (element === undefined || !isMain || !conversation.isOpened() || !conversation.hasOlder()) return;
    if (element.scrollTop < SCREENS_ABOVE * element.clientHeight) void conversation.loadOlder().catch(() => undefined);
  };
  // The new height holds from the next frame on; it is looked at once, however much has come.
  let looksAt = 0;
  createEffect(on([rows, conversation.isOpened], () => {
    cancelAnimationFrame(looksAt);
    looksAt = requestAnimationFrame(mayLoad);
  }));
  onCleanup(() => cancelAnimationFrame(looksAt));

  if (isMain) {
    watchSeen(conversation, sticking.isStuck);
    conversation.followEnd(sticking.isStuck);
  }

  /** Shows a row, and makes it the current one. */
  const goTo = (key: string, align: 'auto' | 'start' | 'center' = 'auto') => {
    const index = indexOf().get(key);
    if (index === undefined) return;
    reading.setCurrent(key);
    if (index < rows().length - 1) sticking.release();
    const element = scroller();
    if (align === 'center' && element !== undefined) {
      // Older rows may come before it meanwhile: it is held by its key, as its number becomes another one.
      holdRow(element, key, element.clientHeight / 3, () => virtual.scrollToIndex(indexOf().get(key) ?? index, { align }));
    } else virtual.scrollToIndex(index, { align });
    requestAnimationFrame(() => scroller()?.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true }));
  };

  createEffect(on([() => props.marked, conversation.isOpened], ([seq, isOpened]) => {
    if (seq == null || !isOpened) return;
    void conversation.loadTo(seq).then(() => {
      const found = rowAt(seq);
      if (found !== undefined) goTo(found.key, 'center');
    });
  }));

  const parts: TranscriptParts = { rows, reading, goTo, sticking, newKey: () => (newAfter() > 0 ? 'new' : null), conversation };
  const acts = createRowActs(parts);
  useTranscriptKeys(parts, acts);

  const unseen = () => rows().filter((row) => row.seq > leftAt() && row.kind !== 'work' && row.kind !== 'new').length;
  return (
    <ReadingContext.Provider value={reading}>
      <div class="transcript-place" classList={{ 'wraps-lines': reading.wraps() }}>
        <Show when={isMain}><h2 class="only-heard">Transcript</h2></Show>
        <div class="transcript" ref={place} role="feed" aria-label="Transcript" aria-busy={!conversation.isOpened()} tabIndex={0} onScroll={mayLoad}>
          <div class="transcript-size" ref={sized} style={{ height: `${virtual.getTotalSize()}px` }}>
            <Show when={hasOlder()}><p class="rule older"><span>Older ones are loaded as you scroll</span></p></Show>
            <div class="transcript-rows" style={{ transform: `translateY(${top()}px)` }}>
              <For each={visible()}>{(key) => <Article rowKey={key} row={() => rows()[indexOf().get(key) ?? -1]} index={() => indexOf().get(key) ?? 0}
                count={() => rows().length} measure={(element) => virtual.measureElement(element)} isCurrent={() => reading.current() === key} choose={() => reading.setCurrent(key)} acts={acts} />}</For>
            </div>
          </div>
          <Show when={conversation.isOpened() && rows().length === 0}><p class="transcript-empty quiet"><Show when={conversation.session()?.parent_id} fallback="Nothing was said yet.">{(parent) => <>Nothing was said yet in this copy. It goes on from <Show when={!conversation.session()?.parent_deleted} fallback="a session that is deleted"><A href={`/s/${parent()}`}>another session</A></Show>.</>}</Show></p></Show>
        </div>
        <Show when={!sticking.isStuck()}>
          <button class="pill" classList={{ 'is-needing': isMain && conversation.approvals().length > 0 }} onClick={() => sticking.stick()}>
            {isMain && conversation.approvals().length > 0 ? '↓ Needs you' : unseen() > 0 ? `↓ ${unseen()} new` : '↓ To the end'}
          </button>
        </Show>
      </div>
    </ReadingContext.Provider>
  );
}

/** One row as an article of the feed. It is drawn anew when its row says so, and stays the same element. */
function Article(props: {
  rowKey: string; row: Accessor<Row | undefined>; index: Accessor<number>; count: Accessor<number>; measure: (element: HTMLElement) => void;
  isCurrent: Accessor<boolean>; choose: () => void; acts: readonly RowAct[];
}) {
  let element: HTMLElement | undefined;
  const row = createMemo<Row | undefined>((before) => props.row() ?? before, undefined, { equals: isSameRow });
  // With each delta there is another list of rows, in which this one most often stands where it stood.
  const index = createMemo(() => props.index());
  createEffect(() => {
    const at = index();
    if (element === undefined) return;
    element.dataset.index = String(at);
    props.measure(element);
  });
  return (
    <Show when={row()}>{(shown) => (
      <article ref={element} data-key={props.rowKey} data-index={index()} class={`entry is-entry-${shown().kind}`} classList={{ 'is-current': props.isCurrent() }}
        tabIndex={-1} aria-label={spelledOut(nameOf(shown()))} aria-posinset={index() + 1} aria-setsize={props.count()} onClick={props.choose}>
        <RowView row={shown()} />
        <Show when={!BARE.has(shown().kind)}><RowMenu row={shown()} acts={props.acts} isCurrent={props.isCurrent()} /></Show>
      </article>
    )}</Show>
  );
}
