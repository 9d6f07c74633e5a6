// Owns how many lines are drawn: all of a short list, and of a long one those in sight.
import { createVirtualizer } from '@tanstack/solid-virtual';
import { For, Show, createMemo, onMount, type Accessor, type JSX } from 'solid-js';
import type { Line } from './lines';

/** From so many lines on, those out of sight are not drawn. */
const MOST_DRAWN = 200;
const HEIGHTS = { group: 36, project: 28, row: 60 } as const;

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
  const virtual = createVirtualizer({
    get count() { return props.lines.length; },
    getScrollElement: () => props.scroller() ?? null,
    estimateSize: (at) => HEIGHTS[props.lines[at]?.kind ?? 'row'],
    getItemKey: (at) => props.lines[at]?.key ?? at,
    overscan: 8,
  });
  onMount(() => props.onReveal((line) => virtual.scrollToIndex(line, { align: 'auto' })));
  return (
    <ul class="lines is-long" aria-label="Sessions" style={{ height: `${virtual.getTotalSize()}px` }}>
      <For each={virtual.getVirtualItems()}>{(item) => (
        <li class="line" data-index={item.index} aria-setsize={props.lines.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }}
          ref={(element) => queueMicrotask(() => virtual.measureElement(element))}>
          <Show when={props.lines[item.index]}>{(line) => props.children(line)}</Show>
        </li>
      )}</For>
    </ul>
  );
}
