// Owns what the agent of the benchmark says: a long conversation with one very large record, and a turn of very many deltas.
import { writeFileSync } from 'node:fs';

/** The last words of every conversation that is opened. */
export const LAST_WORDS = 'These are the newest words';

const UNIT = `## Part of the answer

The fixture is read **once**, and then \`parse()\` gets each of its lines. See [the manual](https://example.com/manual) for the rest of it; nothing
else is changed here, and the words go on for a while so that there is a paragraph which wraps on a narrow screen.

- the first thing that was found, with \`code\` in it
- the second thing, which is *longer* than the first one and goes on
- the third

| name | value | why |
| --- | --- | --- |
| one | 1 | it is the first |
| two | 2 | it is the next |

\`\`\`rust
fn check(token: &str) -> bool {
    // Nothing in a fence is read as Markdown.
    !token.is_empty() && token.len() < 4096
}
\`\`\`

`;

/** An action that streams so many deltas of Markdown, as fast as they can be read. */
export function flood(deltas, chunk = 8) {
  return { text: UNIT, repeat: Math.ceil(deltas * chunk / UNIT.length), chunk_size: chunk };
}

/** An action that streams so many deltas, one about every frame; each begins with a mark, `w0001` and so on. */
export function paced(deltas) {
  const words = Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')}${n % 40 === 39 ? '\n\n' : n % 7 === 3 ? ', ' : '  '}`);
  return { text: words.join(''), chunk_size: 7, chunk_ms: 16 };
}

const assistant = (n, content) => ({
  type: 'assistant', parent_tool_use_id: null, session_id: '$SESSION_ID',
  message: { id: `msg_${n}`, type: 'message', role: 'assistant', model: 'fake', content: [content], stop_reason: null, stop_sequence: null, usage: { input_tokens: 100, output_tokens: 20 } },
});
const toolResult = (n, content) => ({
  type: 'user', parent_tool_use_id: null, session_id: '$SESSION_ID',
  message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: `toolu_${n}`, content, is_error: false }] },
});

/** Writes so many lines of an agent at work to a file: words, calls and results; a result of `large` bytes is among the newest. */
export function writeWork(path, lines, large) {
  const written = [];
  for (let n = 0; written.length < lines - 1; n += 1) {
    written.push(assistant(`${n}_text`, { type: 'text', text: `Step ${n}. The next file is read, and **what it says** is kept in \`notes.md\`.` }));
    written.push(assistant(`${n}_call`, { type: 'tool_use', id: `toolu_${n}`, name: 'Bash', input: { command: `sed -n ${n},${n + 40}p src/part_${n % 90}.rs`, description: 'Reads a part' } }));
    const isLarge = written.length > lines - 60 && large > 0;
    const line = `test part_${n % 90}::case_${n} ... ok\n`;
    written.push(toolResult(n, line.repeat(isLarge ? Math.ceil(large / line.length) : 12)));
    if (isLarge) large = 0;
  }
  written.push(assistant('last', { type: 'text', text: `${LAST_WORDS} of a long conversation.` }));
  writeFileSync(path, `${written.map((line) => JSON.stringify(line)).join('\n')}\n`);
}

/** A prompt with which the fake CLI does this. */
export const prompt = (words, actions) => `${words} FAKE:${JSON.stringify(actions)}:END`;
