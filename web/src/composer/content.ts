// Owns what a message is made of: the text of the box, pasted texts that stand in it as short marks, and images.
import { newUuid } from 'trunkline-client';

/** An image of a message, as it is sent. */
export interface Picture {
  id: string;
  name: string;
  mediaType: string;
  /** The image in base64. */
  data: string;
  bytes: number;
  /** Its size before it was shrunk. */
  bytesBefore?: number;
}

/** A long text that was pasted. */
export interface Paste { mark: string; text: string }

/** All that is in a box. */
export interface Draft { text: string; pictures: Picture[]; pastes: Paste[] }

/** An empty box. */
export const emptyDraft = (): Draft => ({ text: '', pictures: [], pastes: [] });

/** Two drafts as one: what is in the first stands before what is in the second. */
export const joined = (first: Draft, second: Draft): Draft => ({
  text: [first.text, second.text].filter((one) => one.trim() !== '').join('\n\n'), pictures: [...first.pictures, ...second.pictures], pastes: [...first.pastes, ...second.pastes],
});

/** More lines than this, pasted at once, become a mark. */
export const LONG_PASTE_LINES = 20;

/** How many lines a text has. */
export const linesOf = (text: string): number => text.split('\n').length;

/** The mark for a text that is pasted now: no two of a box are alike. */
export function markFor(text: string, pastes: readonly Paste[]): string {
  const used = pastes.map((paste) => Number(/^\[Pasted text (\d+)/.exec(paste.mark)?.[1] ?? 0));
  return `[Pasted text ${Math.max(0, ...used) + 1}, ${linesOf(text)} lines]`;
}

/** The pasted texts whose marks are still in the text. */
export const pastesIn = (draft: Draft): Paste[] => draft.pastes.filter((paste) => draft.text.includes(paste.mark));

/** The text with each mark replaced by what it stands for. */
export function wholeText(draft: Draft): string {
  let text = draft.text;
  for (const paste of pastesIn(draft)) text = text.split(paste.mark).join(paste.text);
  return text;
}

/** Whether a message would say nothing. */
export const saysNothing = (draft: Draft): boolean => draft.pictures.length === 0 && wholeText(draft).trim() === '';

/** The body of a message as the daemon takes it: a text, or blocks where there are images. */
export function bodyOf(draft: Draft): { text: string } | { content: Record<string, unknown>[] } {
  const text = wholeText(draft);
  if (draft.pictures.length === 0) return { text };
  const images = draft.pictures.map((picture) => ({
    type: 'image', source: { type: 'base64', media_type: picture.mediaType, data: picture.data },
  }));
  return { content: text.trim() === '' ? images : [...images, { type: 'text', text }] };
}

interface Block { type?: unknown; text?: unknown; source?: { media_type?: unknown; data?: unknown } }

/** A draft of a message that was queued: the way back of {@link bodyOf}. */
export function draftOf(message: { text?: string | null; content?: readonly unknown[] | null }): Draft {
  if (typeof message.text === 'string') return { ...emptyDraft(), text: message.text };
  const draft = emptyDraft();
  const texts: string[] = [];
  for (const block of (message.content ?? []) as Block[]) {
    if (block.type === 'text' && typeof block.text === 'string') texts.push(block.text);
    const { media_type: mediaType, data } = block.source ?? {};
    if (block.type === 'image' && typeof mediaType === 'string' && typeof data === 'string') {
      draft.pictures.push({ id: newUuid(), name: 'image', mediaType, data, bytes: Math.floor(data.length * 3 / 4) });
    }
  }
  return { ...draft, text: texts.join('\n\n') };
}
