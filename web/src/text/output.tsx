// Owns how the output of a command is shown: its last lines, as a terminal would, and more on request. The page never holds more
// lines than are shown.
import { For, Show, createMemo, createSignal } from 'solid-js';
import { readTerminal, type Stretch } from './ansi';
import { copyText } from './copy';
import { outsideLink } from './nodes';
import { safeNodes } from './safe';
import '../look/text.css';

const STEP = 200;
const MOST = 2_000;
const LONGEST_LINE = 2_000;
/** How much of a line is read at all. */
const LONGEST_READ = 20_000;

/** The last lines of a text, and how many are before them. */
export function lastOf(text: string, most: number): { lines: string; before: number } {
  const trimmed = text.endsWith('\n') ? text.slice(0, -1) : text;
  let at = trimmed.length;
  for (let i = 0; i < most && at >= 0; i += 1) at = at === 0 ? -1 : trimmed.lastIndexOf('\n', at - 1);
  if (at < 0) return { lines: trimmed, before: 0 };
  let before = 1;
  for (let k = trimmed.indexOf('\n'); k >= 0 && k < at; k = trimmed.indexOf('\n', k + 1)) before += 1;
  return { lines: trimmed.slice(at + 1), before };
}

/** Cuts each line at what is read of it. */
const readable = (lines: string): string => (lines.length <= LONGEST_READ ? lines
  : lines.split('\n').map((line) => (line.length <= LONGEST_READ ? line : line.slice(0, LONGEST_READ))).join('\n'));

/** Output of a command. `last`: how many lines are shown at first. */
export function Output(props: { text: string; last?: number; name?: string }) {
  const [extra, setExtra] = createSignal(0);
  const [isCopied, setCopied] = createSignal(false);
  const shown = () => Math.min(MOST, (props.last ?? 20) + extra());
  const part = createMemo(() => lastOf(props.text, shown()));
  const read = createMemo(() => readTerminal(readable(part().lines)));
  const fullLengths = createMemo(() => part().lines.split('\n').map((line) => line.length));
  const copy = async () => {
    setCopied(await copyText(props.text));
    setTimeout(() => setCopied(false), 2_000);
  };
  return (
    <div class="output">
      <div class="output-bar">
        <Show when={part().before > 0} fallback={<span />}>
          <span class="figures">▴ {part().before.toLocaleString()} {part().before === 1 ? 'line' : 'lines'} before</span>
          <Show when={shown() < MOST} fallback={<button class="plain" onClick={() => openAsText(props.text)}>Open as text</button>}>
            <button class="plain" onClick={() => setExtra(extra() + STEP)}>{Math.min(STEP, part().before)} more</button>
          </Show>
        </Show>
        <button class="plain" onClick={() => void copy()}>{isCopied() ? 'Copied' : 'Copy'}</button>
      </div>
      <pre class="terminal" tabIndex={0} role="group" aria-label={props.name ?? 'Output'}>
        <For each={read().lines}>{(line, i) => lineNode(line, fullLengths()[i()] ?? 0)}</For>
      </pre>
      <Show when={read().dropped > 0}><span class="chip">{read().dropped.toLocaleString()} control codes left out</span></Show>
    </div>
  );
}

function lineNode(all: Stretch[], length: number): Node {
  const made = document.createElement('div');
  made.className = 'output-line';
  const { stretches, left } = cutAt(all, LONGEST_LINE);
  for (const { text, classes, href } of stretches) {
    const nodes = safeNodes(text, 'code');
    const linked = href === null ? nodes : outsideLink(href, nodes, text);
    if (classes === '') { made.append(...linked); continue; }
    const span = document.createElement('span');
    span.className = classes;
    span.append(...linked);
    made.append(span);
  }
  const unseen = Math.max(left, length > LONGEST_READ ? length - LONGEST_LINE : 0);
  if (unseen > 0) {
    const chip = document.createElement('span');
    chip.className = 'chip';
    chip.textContent = `… ${unseen.toLocaleString()} more characters`;
    made.append(chip);
  }
  made.append('\n');
  return made;
}

function cutAt(stretches: Stretch[], most: number): { stretches: Stretch[]; left: number } {
  let room = most;
  let left = 0;
  const kept: Stretch[] = [];
  for (const one of stretches) {
    const text = one.text.slice(0, Math.max(0, room));
    if (text !== '') kept.push(text === one.text ? one : { ...one, text });
    left += one.text.length - text.length;
    room -= text.length;
  }
  return { stretches: kept, left };
}

/** Shows a whole text in a tab of its own, where the browser draws it as text and nothing else. */
export function openAsText(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/plain;charset=utf-8' }));
  window.open(address, '_blank', 'noopener');
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
