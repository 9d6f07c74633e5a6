// Owns the text of a row for the clipboard: as it reads, or as Markdown.
import { inputOf } from '../fold/partial-json';
import { str } from '../fold/raw';
import { kindOf, lineOfCall, outputOf } from './call-words';
import type { Row } from './rows';

const fenced = (text: string, language = ''): string => {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((found) => found[0].length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, '')}\n${fence}`;
};

/** The whole text of a row: nothing is cut. */
export function textOf(row: Row, asMarkdown: boolean): string {
  switch (row.kind) {
    case 'prompt': return asMarkdown ? row.block.text.split('\n').map((line) => `> ${line}`.trimEnd()).join('\n') : row.block.text;
    case 'text': case 'thinking': return row.block.text;
    case 'note': return row.block.detail || row.block.text;
    case 'turn': return row.block.text || row.block.reason;
    case 'call': {
      const line = lineOfCall(row.block);
      const title = `${line.verb} ${line.subject}`.trim();
      if (kindOf(row.block) === 'command') {
        const command = str(inputOf(row.block).command);
        const output = outputOf(row.block);
        return asMarkdown ? [fenced(command, 'sh'), output === '' ? '' : fenced(output)].filter(Boolean).join('\n\n') : [`$ ${command}`, output].filter(Boolean).join('\n');
      }
      const result = row.block.result?.text ?? '';
      return asMarkdown ? [`**${title}**`, result === '' ? '' : fenced(result)].filter(Boolean).join('\n\n') : [title, result].filter(Boolean).join('\n');
    }
    case 'group': return row.calls.map((call) => `${lineOfCall(call).verb} ${lineOfCall(call).subject}`).join('\n');
    default: return '';
  }
}
