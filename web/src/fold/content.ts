// Owns the content of messages: its text and its pictures, in whichever form it came.
import type { Picture } from './model';
import { isRaw, list, raw, str } from './raw';

const SHOWN = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** The text and the pictures of a message's content, or of a result's. */
export function readContent(content: unknown): { text: string; pictures: Picture[] } {
  if (typeof content === 'string') return { text: content, pictures: [] };
  const texts: string[] = [];
  const pictures: Picture[] = [];
  for (const item of list(content)) {
    if (!isRaw(item)) continue;
    if (item.type === 'text') texts.push(str(item.text));
    else if (item.type === 'image') {
      const source = raw(item.source);
      // MCP has it without a source. SVG is a document, and is never drawn.
      const mediaType = str(source.media_type) || str(item.mimeType);
      const base64 = str(source.data) || str(item.data);
      if (SHOWN.has(mediaType) && base64 !== '') pictures.push({ mediaType, base64 });
      else texts.push(`[image: ${mediaType || 'unknown'}]`);
    } else if (item.type === 'tool_reference') texts.push(str(item.tool_name));
    else if (item.type === 'resource' || item.type === 'resource_link') texts.push(str(raw(item.resource).text) || str(item.uri) || str(raw(item.resource).uri));
    else if (item.type === 'document') texts.push('[document]');
  }
  return { text: texts.filter(Boolean).join('\n'), pictures };
}
