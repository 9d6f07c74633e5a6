// Owns what happens to calls: results, questions to people and their ends, tasks, and the steps of sub-agents.
import { readContent } from './content';
import type { Agent, CallBlock, CallStatus, Line, Task } from './model';
import { isRaw, list, numOrNull, raw, str, strOrNull, type Raw } from './raw';
import type { Work } from './work';

/** A result in a `user` line of the CLI. */
export function onResult(work: Work, line: Line, data: Raw, content: Raw): void {
  const id = str(content.tool_use_id);
  const call = work.call(id, line, strOrNull(data.parent_tool_use_id));
  const meta = raw(list(data.tool_result_meta).find((one) => raw(one).id === id));
  const isOnly = list(raw(data.message).content).filter((one) => raw(one).type === 'tool_result').length === 1;
  const { text, pictures } = readContent(content.content);
  const isError = content.is_error === true;
  call.result = {
    text, pictures, isError, typed: isOnly ? data.tool_use_result ?? null : null, seq: line.seq, at: line.ts, leftOutBytes: null,
  };
  call.status = statusOf(call, isError, meta);
  call.partialJson = '';
  call.ms = millisBetween(call.at, line.ts);
  const typed = raw(data.tool_use_result);
  if (call.agent !== null) {
    const isStarted = typed.status === 'async_launched' || typed.isAsync === true;
    call.isInBackground ||= isStarted;
    if (!isStarted) {
      call.agent.status = call.status === 'done' ? 'done' : call.status === 'stopped' ? 'stopped' : 'failed';
      call.agent.current = null;
      call.agent.tokens = numOrNull(typed.totalTokens) ?? call.agent.tokens;
      call.agent.ms = numOrNull(typed.totalDurationMs) ?? call.agent.ms;
      call.agent.report = reportIn(typed) || call.agent.report;
      endSteps(work, call.agent);
    }
  }
  const task = strOrNull(typed.backgroundTaskId);
  if (task !== null) {
    call.taskId = task;
    call.isInBackground = true;
  }
  work.touch(call);
}

/** The last words of a sub-agent, without those that the CLI puts before them for the model. */
const reportIn = (typed: Raw): string => list(typed.content).map((one) => str(raw(one).text)).filter((text) => text !== '' && !text.startsWith('<tools-used-before-summary>')).join('\n\n');

/** A sub-agent has ended, and with it its steps: the CLI passes on no results of those that are two deep and more. */
function endSteps(work: Work, agent: Agent): void {
  for (const block of agent.blocks) {
    if (block.kind !== 'call' || block.result !== null || !['running', 'writing', 'asked'].includes(block.status)) continue;
    block.status = agent.status === 'done' ? 'done' : 'stopped';
    if (block.agent?.status === 'running') {
      Object.assign(block.agent, { status: agent.status, current: null });
      endSteps(work, block.agent);
    }
    work.touch(block);
  }
}

function statusOf(call: CallBlock, isError: boolean, meta: Raw): CallStatus {
  if (meta.non_execution_kind === 'user-rejected' && call.asked?.state !== 'denied') return 'stopped';
  const isRejected = raw(meta.permission_decision).decision === 'reject' || meta.non_execution_kind !== undefined;
  if (isError && (isRejected || call.asked?.state === 'denied' || call.status === 'denied')) return 'denied';
  return isError ? 'failed' : 'done';
}

const millisBetween = (from: string, to: string): number | null => {
  const ms = Date.parse(to) - Date.parse(from);
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
};

/** A result that is too large to come unasked: the oldest call without one has it. */
export function onLeftOutResult(work: Work, line: Line, data: Raw, bytes: number): void {
  const parent = strOrNull(data.parent_tool_use_id);
  const call = work.thread(parent, line).find((block): block is CallBlock => block.kind === 'call' && block.result === null && block.status !== 'writing');
  if (call === undefined) {
    work.note(line, 'left_out', 'A large record', { leftOutBytes: bytes });
    return;
  }
  const isError = data.is_error === true;
  call.result = { text: '', pictures: [], isError, typed: null, seq: line.seq, at: line.ts, leftOutBytes: bytes };
  call.status = isError ? 'failed' : 'done';
  call.ms = millisBetween(call.at, line.ts);
  work.touch(call);
}

