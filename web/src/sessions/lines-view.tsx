// Owns how many lines are drawn: all of a short list, and of a long one those in sight.
import { createVirtualizer, defaultRangeExtractor, type Range } from '@tanstack/solid-virtual';
import { For, Show, createEffect, createMemo, onMount, type Accessor, type JSX } from 'solid-js';
import { choices } from '../parts/choices';
import type { Line } from './lines';
import { cursor } from './view';

/** From so many lines on, those out of sight are not drawn: a page is to have few elements, however many sessions there are. */
const MOST_DRAWN = 40;
/** So many lines are drawn above and below those in sight. */
const OVERSCAN = 6;
/** Heights of lines that were not drawn yet. */
const HEIGHTS = { comfortable: { group: 36, project: 28, row: 60 }, compact: { group: 36, project: 28, row: 44 } } as const;

interface Props {
  lines: Line[];
  scroller: () => HTMLElement | undefined;
  /** Gives the function that brings a line into sight. */
  onReveal: (reveal: (line: number) => void) => void;
  children: (line: Accessor<Line>) => JSX.Element;
}

/** The lines as one list. */
export function Lines(props: Props) {
  const isLong = createMemo(() => props.lines.length > MOST_DRAWN);
  return <Show when={isLong()} fallback={<Short {...props} />}><Long {...props} /></Show>;
}

function Short(props: Props) {
  const byKey = createMemo(() => new Map(props.lines.map((line) => [line.key, line])));
  const keys = createMemo(() => props.lines.map((line) => line.key));
  onMount(() => props.onReveal(() => undefined));
  return (
    <ul class="lines" aria-label="Sessions">
      <For each={keys()}>{(key) => {
        const last = createMemo<Line | undefined>((before) => byKey().get(key) ?? before);
        return <li class="line"><Show when={last()}>{(line) => props.children(line)}</Show></li>;
      }}</For>
    </ul>
  );
}

function Long(props: Props) {
  const indexOf = createMemo(() => new Map(props.lines.map((line, at) => [line.key, at])));
  const virtual = createVirtualizer<HTMLElement, HTMLElement>({
    get count() { return props.lines.length; },
    getScrollElement: () => props.scroller() ?? null,
    estimateSize: (at) => HEIGHTS[choices().density][props.lines[at]?.kind ?? 'row'],
    getItemKey: (at) => props.lines[at]?.key ?? at,
    overscan: OVERSCAN,
    // The row of the keys is always there, so that neither the focus nor the stop of the Tab key is lost out of sight.
    get rangeExtractor() {
      const kept = indexOf().get(`row ${cursor()}`);
      return (range: Range) => {
        const near = defaultRangeExtractor(range);
        return kept === undefined || near.includes(kept) ? near : [...near, kept].sort((one, other) => one - other);
      };
    },
  });
  const drawn = createMemo(() => virtual.getVirtualItems().map((item) => String(item.key)));
  const startOf = createMemo(() => new Map(virtual.getVirtualItems().map((item) => [String(item.key), item.start])));
  onMount(() => props.onReveal((line) => virtual.scrollToIndex(line, { align: 'auto' })));
  return (
    <ul class="lines is-long" aria-label="Sessions" style={{ height: `${virtual.getTotalSize()}px` }}>
      <For each={drawn()}>{(key) => {
        let element: HTMLLIElement | undefined;
        const at = () => indexOf().get(key) ?? 0;
        const line = createMemo<Line | undefined>((before) => { const now = indexOf().get(key); return now === undefined ? before : props.lines[now]; });
        createEffect(() => {
          if (element === undefined) return;
          element.dataset.index = String(at());
          virtual.measureElement(element);
        });
        return (
          <li ref={element} class="line" data-index={at()} aria-setsize={props.lines.length} aria-posinset={at() + 1} style={{ transform: `translateY(${startOf().get(key) ?? 0}px)` }}>
            <Show when={line()}>{(shown) => props.children(shown)}</Show>
          </li>
        );
      }}</For>
    </ul>
  );
}
