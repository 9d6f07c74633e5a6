// Drives a session of a daemon by the official browser SDK, unmodified, and prints what came of it as one line of JSON.
//
//   node --experimental-websocket browser-sdk.mjs '{"url": "ws://…", "token": "…", "story": "plain", …}'
import { createInterface } from 'node:readline';
import { query } from '@anthropic-ai/claude-agent-sdk/browser';

import { prompts } from './prompts.mjs';

const setup = JSON.parse(process.argv[2]);
const authMessage = { type: 'auth', credential: { type: 'oauth', token: setup.token } };

/** Starts a query whose messages are kept; `result()` waits for the next result. */
function start(options = {}) {
  const input = prompts();
  const running = query({ prompt: input, websocket: { url: setup.url, authMessage }, ...options });
  const messages = [];
  const seen = async (wanted) => {
    for (;;) {
      const { value, done } = await running.next();
      if (done) throw new Error(`the stream ended after ${messages.map((it) => it.type)}`);
      messages.push(value);
      if (wanted(value)) return value;
    }
  };
  return { input, running, messages, seen, result: () => seen((message) => message.type === 'result') };
}

/** Lines of the test on standard input: it says when to go on. */
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const told = async () => (await lines.next()).value;
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const bash = (command) => ({ tool: 'Bash', input: { command } });

const STORIES = {
  async plain() {
    const { input, running, messages, result } = start();
    input.send([{ text: 'Hello.' }]);
    const first = await result();
    input.send([{ text: 'And again.' }]);
    const second = await result();
    running.close();
    const rest = [];
    for await (const message of running) rest.push(message.type);
    return { results: [first.result, second.result], types: messages.map((it) => it.type), rest };
  },

  async hooks() {
    const asked = [];
    const deny = async (hookInput) => {
      asked.push([hookInput.hook_event_name, hookInput.tool_input.command]);
      return { hookSpecificOutput: {
        hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: 'not on my watch',
      } };
    };
    const hooks = { PreToolUse: [{ matcher: 'Bash', hooks: [deny] }] };
    const { input, running, messages, result } = start({ hooks });
    input.send([bash('touch denied.txt'), { text: 'done' }]);
    const end = await result();
    running.close();
    return { asked, result: end.result, isTold: JSON.stringify(messages).includes('not on my watch') };
  },

  async controls() {
    const { input, running, seen, result } = start();
    await running.setModel('opus');
    input.send([{ text: 'With another model.' }]);
    await result();
    const canceller = start();
    canceller.input.send([bash('touch started; sleep 600'), { text: 'never' }]);
    await canceller.seen((message) => message.type === 'assistant');
    say({ running: true });
    await told();
    await canceller.running.interrupt();
    const cut = await canceller.result();
    await seen((message) => message.type === 'result' && message.uuid === cut.uuid);
    await running.setPermissionMode('plan');
    running.close();
    canceller.running.close();
    return { cut: cut.subtype };
  },

  async another_is_first() {
    let isAborted = false;
    const canUseTool = (_name, _input, { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => { isAborted = true; reject(new Error('taken back')); });
      say({ asked: true });
    });
    const { input, running, result } = start({ canUseTool });
    input.send([bash('touch other.txt'), { text: 'done' }]);
    const end = await result();
    running.close();
    return { result: end.result, isAborted };
  },

  async dialog() {
    const asked = [];
    const onUserDialog = async ({ dialogKind, payload }) => {
      asked.push([dialogKind, payload]);
      return { behavior: 'completed', result: { picked: payload.items[1] } };
    };
    const { input, running, result } = start({ onUserDialog, supportedDialogKinds: ['pick'] });
    // The real CLI opens no dialog with a stand-in model; the scripted one does.
    input.tell(`FAKE:${JSON.stringify([{ request: { subtype: 'request_user_dialog', dialog_kind: 'pick', payload: { items: [1, 2] } }, id: 'r-1' }, { text: 'Picked.' }])}:END`);
    await result();
    running.close();
    return { asked };
  },

  async refused() {
    const { input, running, result } = start({ canUseTool: async () => ({ behaviour: 'allow' }) });
    input.send([bash('touch misspelt.txt'), { text: 'done' }]);
    try {
      await result();
      return { error: null };
    } catch (error) {
      return { error: String(error.message) };
    } finally {
      running.close();
    }
  },

  async no_such_session() {
    const { input, result } = start();
    input.send([{ text: 'never' }]);
    try {
      await result();
      return { error: null };
    } catch (error) {
      return { error: String(error.message) };
    }
  },
};

const outcome = await STORIES[setup.story]().catch((error) => ({ failed: String(error.stack ?? error) }));
say({ outcome });
process.exit(0);
