// Owns how Markdown becomes nodes of the page: an allow-list of what the lexer finds. Everything else is text.
import type { Token, Tokens } from 'marked';
import { safeLink } from './ansi';
import { codeBlock } from './code-block';
import { resolved } from './entities';
import { spelledOut } from './hostile';
import { safeNodes } from './safe';
import type { Chunk, OpenPart } from './splitter';

const DEEPEST = 24;
const ROWS_AT_ONCE = 200;
const CELLS_AT_ONCE = 4_000;
const MOST_COLUMNS = 100;
const LONGEST_PLAIN = 20_000;
const IMAGE_DATA = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;

type Tag = keyof HTMLElementTagNameMap;

function element(tag: Tag, children: Node[] = [], className?: string): HTMLElement {
  const made = document.createElement(tag);
  if (className !== undefined) made.className = className;
  made.append(...children);
  return made;
}

/** The nodes of a part that is closed. */
export function chunkNodes(chunk: Chunk): Node[] {
  if (chunk.kind === 'code') return [codeBlock(chunk.text, chunk.language)];
  if (chunk.kind === 'plain') return [plainBlock(chunk.text)];
  return blocks(chunk.tokens, 0);
}

/** The nodes of the part that is still being written. Code in it has no colours yet. */
export function openNodes(part: OpenPart): Node[] {
  if (part.kind === 'code') return [codeBlock(part.text, part.language, true)];
  if (part.kind === 'plain') return [plainBlock(part.text)];
  return blocks(part.tokens, 0, true);
}

/** Text that is no Markdown for us. The end of a very long one is shown, and how much is before it. */
function plainBlock(text: string): HTMLElement {
  const from = Math.max(0, text.length - LONGEST_PLAIN);
  const nodes = safeNodes(text.slice(from), 'code');
  if (from > 0) nodes.unshift(element('span', [document.createTextNode(`${from.toLocaleString()} characters before`)], 'chip'));
  return element('p', nodes, 'plain-block');
}

function blocks(tokens: Token[], depth: number, isOpen = false): Node[] {
  return tokens.flatMap((token) => block(token as Tokens.Generic, depth, isOpen));
}

function block(token: Tokens.Generic, depth: number, isOpen: boolean): Node[] {
  if (depth > DEEPEST) return [element('p', safeNodes(token.raw))];
  switch (token.type) {
    case 'space': case 'def': return [];
    case 'hr': return [element('hr')];
    case 'heading': return [element(`h${Math.min(6, (token as Tokens.Heading).depth + 2)}` as Tag, inlines(token.tokens ?? [], depth + 1))];
    case 'paragraph': return [element('p', inlines(token.tokens ?? [], depth + 1))];
    case 'text': return token.tokens === undefined ? safeNodes(resolved(token.text as string)) : inlines(token.tokens, depth + 1);
    case 'blockquote': return [element('blockquote', blocks(token.tokens ?? [], depth + 1, isOpen))];
    case 'code': return [codeBlock(token.text as string, ((token.lang as string | undefined) ?? '').split(/\s/)[0] ?? '', isOpen)];
    case 'list': return [list(token as Tokens.List, depth, isOpen)];
    case 'table': return (token as Tokens.Table).header.length > MOST_COLUMNS ? [plainBlock(token.raw)] : [table(token as Tokens.Table, depth)];
    case 'html': return [element('p', safeNodes(token.raw.trimEnd()), 'plain-block')];
    case 'checkbox': return inline(token, depth);
    default: return [element('p', safeNodes(token.raw))];
  }
}

function list(token: Tokens.List, depth: number, isOpen: boolean): HTMLElement {
  const made = document.createElement(token.ordered ? 'ol' : 'ul');
  if (token.ordered && typeof token.start === 'number' && token.start !== 1) made.setAttribute('start', String(token.start));
  for (const item of token.items) {
    const children = blocks(item.tokens.filter((one) => one.type !== 'checkbox'), depth + 1, isOpen);
    if (item.task) {
      const isDone = item.checked === true;
      const mark = element('span', [document.createTextNode(isDone ? '☑ ' : '☐ ')], 'task-mark');
      mark.setAttribute('role', 'img');
      mark.setAttribute('aria-label', isDone ? 'done' : 'open');
      const first = children[0];
      if (first instanceof HTMLParagraphElement) first.prepend(mark); else children.unshift(mark);
    }
    made.append(element('li', children, item.task ? 'is-task' : undefined));
  }
  return made;
}

