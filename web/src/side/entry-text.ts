// Owns what a record of the journal says, as plain text: for finding and for export. Deltas say nothing of their own.
import type { JournalEntry } from './journal';

/** A piece of what a record says. */
export interface Said { who: 'you' | 'agent' | 'thinking' | 'call' | 'result'; text: string; tool?: string; isError?: boolean }

type Open = Record<string, unknown>;
const open = (value: unknown): Open => (typeof value === 'object' && value !== null ? value as Open : {});
const blocks = (content: unknown): Open[] => (typeof content === 'string' ? [{ type: 'text', text: content }] : Array.isArray(content) ? content.map(open) : []);

/** The text of a tool's result. */
const resultText = (content: unknown): string => blocks(content).map((block) => (typeof block.text === 'string' ? block.text : `(${String(block.type)})`)).join('\n');

/** A call in one text: a command or a path as it is, anything else as JSON. */
function callText(input: Open): string {
  const members = Object.entries(input);
  const [only] = members;
  if (members.length === 1 && typeof only?.[1] === 'string') return only[1];
  if (typeof input.command === 'string') return input.command;
  return JSON.stringify(input, null, 2);
}

/** The words of a record, in their order. Those of sub-agents are left out. */
export function saidIn(entry: JournalEntry): Said[] {
  const data = open(entry.data);
  if (data.parent_tool_use_id != null || data.isReplay === true || data.isMeta === true) return [];
  const message = open(data.message);
  const said: Said[] = [];
  if (entry.src === 'client' && data.type === 'user') {
    for (const block of blocks(message.content)) {
      if (typeof block.text === 'string') said.push({ who: 'you', text: block.text });
      else if (block.type === 'image') said.push({ who: 'you', text: '(image)' });
    }
  } else if (entry.src === 'cli' && data.type === 'assistant') {
    for (const block of blocks(message.content)) {
      if (block.type === 'text' && typeof block.text === 'string') said.push({ who: 'agent', text: block.text });
      else if (block.type === 'thinking' && typeof block.thinking === 'string') said.push({ who: 'thinking', text: block.thinking });
      else if (block.type === 'tool_use') said.push({ who: 'call', text: callText(open(block.input)), tool: String(block.name) });
    }
  } else if (entry.src === 'cli' && data.type === 'user') {
    for (const block of blocks(message.content)) {
      if (block.type === 'tool_result') said.push({ who: 'result', text: resultText(block.content), isError: block.is_error === true });
    }
  }
  return said.filter((one) => one.text !== '');
}
