// Runs stories with an official SDK, unmodified, and prints all that each story was given: a line of JSON per story.
//
//   node --experimental-websocket sdk-stories.mjs '{"way": "direct", "claude": …, "dir": …, "api": …}'
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

import { prompts, script } from './prompts.mjs';
import { waysOf } from './sdk-ways.mjs';

const setup = JSON.parse(process.argv[2]);
const sdk = await import(setup.sdk ?? '@anthropic-ai/claude-agent-sdk');
const way = waysOf(setup, sdk.query);
/** So many stories run side by side. */
const ABREAST = 2;

const bash = (command) => ({ tool: 'Bash', input: { command } });
const allow = async (_name, input) => ({ behavior: 'allow', updatedInput: input });

async function api(path, body) {
  const init = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(`${setup.api}${path}`, init);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
}

/** A gate of the model API, at which an answer of this story waits. */
function gate(story) {
  const name = `${setup.name ?? setup.way}-${story}`;
  return {
    name,
    reached: () => api(`/control/gates/${name}?timeout_ms=30000`),
    open: () => api('/control/release', { name }),
  };
}

/** One story's queries, and all that they were given: messages, calls of callbacks, and what the story notes itself. */
class Told {
  constructor(name) {
    this.name = name;
    this.cwd = join(setup.dir, name);
    this.gate = gate(name);
    this.given = { messages: [], calls: [], notes: {} };
  }

  /** Starts a query. With `steps` it has one prompt, and its end is the end of the stream. */
  async start(options = {}, steps = undefined) {
    const input = prompts();
    let prompt = input;
    if (steps && way.isRemote) input.send(steps);
    else if (steps) prompt = script(steps);
    const { running, over } = await way.start(prompt, { cwd: this.cwd, ...options });
    const { messages, calls } = this.given;
    let session;
    const seen = async (wanted) => {
      for (;;) {
        const { value, done } = await running.next();
        if (done) throw new Error(`the stream ended after ${messages.map((it) => it.type)}`);
        messages.push(value);
        session = value.session_id ?? session;
        if (wanted(value)) return value;
      }
    };
    const isResult = (message) => message.type === 'result';
    return {
      running, input, calls, seen,
      result: () => seen(isResult),
      session: () => session,
      /** Reads the rest. The browser's transport has no end of input: there it is closed after the results that are still due. */
      end: async (due = 0) => {
        if (way.isRemote) {
          for (let left = due; left > 0; left -= 1) await seen(isResult);
          running.close();
        } else input.end();
        for await (const message of running) { messages.push(message); session = message.session_id ?? session; }
        await over(session);
      },
      /** The story is over, whatever may still come. */
      leave: () => over(session),
    };
  }

  note(name, value) { this.given.notes[name] = value; }
}

const SCHEMA = {
  type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false,
};
const QUESTIONS = [{
  question: 'Which colour?', header: 'Colour', multiSelect: false,
  options: [{ label: 'Red', description: 'warm' }, { label: 'Blue', description: 'cold' }],
}];
const ANSWERS = { 'Which colour?': 'Blue' };

