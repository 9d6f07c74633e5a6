// Owns a block of code in a text: its language, a button that copies all of it, and its first lines; more come on request.
import { copyText } from './copy';
import { highlightInto } from './highlight';
import { spelledOut } from './hostile';
import { safeNodes } from './safe';

const LINES_AT_ONCE = 200;
const LONGEST_LINE = 2_000;
const OPEN_LINES = 60;
/** Lines up to so many characters wrap on no page. */
const SHORT_LINE = 24;

/** A line that is cut where it is too long to be laid out, and says so. */
export const cutLine = (line: string): string => (line.length <= LONGEST_LINE ? line : `${line.slice(0, LONGEST_LINE)} … ${(line.length - LONGEST_LINE).toLocaleString()} more characters`);

/** A block of code. While it is being written its last lines are shown, without colours. */
export function codeBlock(text: string, language: string, isOpen = false): HTMLElement {
  const figure = document.createElement('figure');
  figure.className = 'code-block';
  const caption = document.createElement('figcaption');
  const name = document.createElement('span');
  name.append(...safeNodes(language.slice(0, 40)));
  const pre = document.createElement('pre');
  pre.tabIndex = 0;
  pre.setAttribute('role', 'group');
  pre.setAttribute('aria-label', language === '' ? 'Code' : `Code, ${spelledOut(language.slice(0, 40))}`);
  const code = document.createElement('code');
  pre.append(code);
  figure.append(caption, pre);
  if (isOpen) {
    caption.append(name);
    code.append(...safeNodes(lastLines(text, OPEN_LINES), 'code'));
    return figure;
  }
  caption.append(name, copyButton(text));
  const lines = text.split('\n');
  let shown = 0;
  // Lines wrap on narrow pages alone.
  const hangs = matchMedia('(max-width: 599px)').matches;
  const more = document.createElement('button');
  more.className = 'plain more';
  const grow = () => {
    shown = Math.min(lines.length, shown + LINES_AT_ONCE);
    const part = lines.slice(0, shown).map(cutLine).join('\n');
    code.replaceChildren(...(hangs ? hanging(part.split('\n').map((line) => safeNodes(line, 'code'))) : safeNodes(part, 'code')));
    highlightInto(code, part, language, hangs ? hanging : null);
    const left = lines.length - shown;
    if (left === 0) more.remove(); else more.textContent = `▾ ${left.toLocaleString()} more lines · show ${Math.min(LINES_AT_ONCE, left)}`;
  };
  more.addEventListener('click', grow);
  grow();
  if (shown < lines.length) figure.append(more);
  return figure;
}

/** The lines of a block one after the other, each long one as an element that hangs where it wraps. */
export function hanging(lines: Node[][]): Node[] {
  return lines.flatMap((nodes, at) => {
    const all: Node[] = at === lines.length - 1 ? nodes : [...nodes, document.createTextNode('\n')];
    if (nodes.reduce((sum, node) => sum + (node.textContent?.length ?? 0), 0) <= SHORT_LINE) return all;
    const line = document.createElement('span');
    line.className = 'code-line';
    line.append(...all);
    return [line];
  });
}

function lastLines(text: string, most: number): string {
  let at = text.length;
  for (let i = 0; i < most && at > 0; i += 1) at = text.lastIndexOf('\n', at - 1);
  const from = Math.max(at <= 0 ? 0 : at + 1, text.length - most * LONGEST_LINE);
  return from === 0 ? text : `…\n${text.slice(from)}`;
}

function copyButton(text: string): HTMLElement {
  const button = document.createElement('button');
  button.className = 'plain';
  button.textContent = 'Copy';
  button.addEventListener('click', () => {
    void copyText(text).then((isDone) => {
      button.textContent = isDone ? 'Copied' : 'Not copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 2_000);
    });
  });
  return button;
}
