// Owns how any text of an agent comes onto the page: as text, with chips in the place of what cannot be seen.
import { createMemo } from 'solid-js';
import { shownOf, type Layout } from './hostile';
import '../look/text.css';

/** The nodes of a text. */
export function safeNodes(text: string, layout: Layout = 'prose'): Node[] {
  const { pieces, dropped } = shownOf(text, layout);
  const nodes: Node[] = pieces.map((piece) => (piece.kind === 'text' ? document.createTextNode(piece.text) : chip(piece.text, piece.name)));
  if (dropped > 0) nodes.push(chip(`${dropped} control ${dropped === 1 ? 'code' : 'codes'} left out`, 'They would move the cursor or change how the text looks.'));
  return nodes;
}

function chip(text: string, name: string): HTMLElement {
  const element = document.createElement('span');
  element.className = 'unseen-char';
  element.title = name;
  element.textContent = text;
  return element;
}

/** A text that an agent, a tool or a file wrote. `code` keeps columns. */
export function SafeText(props: { text: string; code?: boolean }) {
  const nodes = createMemo(() => safeNodes(props.text, props.code === true ? 'code' : 'prose'));
  return <>{nodes()}</>;
}