/** The CLI asks its host something; the daemon's note says later whether a person must answer. */
export function onRequest(work: Work, line: Line, data: Raw): void {
  const request = raw(data.request);
  work.requests.set(str(data.request_id), {
    seq: line.seq, subtype: str(request.subtype), toolUseId: strOrNull(request.tool_use_id), toolName: str(request.tool_name),
    input: raw(request.input), agentId: strOrNull(request.agent_id),
  });
}

/** The host allows a call, perhaps with another input than the agent's: that one is what runs. */
export function onAnswer(work: Work, line: Line, data: Raw): void {
  const answer = raw(data.response);
  const request = work.requests.get(str(answer.request_id));
  const input = raw(answer.response).updatedInput;
  // Answers to a question come back in its input, and change nothing of it.
  if (!isRaw(input) || request === undefined || request.toolUseId === null || request.toolName === 'AskUserQuestion') return;
  const names = new Set([...Object.keys(input), ...Object.keys(request.input)]);
  if ([...names].every((name) => JSON.stringify(input[name]) === JSON.stringify(request.input[name]))) return;
  const call = work.call(request.toolUseId, line, null);
  Object.assign(call, { input, changedBy: line.by });
  work.touch(call);
}

/** A person must decide. */
export function onApproval(work: Work, line: Line, data: Raw): void {
  const approvalId = str(data.approval_id);
  if (work.asked.has(approvalId)) return;
  const request = work.requests.get(str(data.request_id));
  const toolUseId = request?.toolUseId ?? null;
  if (request !== undefined && toolUseId !== null) {
    // A call of an agent in an agent is told by its question alone.
    const asker = request.agentId === null ? undefined : work.folded.tasks.get(request.agentId)?.toolUseId;
    const call = work.call(toolUseId, line, asker ?? null);
    if (call.name === '') Object.assign(call, { name: request.toolName, input: request.input });
    call.asked = { approvalId, requestSeq: request.seq, state: 'pending', by: null, at: line.ts };
    if (call.result === null) call.status = 'asked';
    work.asked.set(approvalId, call);
    work.touch(call);
    return;
  }
  const note = work.note(line, 'asked', `${str(data.subject) || 'The agent'} asks something`, { approvalId, tone: 'warning' });
  work.asked.set(approvalId, note);
}

const ENDS: Record<string, string> = {
  allowed: 'allowed', denied: 'denied', cancelled: 'cancelled', withdrawn: 'taken back', abandoned: 'given up', changed: 'changed', overruled: 'decided otherwise',
};

/** A person, or a rule, decided; or nobody has to any more. */
export function onDecision(work: Work, line: Line, data: Raw): void {
  const block = work.asked.get(str(data.approval_id));
  if (block === undefined) return;
  const state = str(data.state);
  const by = str(data.by);
  if (block.kind === 'note') {
    block.text = `${block.text}: ${ENDS[state] ?? state}`;
    block.endedBy = by;
    block.tone = 'quiet';
  } else if (block.asked !== null) {
    block.asked = { ...block.asked, state, by, at: line.ts };
    if (block.status === 'asked') block.status = state === 'denied' ? 'denied' : state === 'allowed' || state === 'changed' ? 'running' : 'stopped';
    else if (state === 'denied' && block.status === 'failed') block.status = 'denied';
  }
  work.touch(block);
}

/** The CLI itself refused a call. */
export function onPermissionDenied(work: Work, line: Line, data: Raw): void {
  const call = work.call(str(data.tool_use_id), line, null);
  if (call.name === '') call.name = str(data.tool_name);
  if (call.status !== 'done') call.status = 'denied';
  work.touch(call);
}

/** A tool says that it still runs. */
export function onToolProgress(work: Work, data: Raw): void {
  const id = str(data.tool_use_id).replace(/-heartbeat-\d+$/, '');
  const call = work.folded.calls.get(id);
  const seconds = numOrNull(data.elapsed_time_seconds);
  if (call === undefined || seconds === null || call.result !== null) return;
  call.ms = seconds * 1000;
  work.touch(call);
}

