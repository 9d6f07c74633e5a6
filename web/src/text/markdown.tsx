// Owns how the Markdown of a message is drawn while it grows: closed chunks are drawn once, and only the open rest is drawn again.
import { createRenderEffect, onCleanup } from 'solid-js';
import { chunkNodes, openNodes } from './nodes';
import { Splitter, type Chunk } from './splitter';
import '../look/text.css';

/** An open part larger than this is drawn at most ten times a second. */
const CALM_FROM = 4_096;
const CALM_MS = 100;
const SLICE_MS = 8;

/** Draws one Markdown text into an element. */
class Drawing {
  private splitter = new Splitter();
  private given = '';
  private drawn = 0;
  private ids: number[] = [];
  private openHost: HTMLElement | undefined;
  private openAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isClosed = false;

  constructor(private readonly host: HTMLElement) {}

  /** Shows a text, which is most often the one before and more. */
  show(text: string, isOpen: boolean): void {
    if (this.isClosed && !isOpen && text === this.given) return;
    if (this.isClosed || !text.startsWith(this.given)) this.restart();
    this.splitter.push(text.slice(this.given.length));
    this.given = text;
    this.isClosed = !isOpen;
    if (isOpen) this.splitter.flush(); else this.splitter.end();
    this.draw();
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private restart(): void {
    this.stop();
    this.splitter = new Splitter();
    this.given = '';
    this.drawn = 0;
    this.ids = [];
    this.openHost = undefined;
    this.host.replaceChildren();
  }

  private draw(): void {
    clearTimeout(this.timer);
    const { chunks } = this.splitter;
    // Links that were explained at the end change what was drawn before.
    if (this.drawn > 0 && chunks[0]?.id !== this.ids[0]) {
      this.drawn = 0;
      this.ids = [];
      this.host.replaceChildren();
      this.openHost = undefined;
    }
    const started = performance.now();
    while (this.drawn < chunks.length) {
      const chunk = chunks[this.drawn] as Chunk;
      const nodes = chunkNodes(chunk);
      if (this.openHost === undefined) this.host.append(...nodes); else this.openHost.before(...nodes);
      this.ids.push(chunk.id);
      this.drawn += 1;
      if (performance.now() - started > SLICE_MS && this.drawn < chunks.length) {
        this.timer = setTimeout(() => this.draw(), 0);
        return;
      }
    }
    const wait = this.splitter.openLength > CALM_FROM && !this.isClosed ? this.openAt + CALM_MS - performance.now() : 0;
    if (wait > 0) this.timer = setTimeout(() => this.draw(), wait); else this.drawOpen();
  }

  private drawOpen(): void {
    this.openAt = performance.now();
    const open = this.isClosed ? null : this.splitter.open();
    if (open === null) {
      this.openHost?.remove();
      this.openHost = undefined;
      return;
    }
    if (this.openHost === undefined) {
      this.openHost = document.createElement('div');
      this.openHost.className = 'open-part';
      this.host.append(this.openHost);
    }
    this.openHost.replaceChildren(...openNodes(open));
  }
}

/** The Markdown of a message. `isOpen`: more of it comes. It is drawn before it is in the page, so that a list never measures an empty row. */
export function Markdown(props: { text: string; isOpen?: boolean }) {
  const host = (<div class="markdown" />) as HTMLDivElement;
  const drawing = new Drawing(host);
  createRenderEffect(() => drawing.show(props.text, props.isOpen === true));
  onCleanup(() => drawing.stop());
  return host;
}

/** One closed chunk of a `Splitter`, for lists that draw a row per chunk. */
export function MarkdownChunk(props: { chunk: Chunk }) {
  return <div class="markdown">{chunkNodes(props.chunk)}</div>;
}
