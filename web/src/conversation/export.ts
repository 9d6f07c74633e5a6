// Owns the export of a conversation: its journal as JSON, record by record as it is, and a readable text as Markdown.
import { rest } from '../daemon/daemon';
import { saidIn } from '../side/entry-text';
import { journal, stubBytes, type JournalEntry } from '../side/journal';
import { bytes } from '../shell/time';

/** A result is cut after so many characters: the whole is in the JSON. */
const MOST_OF_A_RESULT = 20_000;

/** A fence that the text itself cannot close. */
export function fenced(text: string, language = ''): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, '')}\n${fence}\n`;
}

/** A record as Markdown; empty where it says nothing to a reader. */
export function markdownOf(entry: JournalEntry): string {
  const size = stubBytes(entry);
  if (size !== undefined) return `_Record ${entry.seq} has ${bytes(size)} and is left out._\n\n`;
  return saidIn(entry).map((said) => {
    switch (said.who) {
      case 'you': return `## You\n\n${said.text}\n\n`;
      case 'agent': return `${said.text}\n\n`;
      case 'thinking': return `${said.text.split('\n').map((line) => `> ${line}`).join('\n')}\n\n`;
      case 'call': return `**${said.tool ?? 'Tool'}**\n\n${fenced(said.text)}\n`;
      case 'result': {
        const left = said.text.length - MOST_OF_A_RESULT;
        const text = left > 0 ? said.text.slice(0, MOST_OF_A_RESULT) : said.text;
        return `${said.isError === true ? 'Failed:' : 'Result:'}\n\n${fenced(text)}${left > 0 ? `\n_${left} more characters are left out._\n` : ''}\n`;
      }
    }
  }).join('');
}

/** The whole conversation as Markdown. `onProgress` hears how far it is. */
export async function exportMarkdown(sessionId: string, title: string, signal: AbortSignal, onProgress: (done: number, of: number) => void): Promise<Blob> {
  const parts = [`# ${title}\n\n`];
  for await (const { entries, done, of } of journal(sessionId, signal)) {
    parts.push(entries.map(markdownOf).join(''));
    onProgress(done, of);
  }
  return new Blob(parts, { type: 'text/markdown' });
}

/** The journal as a JSON array, each record byte for byte as the daemon has it. */
export async function exportJson(sessionId: string, signal: AbortSignal, onProgress: (done: number) => void): Promise<Blob> {
  const stream = await rest.GET('/v1/sessions/{id}/events', {
    params: { path: { id: sessionId } }, headers: { accept: 'application/x-ndjson' }, parseAs: 'stream', signal,
  }) as unknown as ReadableStream<Uint8Array>;
  const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  const parts: string[] = ['[\n'];
  let unfinished = '';
  let n = 0;
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (unfinished + (value ?? '')).split('\n');
    unfinished = done ? '' : lines.pop() ?? '';
    for (const line of lines) {
      if (line.trim() !== '') parts.push(n++ === 0 ? line : `,\n${line}`);
    }
    onProgress(n);
    if (done) break;
  }
  parts.push('\n]\n');
  return new Blob(parts, { type: 'application/json' });
}
