// Owns prompts: who said what, and how far each is. The journal, an echo and a local copy of one are the same by its uuid.
import { readContent } from './content';
import type { Line, Picture, PromptBlock, PromptState } from './model';
import { list, numOrNull, raw, str, strOrNull, type Raw } from './raw';
import { onResult } from './tools';
import type { Work } from './work';

/** A prompt that is to be sent, or is on its way. */
export function localPrompt(uuid: string, text: string, pictures: Picture[], at: string): PromptBlock {
  return { kind: 'prompt', key: `prompt:${uuid}`, seq: 0, at, version: 0, uuid, by: null, text, pictures, state: 'sending', isOfTheCli: false, leftOutBytes: null };
}

/** A line to the CLI's stdin that is a message. */
export function onClientMessage(work: Work, line: Line, data: Raw): void {
  const uuid = strOrNull(data.uuid);
  // A process that takes over prompts of the one before is given them again.
  if (uuid !== null && work.prompts.has(uuid)) return;
  const made: PromptBlock = {
    kind: 'prompt', key: `prompt:${uuid ?? line.seq}`, seq: line.seq, at: line.ts, version: work.version, uuid, by: line.by ?? '',
    ...readContent(raw(data.message).content), state: 'sent', isOfTheCli: false, leftOutBytes: numOrNull(raw(data['trunkline.stub']).bytes),
  };
  work.folded.suggestion = null;
  if (uuid !== null) work.prompts.set(uuid, made);
  work.folded.waiting.push(made);
  if (work.folded.workingSince === null && uuid === null) begin(work, line, made);
}

/** The CLI says how far a prompt is. */
export function onLifecycle(work: Work, line: Line, data: Raw): void {
  const prompt = work.prompts.get(str(data.command_uuid));
  if (prompt === undefined) return;
  if (data.state === 'started') begin(work, line, prompt);
  else if (data.state === 'cancelled' && prompt.state !== 'started') {
    leaveQueue(work, prompt);
    change(work, prompt, 'cancelled');
    if (!work.folded.blocks.includes(prompt)) work.prompts.delete(str(data.command_uuid));
  } else if (data.state === 'completed') begin(work, line, prompt);
  else if (data.state === 'queued' && prompt.state === 'sent') change(work, prompt, 'queued');
}

/** A prompt takes its place in the conversation, where its turn begins. */
function begin(work: Work, line: Line, prompt: PromptBlock): void {
  if (prompt.state === 'started') return;
  leaveQueue(work, prompt);
  change(work, prompt, 'started');
  work.folded.blocks.push(prompt);
  work.begin(line);
}

/** A prompt that the CLI takes is begun, also by a CLI that says nothing about its queue. */
export function beginOldest(work: Work, line: Line): void {
  const oldest = work.folded.waiting[0];
  if (oldest !== undefined && oldest.state === 'sent') begin(work, line, oldest);
}

function leaveQueue(work: Work, prompt: PromptBlock): void {
  const at = work.folded.waiting.indexOf(prompt);
  if (at >= 0) work.folded.waiting.splice(at, 1);
}

function change(work: Work, prompt: PromptBlock, state: PromptState): void {
  prompt.state = state;
  work.touch(prompt);
}

const INTERRUPTION = /^\[Request interrupted by user(?: for tool use)?\]$/;
const LOCAL_OUTPUT = /^<local-command-(?:stdout|stderr)>([\s\S]*)<\/local-command-(?:stdout|stderr)>\s*$/;

/** A `user` line of the CLI: results of calls, echoes, and what the CLI says to the model by itself. */
export function onCliUser(work: Work, line: Line, data: Raw): void {
  const parent = strOrNull(data.parent_tool_use_id);
  const { content } = raw(data.message);
  const results = list(content).filter((one) => raw(one).type === 'tool_result');
  for (const result of results) onResult(work, line, data, raw(result));
  if (results.length > 0) {
    work.touchParent(parent);
    return;
  }
  const { text, pictures } = readContent(content);
  if (INTERRUPTION.test(text.trim())) return;
  const uuid = strOrNull(data.uuid);
  const echoed = uuid === null ? undefined : work.prompts.get(uuid);
  if (echoed !== undefined) {
    begin(work, line, echoed);
    return;
  }
  const local = LOCAL_OUTPUT.exec(text);
  if (local !== null) {
    if (local[1]!.trim() !== '') work.note(line, 'local_command', local[1]!.trim().split('\n')[0]!, { detail: local[1]!.trim() });
    return;
  }
  if (data.isSynthetic === true && parent === null) {
    const isSummary = work.folded.blocks.slice(-3).some((block) => block.kind === 'note' && block.code === 'compaction');
    work.note(line, isSummary ? 'summary' : 'synthetic', isSummary ? 'Summary of what came before' : 'The CLI told the agent something', { detail: text });
    return;
  }
  const made: PromptBlock = {
    kind: 'prompt', key: `prompt:${uuid ?? line.seq}`, seq: line.seq, at: line.ts, version: work.version, uuid, by: 'cli', text, pictures,
    state: 'started', isOfTheCli: true, leftOutBytes: null,
  };
  if (uuid !== null && parent === null) work.prompts.set(uuid, made);
  work.thread(parent, line).push(made);
  work.touchParent(parent);
}