const STORIES = {
  async plain(told) {
    const { end } = await told.start({}, [{ text: 'Hello.' }]);
    await end(1);
  },

  async streaming_input(told) {
    const { input, result, running, end } = await told.start();
    input.send([{ text: 'Hello.' }]);
    await result();
    told.note('initialized', await running.initializationResult());
    input.send([bash('echo again'), { text: 'And again.' }]);
    await result();
    await end();
  },

  async partial_messages(told) {
    const { end } = await told.start({ includePartialMessages: true }, [
      { thinking: 'Let me see.', text: 'Piece by piece.', ...bash('echo pieces') }, { text: 'All of them.' },
    ]);
    await end(1);
  },

  /** `canUseTool` with another input and with a denial, and the answers to `AskUserQuestion`. */
  async permissions(told) {
    const canUseTool = async (name, input, { toolUseID }) => {
      told.given.calls.push({ name, input, toolUseID });
      if (name === 'AskUserQuestion') return { behavior: 'allow', updatedInput: { ...input, answers: ANSWERS } };
      if (input.command.includes('denied')) return { behavior: 'deny', message: 'not this one' };
      return { behavior: 'allow', updatedInput: { ...input, command: 'touch changed.txt' } };
    };
    const { input, result, end } = await told.start({ canUseTool });
    input.send([
      bash('touch asked.txt'), bash('touch denied.txt'), { tool: 'AskUserQuestion', input: { questions: QUESTIONS } }, { text: 'done' },
    ]);
    await result();
    await end();
    told.note('files', ['asked.txt', 'changed.txt', 'denied.txt'].filter((file) => existsSync(join(told.cwd, file))));
  },

  async hooks(told) {
    const noted = (answer) => async (input, toolUseID) => {
      told.given.calls.push({ input, toolUseID });
      return answer;
    };
    const deny = {
      hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: 'not on my watch',
    };
    const context = { hookEventName: 'UserPromptSubmit', additionalContext: 'It is Sunday.' };
    const hooks = {
      UserPromptSubmit: [{ hooks: [noted({ hookSpecificOutput: context })] }],
      PreToolUse: [{ matcher: 'Bash', hooks: [noted({ hookSpecificOutput: deny })] }],
      PostToolUse: [{ matcher: 'Write', hooks: [noted({})] }],
      Stop: [{ hooks: [noted({})] }],
    };
    const write = { tool: 'Write', input: { file_path: join(told.cwd, 'made.txt'), content: 'made' } };
    const { input, result, end } = await told.start({ hooks, allowedTools: ['Write'] });
    input.send([bash('touch denied.txt'), write, { text: 'done' }]);
    await result();
    await end();
    told.note('files', existsSync(join(told.cwd, 'denied.txt')));
  },

  async mcp_tool(told) {
    const add = sdk.tool('add', 'Adds one.', { a: z.number() }, async ({ a }) => {
      told.given.calls.push({ input: a });
      return { content: [{ type: 'text', text: `the sum is ${a + 1}` }] };
    });
    const mcpServers = { calc: sdk.createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [add] }) };
    const { input, result, running, end } = await told.start({ mcpServers, canUseTool: allow });
    input.send([{ tool: 'mcp__calc__add', input: { a: 41 } }, { text: 'done' }]);
    await result();
    told.note('servers', await running.mcpServerStatus());
    await end();
  },

  async interrupt(told) {
    const { input, result, running, end } = await told.start();
    input.send([{ text: 'A moment.', ...bash('true') }, { text: 'never', wait: told.gate.name }]);
    await told.gate.reached();
    await running.interrupt();
    await result();
    input.send([{ text: 'Something else.' }]);
    await result();
    await end();
  },

  /** `setModel` and `setPermissionMode` between the turns of one query. */
  async controls(told) {
    const { input, result, running, end } = await told.start({ model: 'sonnet' });
    input.send([{ text: 'With one model.' }]);
    await result();
    await running.setModel('opus');
    await running.setPermissionMode('acceptEdits');
    input.send([
      { tool: 'Write', input: { file_path: join(told.cwd, 'made.txt'), content: 'made' } }, { text: 'With another.' },
    ]);
    await result();
    await end();
    told.note('made', existsSync(join(told.cwd, 'made.txt')));
  },

  async resume_and_fork(told) {
    const first = await told.start({}, [{ text: 'Something to remember.' }]);
    await first.end(1);
    const again = await told.start({ resume: first.session() }, [{ text: 'I remember.' }]);
    await again.end(1);
    const fork = await told.start({ resume: first.session(), forkSession: true }, [{ text: 'So do I.' }]);
    await fork.end(1);
    told.note('sessions', [first.session() === again.session(), first.session() === fork.session()]);
  },

  /** A turn that is held in the middle of its answer, as long as the test wants. */
  async held(told) {
    const { input, result, end } = await told.start({ includePartialMessages: true });
    input.send([bash('echo before'), { text: 'It takes a while to say all of this.', wait: told.gate.name, wait_at: 2 }]);
    await result();
    input.send([{ text: 'And on.' }]);
    await result();
    await end();
  },

  async structured_output(told) {
    const { end } = await told.start({ outputFormat: { type: 'json_schema', schema: SCHEMA } }, [
      { tool: 'StructuredOutput', input: { city: 'Ulm' } }, { text: 'done' },
    ]);
    await end(1);
  },

  async abort(told) {
    const abortController = new AbortController();
    const { input, seen, leave } = await told.start({ abortController });
    input.send([{ text: 'A moment.', ...bash('true') }, { text: 'never', wait: told.gate.name }]);
    await seen((message) => message.type === 'user');
    await told.gate.reached();
    abortController.abort();
    try {
      await seen(() => false);
    } catch (error) {
      // Each transport says what it is that was aborted.
      told.note('error', [error.name, error.message.replace(/^.* aborted/, 'aborted')]);
    }
    await leave();
  },

  async close(told) {
    const { input, seen, running, end } = await told.start();
    input.send([{ text: 'A moment.', ...bash('true') }, { text: 'never', wait: told.gate.name }]);
    await seen((message) => message.type === 'user');
    await told.gate.reached();
    running.close();
    await end();
  },

  async elicitation(told) {
    const onElicitation = async (request) => {
      told.given.calls.push(request);
      return { action: 'accept', content: { name: 'Ada' } };
    };
    const asking = { type: 'stdio', command: 'node', args: [setup.asking] };
    const { input, result, end } = await told.start({
      onElicitation, canUseTool: allow, mcpServers: { asking },
    });
    input.send([{ tool: 'mcp__asking__ask', input: {} }, { text: 'done' }]);
    await result();
    await end();
  },

  async failure(told) {
    const resume = '00000000-0000-4000-8000-000000000000';
    const { end } = await told.start({ resume }, [{ text: 'never' }]);
    try {
      await end(1);
    } catch (error) {
      told.note('error', [error.name, error.message]);
    }
  },
};

/** Plays one story. */
async function play(name) {
  const told = new Told(name);
  try {
    await STORIES[name](told);
  } catch (error) {
    told.given.failed = String(error.stack ?? error);
  }
  process.stdout.write(`${JSON.stringify({ story: name, dir: told.cwd, ...told.given })}\n`);
}

const waiting = setup.stories ?? Object.keys(STORIES);
const names = [...waiting];
await Promise.all(Array.from({ length: ABREAST }, async () => {
  for (let name = names.shift(); name; name = names.shift()) await play(name);
}));
process.exit(0);
