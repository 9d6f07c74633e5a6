// Owns what a person sent before, newest first: what this browser sent, and the prompts of the session's conversation.
import { get, update } from 'idb-keyval';
import { rest } from '../daemon/daemon';

const KEY = 'history';
const MOST_KEPT = 300;

/** Remembers a text that was sent. */
export function remember(text: string): void {
  if (text.trim() === '') return;
  update<string[]>(KEY, (all = []) => [text, ...all.filter((other) => other !== text)].slice(0, MOST_KEPT)).catch(() => undefined);
}

interface Item { role: string; uuid: string | null; parent_tool_use_id?: string | null; content: unknown }

/** The text of a message that a person wrote, or `null`: results of tools and words of the CLI are no prompts. */
export function promptText(item: Item): string | null {
  if (item.role !== 'user' || item.parent_tool_use_id != null) return null;
  const blocks = Array.isArray(item.content) ? item.content as { type?: string; text?: string }[] : [{ type: 'text', text: String(item.content) }];
  if (blocks.some((block) => block.type === 'tool_result')) return null;
  const text = blocks.map((block) => (block.type === 'text' ? block.text ?? '' : '')).join('\n').trim();
  return text === '' || /^(?:<[a-z-]+>|\[Request interrupted)/.test(text) ? null : text;
}

/** The texts that were sent, newest first, each once: those of this session come before those of others. */
export async function readHistory(sessionId: string): Promise<string[]> {
  const [page, kept] = await Promise.all([
    rest.GET('/v1/sessions/{id}/messages', { params: { path: { id: sessionId }, query: { order: 'desc', limit: 200 } } })
      .then((answer) => answer.items as unknown as Item[], () => []),
    get<string[]>(KEY).catch(() => undefined),
  ]);
  const ours = page.map(promptText).filter((text): text is string => text !== null);
  return [...new Set([...ours, ...(kept ?? [])])];
}

/** The texts that contain each word of the query, in any case. */
export function found(history: readonly string[], query: string): string[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return history.filter((text) => words.every((word) => text.toLowerCase().includes(word)));
}
