// Owns how a change is shown: unified, with signs and bars, the words that differ marked, and three equal lines around.
import { For, Show, createEffect, createMemo, createSignal, on } from 'solid-js';
import { compare, countsOf, hunksOf, type DiffRow } from './diff';
import { cutLine } from './code-block';
import { highlightLines, inWorker } from './highlight';
import { spelledOut } from './hostile';
import { languageOfPath } from './languages';
import { safeNodes } from './safe';
import type { Scoped } from './scopes';
import '../look/text.css';

const IN_WORKER_FROM = 2_000;
const STEP = 200;

type Item = { kind: 'row'; row: DiffRow } | { kind: 'gap'; from: number; size: number };
interface Colours { old: Scoped[][] | null; fresh: Scoped[][] | null }

/** The rows of a comparison, from a worker where that would hold up the page. */
export async function compareAnywhere(before: string, after: string): Promise<DiffRow[]> {
  const rows = await inWorker({ kind: 'diff', before, after });
  return (rows as DiffRow[] | null) ?? compare(before, after);
}

const isLong = (text: string): boolean => {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) if (++lines > IN_WORKER_FROM) return true;
  return false;
};

/**
 * A change from one text to another. `most`: how many lines are shown at first. `path` gives the language. `firstLine`: where the texts
 * begin in their file; `null`: nobody knows. `onRows` hears how many lines are not shown.
 */
export function Diff(props: { before: string; after: string; path?: string; most?: number; firstLine?: number | null; showsAll?: boolean; onHidden?: (lines: number) => void }) {
  const [rows, setRows] = createSignal<DiffRow[]>();
  const [open, setOpen] = createSignal<[number, number][]>([]);
  const [extra, setExtra] = createSignal(0);
  const [colours, setColours] = createSignal<Colours>({ old: null, fresh: null });
  createEffect(on(() => [props.before, props.after] as const, ([before, after]) => {
    const isCurrent = () => props.before === before && props.after === after;
    setOpen([]);
    setColours({ old: null, fresh: null });
    if (isLong(before) || isLong(after)) void compareAnywhere(before, after).then((made) => { if (isCurrent()) setRows(made); });
    else setRows(compare(before, after));
    const language = languageOfPath(props.path ?? '');
    void Promise.all([highlightLines(before, language), highlightLines(after, language)]).then(([old, fresh]) => { if (isCurrent()) setColours({ old, fresh }); });
  }));
  const items = createMemo(() => itemsOf(rows() ?? [], open()));
  const most = () => (props.showsAll ? Infinity : (props.most ?? 60) + extra());
  const shown = createMemo(() => items().slice(0, most()));
  const left = () => items().length - shown().length;
  createEffect(() => props.onHidden?.(Math.max(0, left())));
  const number = (row: DiffRow): string => {
    const n = row.new ?? row.old;
    return props.firstLine === null || n === null ? '' : String(n + (props.firstLine ?? 1) - 1);
  };
  return (
    <Show when={rows()} fallback={<p class="quiet">Comparing…</p>}>
      <div class="diff" tabIndex={0} role="group" aria-label={`Changes${props.path === undefined ? '' : ` of ${spelledOut(props.path)}`}`}>
        <Show when={items().length === 0}><p class="quiet">Nothing differs.</p></Show>
        <For each={shown()}>{(item) => (item.kind === 'gap'
          ? <button class="plain diff-gap" onClick={() => setOpen([...open(), [item.from, item.from + STEP]])}>▾ {item.size.toLocaleString()} equal {item.size === 1 ? 'line' : 'lines'}</button>
          : <Row row={item.row} number={number(item.row)} colours={colours()} />)}</For>
        <Show when={left() > 0}>
          <button class="plain diff-gap" onClick={() => setExtra(extra() + STEP)}>▾ {left().toLocaleString()} more lines · show {Math.min(STEP, left())}</button>
        </Show>
      </div>
    </Show>
  );
}

/** How many lines a change adds and removes: `+12 −3`. */
export function DiffCounts(props: { before: string; after: string }) {
  const counts = createMemo(() => (isLong(props.before) || isLong(props.after) ? null : countsOf(compare(props.before, props.after))));
  return <Show when={counts()}>{(n) => <span class="diff-counts figures"><span class="is-added">+{n().added}</span> <span class="is-removed">−{n().removed}</span></span>}</Show>;
}

const SIGNS = { same: ' ', added: '+', removed: '−' } as const;

function Row(props: { row: DiffRow; number: string; colours: Colours }) {
  const content = createMemo(() => contentOf(props.row, props.colours));
  const head = { 'data-line': props.number, 'data-sign': SIGNS[props.row.kind] };
  if (props.row.kind === 'added') return <ins class="diff-row is-added" {...head}>{content()}{'\n'}</ins>;
  if (props.row.kind === 'removed') return <del class="diff-row is-removed" {...head}>{content()}{'\n'}</del>;
  return <div class="diff-row" {...head}>{content()}{'\n'}</div>;
}

function span(className: string, nodes: Node[]): Node {
  const made = document.createElement('span');
  made.className = className;
  made.append(...nodes);
  return made;
}

function contentOf(row: DiffRow, colours: Colours): Node[] {
  const { text, words } = row;
  if (words.length > 0) {
    const nodes: Node[] = [];
    let at = 0;
    for (const [from, to] of words) {
      nodes.push(...safeNodes(text.slice(at, from), 'code'), span('diff-word', safeNodes(text.slice(from, to), 'code')));
      at = to;
    }
    return [...nodes, ...safeNodes(text.slice(at), 'code')];
  }
  const line = row.new === null ? colours.old?.[(row.old ?? 0) - 1] : colours.fresh?.[row.new - 1];
  if (line === undefined || line.map((one) => one.text).join('') !== text) return safeNodes(cutLine(text), 'code');
  return line.flatMap((one) => (one.kind === null ? safeNodes(one.text, 'code') : [span(`code-${one.kind}`, safeNodes(one.text, 'code'))]));
}

/** The rows that are seen, and the gaps between them. */
function itemsOf(rows: DiffRow[], open: [number, number][]): Item[] {
  const isSeen = new Uint8Array(rows.length);
  const { hunks } = hunksOf(rows);
  if (hunks.length === 0) return [];
  let at = 0;
  for (const hunk of hunks) {
    at += hunk.skipped;
    isSeen.fill(1, at, at + hunk.rows.length);
    at += hunk.rows.length;
  }
  for (const [from, to] of open) isSeen.fill(1, from, to);
  const items: Item[] = [];
  for (let i = 0; i < rows.length; i += 1) {
    if (isSeen[i] === 1) { items.push({ kind: 'row', row: rows[i] as DiffRow }); continue; }
    const from = i;
    while (i + 1 < rows.length && isSeen[i + 1] === 0) i += 1;
    items.push({ kind: 'gap', from, size: i - from + 1 });
  }
  return items;
}