/** A table. A long one is cut, says so, and grows on request. */
function table(token: Tokens.Table, depth: number): HTMLElement {
  const cell = (tag: 'th' | 'td', one: Tokens.TableCell): HTMLElement => {
    const made = element(tag, inlines(one.tokens, depth + 1), one.align === null ? undefined : `is-${one.align}`);
    if (tag === 'th') made.setAttribute('scope', 'col');
    return made;
  };
  const body = element('tbody');
  const made = element('table', [element('thead', [element('tr', token.header.map((one) => cell('th', one)))]), body]);
  const scroller = element('div', [made], 'table-scroller');
  scroller.tabIndex = 0;
  scroller.setAttribute('role', 'group');
  scroller.setAttribute('aria-label', `A table of ${token.rows.length} rows`);
  const step = Math.max(10, Math.min(ROWS_AT_ONCE, Math.floor(CELLS_AT_ONCE / Math.max(1, token.header.length))));
  let shown = 0;
  const more = document.createElement('button');
  more.className = 'plain more';
  const grow = () => {
    for (const row of token.rows.slice(shown, shown + step)) body.append(element('tr', row.map((one) => cell('td', one))));
    shown = Math.min(token.rows.length, shown + step);
    const left = token.rows.length - shown;
    if (left === 0) more.remove(); else more.textContent = `▾ ${left.toLocaleString()} more rows · show ${Math.min(step, left)}`;
  };
  more.addEventListener('click', grow);
  grow();
  return shown < token.rows.length ? element('div', [scroller, more]) : scroller;
}

function inlines(tokens: Token[], depth: number): Node[] {
  return tokens.flatMap((token) => inline(token as Tokens.Generic, depth));
}

function inline(token: Tokens.Generic, depth: number): Node[] {
  if (depth > DEEPEST) return safeNodes(token.raw);
  switch (token.type) {
    case 'text': return token.tokens !== undefined && token.tokens.length > 0 ? inlines(token.tokens, depth + 1) : safeNodes(resolved(token.text as string));
    case 'escape': return safeNodes(token.text as string);
    case 'strong': return [element('strong', inlines(token.tokens ?? [], depth + 1))];
    case 'em': return [element('em', inlines(token.tokens ?? [], depth + 1))];
    case 'del': return [element('del', inlines(token.tokens ?? [], depth + 1))];
    case 'codespan': return [element('code', safeNodes(token.text as string, 'code'))];
    case 'br': return [element('br')];
    case 'link': return link(token as Tokens.Link, depth);
    case 'image': return image(token as Tokens.Image);
    case 'checkbox': return [];
    default: return safeNodes(token.raw);
  }
}

/** An address that leads out of the page: a new tab that learns nothing of this one, and its host in sight. */
export function outsideLink(href: string, children: Node[], text: string): Node[] {
  const made = document.createElement('a');
  made.href = href;
  made.target = '_blank';
  made.rel = 'noopener noreferrer nofollow';
  made.referrerPolicy = 'no-referrer';
  made.append(...children);
  const { host } = new URL(href);
  const isInSight = text.trim() === href || text.trim() === href.replace(/\/$/, '');
  return isInSight ? [made] : [made, element('span', [document.createTextNode(' ('), ...safeNodes(host), document.createTextNode(')')], 'link-host')];
}

function link(token: Tokens.Link, depth: number): Node[] {
  const address = token.autolink === true ? token.href : resolved(token.href);
  const children = inlines(token.tokens, depth + 1);
  const href = safeLink(address);
  if (href !== null) return outsideLink(href, children, token.text);
  // A path in the project, or something that no page follows: text, and where it would lead.
  return address === token.text ? children : [...children, element('span', [document.createTextNode(' ('), ...safeNodes(address.slice(0, 200)), document.createTextNode(')')], 'link-host')];
}

function image(token: Tokens.Image): Node[] {
  if (IMAGE_DATA.test(token.href)) {
    const made = document.createElement('img');
    made.alt = spelledOut(token.text);
    made.loading = 'lazy';
    made.decoding = 'async';
    made.src = token.href;
    return [made];
  }
  const href = safeLink(resolved(token.href));
  const name = safeNodes(token.text === '' ? 'image' : `image: ${token.text}`);
  if (href !== null) return outsideLink(href, name, token.text);
  return [element('span', [...name, document.createTextNode(' ('), ...safeNodes(token.href.slice(0, 80)), document.createTextNode(')')], 'link-host')];
}
