// Owns what the agent writes: the pieces of a message while it comes, and its whole lines, which take the place of the pieces.
import type { CallBlock, Line, TextBlock, ThinkingBlock } from './model';
import { PartCutter, partsOf } from './parts';
import { entryOf, list, numOrNull, raw, str, strOrNull, type Raw } from './raw';
import type { Streamed, Work } from './work';

/** The key of a block whose message's beginning is not loaded. */
const UNKNOWN_MESSAGE = '?';

/** A piece of a message. */
export function onStreamEvent(work: Work, line: Line, data: Raw): void {
  const event = raw(data.event);
  const parent = strOrNull(data.parent_tool_use_id);
  work.begin(line);
  switch (event.type) {
    case 'message_start':
      // An answer comes: the API need not be asked again.
      work.folded.retry = null;
      work.open.set(parent, { id: str(raw(event.message).id), blocks: new Map() });
      return;
    case 'content_block_start':
      start(work, line, parent, numOrNull(event.index) ?? 0, raw(event.content_block), str(data.api_message_id), false);
      return;
    case 'content_block_delta': {
      const delta = raw(event.delta);
      const index = numOrNull(event.index) ?? 0;
      const kind = entryOf({ text_delta: 'text', thinking_delta: 'thinking', input_json_delta: 'tool_use' }, str(delta.type));
      if (kind === undefined) return;
      const known = work.open.get(parent)?.blocks.get(index);
      if (known === undefined && kind === 'tool_use') return;
      const block = known ?? start(work, line, parent, index, { type: kind }, str(data.api_message_id), true);
      if (block !== undefined) extend(work, block, str(delta.text) || str(delta.thinking) || str(delta.partial_json));
      return;
    }
    case 'message_stop':
      work.open.delete(parent);
      return;
    default:
  }
}

function start(work: Work, line: Line, parent: string | null, index: number, content: Raw, messageId: string, isLate: boolean): Streamed | undefined {
  let open = work.open.get(parent);
  if (open === undefined) {
    open = { id: messageId || UNKNOWN_MESSAGE, blocks: new Map() };
    work.open.set(parent, open);
  }
  const kind = str(content.type);
  if (kind === 'tool_use' || kind === 'server_tool_use') {
    const id = str(content.id);
    const isNew = !work.folded.calls.has(id);
    const call = work.call(id, line, parent);
    call.name = str(content.name);
    if (isNew) call.status = 'writing';
    open.blocks.set(index, call);
    return call;
  }
  if (kind !== 'text' && kind !== 'thinking') return undefined;
  const message = open.id === UNKNOWN_MESSAGE ? `${UNKNOWN_MESSAGE}${line.seq}` : open.id;
  const shared = { key: `said:${message}:${index}`, seq: line.seq, at: line.ts, version: work.version, text: '', isOpen: true, lacksBeginning: isLate };
  const made: TextBlock | ThinkingBlock = kind === 'text'
    ? { ...shared, kind: 'text', parts: [], isCut: false, fault: null, isLocalCommand: false }
    : { ...shared, kind: 'thinking', ms: null, tokens: null };
  open.blocks.set(index, made);
  work.unfinished.set(open.id, [...(work.unfinished.get(open.id) ?? []), made]);
  work.thread(parent, line).push(made);
  extend(work, made, str(content.text) || str(content.thinking));
  work.touchParent(parent);
  return made;
}

function extend(work: Work, block: Streamed, text: string): void {
  if (text === '') return;
  if (block.kind === 'call') {
    if (block.status === 'writing') block.partialJson += text;
  } else {
    block.text += text;
    if (block.kind === 'text') {
      let cutter = work.cutters.get(block);
      if (cutter === undefined) {
        cutter = new PartCutter();
        work.cutters.set(block, cutter);
        block.parts = cutter.parts;
      }
      cutter.push(text);
    }
  }
  work.touch(block);
}

/** A whole line of the agent: one block of a message, or more. */
export function onAssistant(work: Work, line: Line, data: Raw): void {
  const message = raw(data.message);
  const id = str(message.id);
  const parent = strOrNull(data.parent_tool_use_id);
  work.begin(line);
  work.folded.retry = null;
  const model = str(message.model);
  if (parent === null && model !== '' && model !== '<synthetic>') work.folded.model = model;
  for (const item of list(message.content)) {
    const content = raw(item);
    const ordinal = work.wholeLines.get(id) ?? 0;
    work.wholeLines.set(id, ordinal + 1);
    const key = `said:${id}:${ordinal}`;
    if (content.type === 'text' || content.type === 'thinking') {
      const text = str(content.text) || str(content.thinking);
      const streamed = takeUnfinished(work, id, content.type, text);
      // Thinking that is not shown has no text.
      if (text.trim() === '' && streamed === undefined) continue;
      whole(work, line, parent, content.type, key, text, data, streamed);
    } else if (content.type === 'tool_use' || content.type === 'server_tool_use') {
      wholeCall(work, line, parent, content);
    } else if (str(content.type).endsWith('_tool_result') && str(content.tool_use_id) !== '') {
      onServerResult(work, line, parent, content);
    } else if (content.type === 'redacted_thinking') {
      whole(work, line, parent, 'thinking', key, '', data, undefined);
    }
  }
  work.touchParent(parent);
}