/** A task began, went on or ended. */
export function onTask(work: Work, line: Line, data: Raw): void {
  const id = str(data.task_id);
  const { tasks, calls } = work.folded;
  const toolUseId = strOrNull(data.tool_use_id);
  const task: Task = tasks.get(id) ?? {
    id, kind: 'task', description: '', toolUseId: null, status: 'running', startedAt: line.ts, endedAt: null, summary: '', current: null,
    tokens: null, isInBackground: false,
  };
  tasks.set(id, task);
  const usage = raw(data.usage);
  task.toolUseId ??= toolUseId;
  task.tokens = numOrNull(usage.total_tokens) ?? task.tokens;
  if (data.subtype === 'task_started') {
    Object.assign(task, { kind: str(data.task_type) || 'task', description: str(data.description), isInBackground: data.is_backgrounded === true });
  } else if (data.subtype === 'task_progress') {
    task.current = str(data.summary) || str(data.description) || task.current;
  } else if (data.subtype === 'task_updated') {
    const patch = raw(data.patch);
    task.status = str(patch.status) || task.status;
    task.description = str(patch.description) || task.description;
    if (typeof patch.is_backgrounded === 'boolean') task.isInBackground = patch.is_backgrounded;
    if (numOrNull(patch.end_time) !== null) task.endedAt = line.ts;
    task.summary = str(patch.error) || task.summary;
  } else if (data.subtype === 'task_notification') {
    Object.assign(task, { status: str(data.status) || 'completed', summary: str(data.summary) || task.summary, endedAt: line.ts, current: null });
  }
  const call = task.toolUseId === null ? undefined : calls.get(task.toolUseId) ?? hiddenAgent(work, line, task, data);
  if (call === undefined) return;
  call.taskId = id;
  call.isInBackground ||= task.isInBackground;
  if (task.kind === 'local_agent' || call.agent !== null || data.subagent_type !== undefined) {
    const agent = work.agentOf(call.id, line);
    agent.taskId = id;
    agent.kind = str(data.subagent_type) || agent.kind;
    agent.tokens = task.tokens ?? agent.tokens;
    agent.ms = numOrNull(usage.duration_ms) ?? agent.ms;
    agent.steps = Math.max(agent.steps, numOrNull(usage.tool_uses) ?? 0);
    agent.current = task.current;
    if (task.endedAt !== null) {
      agent.status = task.status === 'completed' ? 'done' : task.status === 'stopped' || task.status === 'killed' ? 'stopped' : 'failed';
      agent.current = null;
      if (data.subtype === 'task_notification') agent.report ||= str(data.summary);
      if (call.result === null && call.status === 'running' && !call.isInBackground && call.parent !== null) call.status = agent.status;
      endSteps(work, agent);
    }
  }
  work.touch(call);
}

/** The call of an agent in an agent in an agent: the CLI passes on its task alone. */
function hiddenAgent(work: Work, line: Line, task: Task, data: Raw): CallBlock | undefined {
  const above = work.folded.tasks.get(str(data.parent_task_id))?.toolUseId;
  if (above == null || task.toolUseId === null || task.kind !== 'local_agent') return undefined;
  const call = work.call(task.toolUseId, line, above);
  Object.assign(call, { name: 'Agent', input: { description: task.description, subagent_type: str(data.subagent_type), prompt: str(data.prompt) } });
  const agent = work.agentOf(above, line);
  agent.steps = Math.max(agent.steps, agent.blocks.filter((block) => block.kind === 'call').length);
  return call;
}

/** The list of what runs in the background, as the CLI has it now. */
export function onBackgroundTasks(work: Work, line: Line, data: Raw): void {
  const running = new Set<string>();
  for (const one of list(data.tasks)) {
    if (!isRaw(one)) continue;
    const id = str(one.task_id);
    running.add(id);
    const known = work.folded.tasks.get(id);
    if (known === undefined) {
      work.folded.tasks.set(id, {
        id, kind: str(one.task_type), description: str(one.description), toolUseId: null, status: 'running', startedAt: line.ts,
        endedAt: null, summary: '', current: null, tokens: null, isInBackground: true,
      });
    } else known.isInBackground = true;
  }
  for (const task of work.folded.tasks.values()) {
    if (task.isInBackground && task.endedAt === null && !running.has(task.id)) {
      task.endedAt = line.ts;
      if (task.status === 'running') task.status = 'completed';
    }
  }
}