/** A whole line that is too large to come unasked. Its pieces say the same, if all of them are there. */
export function onLeftOutAnswer(work: Work, line: Line, data: Raw, bytes: number): void {
  const parent = strOrNull(data.parent_tool_use_id);
  const id = work.open.get(parent)?.id ?? [...work.unfinished.keys()][0];
  const [streamed] = (id === undefined ? undefined : work.unfinished.get(id)) ?? [];
  if (id === undefined || streamed === undefined) {
    work.note(line, 'left_out', 'A large answer', { leftOutBytes: bytes });
    return;
  }
  takeUnfinished(work, id, streamed.kind, streamed.text);
  if (streamed.lacksBeginning) {
    const thread = work.thread(parent, line);
    thread.splice(thread.lastIndexOf(streamed), 1);
    work.cutters.delete(streamed as TextBlock);
    work.note(line, 'left_out', 'A large answer', { leftOutBytes: bytes });
    return;
  }
  const ordinal = work.wholeLines.get(id) ?? 0;
  work.wholeLines.set(id, ordinal + 1);
  whole(work, line, parent, streamed.kind, `said:${id}:${ordinal}`, streamed.text, data, streamed);
}

/** The block of the pieces that this line repeats. */
function takeUnfinished(work: Work, id: string, kind: string, text: string): TextBlock | ThinkingBlock | undefined {
  for (const message of [id, UNKNOWN_MESSAGE]) {
    const waiting = work.unfinished.get(message);
    const at = waiting?.findIndex((block) => block.kind === kind && (message === id || text.endsWith(block.text))) ?? -1;
    if (waiting === undefined || at < 0) continue;
    const [found] = waiting.splice(at, 1);
    if (waiting.length === 0) work.unfinished.delete(message);
    return found;
  }
  return undefined;
}

function whole(
  work: Work, line: Line, parent: string | null, kind: 'text' | 'thinking', key: string, text: string, data: Raw,
  streamed: TextBlock | ThinkingBlock | undefined,
): void {
  const thread = work.thread(parent, line);
  if (streamed !== undefined) {
    const at = thread.lastIndexOf(streamed);
    if (at !== thread.length - 1) {
      thread.splice(at, 1);
      thread.push(streamed);
    }
  }
  const shared = { key, seq: line.seq, at: line.ts, isOpen: false, lacksBeginning: false, text };
  if (kind === 'thinking') {
    const made: ThinkingBlock = streamed?.kind === 'thinking' ? streamed
      : { ...shared, kind, version: work.version, ms: null, tokens: null };
    Object.assign(made, shared, { ms: numOrNull(data.thinking_duration_ms), tokens: null });
    if (streamed === undefined) thread.push(made);
    work.touch(made);
    return;
  }
  const made: TextBlock = streamed?.kind === 'text' ? streamed
    : { ...shared, kind, version: work.version, parts: [], isCut: false, fault: null, isLocalCommand: false };
  const cutter = work.cutters.get(made);
  if (cutter !== undefined && made.text === text) {
    cutter.close();
    made.parts = cutter.parts;
  } else {
    made.parts = partsOf(text);
  }
  work.cutters.delete(made);
  Object.assign(made, shared, {
    isCut: data.aborted === true, fault: strOrNull(data.error), isLocalCommand: data.local_command_source !== undefined,
  });
  if (streamed === undefined) thread.push(made);
  work.touch(made);
}

/** The result of a tool that the API runs by itself, such as its search of the web. */
function onServerResult(work: Work, line: Line, parent: string | null, content: Raw): void {
  const call = work.call(str(content.tool_use_id), line, parent);
  const fault = str(raw(content.content).error_code);
  call.result = { text: fault.replaceAll('_', ' '), pictures: [], isError: fault !== '', typed: content.content, seq: line.seq, at: line.ts, leftOutBytes: null };
  call.status = fault === '' ? 'done' : 'failed';
  work.touch(call);
}

function wholeCall(work: Work, line: Line, parent: string | null, content: Raw): void {
  const call: CallBlock = work.call(str(content.id), line, parent);
  const thread = work.thread(call.parent, line);
  const at = thread.lastIndexOf(call);
  if (call.status === 'writing' && at >= 0 && at !== thread.length - 1) {
    thread.splice(at, 1);
    thread.push(call);
  }
  if (call.status === 'writing') call.status = 'running';
  Object.assign(call, { name: str(content.name), input: raw(content.input), partialJson: '', seq: line.seq, at: line.ts });
  if (call.agent !== null || call.name === 'Agent' || call.name === 'Task') {
    const agent = work.agentOf(call.id, line);
    agent.kind = str(call.input.subagent_type) || agent.kind;
    agent.task = str(call.input.description) || agent.task;
  }
  if (parent !== null) {
    const agent = work.agentOf(parent, line);
    agent.steps = agent.blocks.filter((block) => block.kind === 'call').length;
  }
  if (call.name === 'TodoWrite' && parent === null) {
    work.folded.todos = list(call.input.todos).map((one) => {
      const todo = raw(one);
      const status = todo.status === 'completed' || todo.status === 'in_progress' ? todo.status : 'pending';
      return { text: str(todo.content), doing: str(todo.activeForm) || str(todo.content), status };
    });
  }
  work.touch(call);
}

/** The process is gone, or the turn is over: nothing that was being written goes on. */
export function closeOpen(work: Work): void {
  for (const waiting of work.unfinished.values()) {
    for (const block of waiting) {
      block.isOpen = false;
      if (block.kind === 'text') {
        block.isCut = true;
        work.cutters.get(block)?.close();
      }
      work.touch(block);
    }
  }
  work.unfinished.clear();
  work.open.clear();
  work.cutters.clear();
}
