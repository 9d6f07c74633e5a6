// @ts-check
// The whole story of a session by the TypeScript client. A test plays the person and the machine: it is told where the story
// is, kills the daemon, and says when to go on. The last line is what came of it.
//
//   node story.mjs '{"dataDir": "…", "cwd": "…"}'
import { createInterface } from 'node:readline';
import { Trunkline, TrunklineError, ClosedError, cli, note, said } from 'trunkline-client';

const { dataDir, cwd } = JSON.parse(process.argv[2] ?? '{}');
const script = (/** @type {object[]} */ ...steps) => `SCRIPT:${JSON.stringify(steps)}:END`;
const bash = (/** @type {string} */ command) => ({ tool: 'Bash', input: { command } });
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (/** @type {object} */ value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const pause = async (/** @type {string} */ at) => { say({ at }); await lines.next(); };

const trunkline = await Trunkline.find({ dataDir });

// Create, with a hook, a tool and decisions.
/** @type {unknown[]} */ const asked = [];
/** @type {unknown[]} */ const hooked = [];
/** @type {unknown[]} */ const errors = [];
/** @type {boolean[]} */ const connections = [];
const question = {
  question: 'Which colour?', header: 'Colour', multiSelect: false,
  options: ['Red', 'Blue'].map((label) => ({ label, description: label })),
};
/** @type {import('trunkline-client').AttachOptions} */
const options = {
  onApproval: ({ kind, subject, request }) => {
    asked.push([kind, subject]);
    if (kind === 'question') return { decision: 'answer', answers: { 'Which colour?': 'Blue' } };
    const input = /** @type {{command?: string}} */ (request.input);
    if (input.command === 'touch asked.txt') return { decision: 'allow', updated_input: { command: 'touch changed.txt' } };
    return { decision: 'allow' };
  },
  hooks: [{
    event: 'PreToolUse', matcher: 'Bash',
    call: ({ tool_input }) => {
      const { command } = /** @type {{command: string}} */ (tool_input);
      hooked.push(command);
      if (command !== 'touch denied.txt') return undefined;
      return { hookSpecificOutput: {
        hookEventName: 'PreToolUse', permissionDecision: 'deny', permissionDecisionReason: 'not on my watch',
      } };
    },
  }],
  mcpServers: {
    calc: { tools: [{
      name: 'add', description: 'Adds one.', annotations: { readOnlyHint: true },
      inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
      call: ({ a }) => `the sum is ${Number(a) + 1}`,
    }] },
  },
  onError: (error) => errors.push(String(error)),
  onConnection: (isThere) => connections.push(isThere),
};
const agent = await trunkline.start({ cwd, prompt: script(bash('touch asked.txt'), { text: 'Made.' }) }, options);
const { session } = agent;

/** Reads on until the next result. */
/** @type {import('trunkline-client').JournalRecord[]} */ const records = [];
const turn = async (attachment = agent, kept = records) => {
  for await (const record of attachment) {
    kept.push(record);
    const result = cli(record, 'result');
    if (result) return result;
  }
  throw new Error('the session ended');
};

const first = await turn();
await session.send(script({ tool: 'AskUserQuestion', input: { questions: [question] } }, { text: 'Blue, then.' }));
await turn();
await session.send(script(bash('touch denied.txt'), { tool: 'mcp__calc__add', input: { a: 41 } }, { text: 'Counted.' }));
await turn();
const servers = await trunkline.rest.GET('/v1/sessions/{id}/mcp', { params: { path: { id: session.id } } });

// The daemon dies in the middle of a turn whose end is waited for.
const waiting = session.ask(script({ text: 'Held, and said to the end.', wait: 'held', wait_at: 1 }));
await pause('held');
const held = await waiting;
await turn();

await session.send(script(bash('touch started; sleep 600'), { text: 'never' }));
await pause('started');
await session.interrupt();
const cut = await turn();

// A fork has the hooks and tools of its parent; another hook is added at run time.
const fork = await session.fork({ title: 'the fork' });
/** @type {string[]} */ const prompts = [];
const forked = fork.attach({
  ...options, clientId: agent.clientId, after: 0, onConnection: () => {},
  hooks: [...(options.hooks ?? []), { event: 'UserPromptSubmit', call: ({ prompt }) => { prompts.push(String(prompt)); } }],
});
await forked.ready();
await fork.send(script(bash('touch forked.txt'), { text: 'From the fork.' }));
/** @type {import('trunkline-client').JournalRecord[]} */ const ofFork = [];
const end = await turn(forked, ofFork);

const usage = await trunkline.rest.GET('/v1/usage', { params: { query: { group_by: 'session' } } });
const turns = await trunkline.rest.GET('/v1/sessions/{id}/turns', { params: { path: { id: session.id } } });
const unknown = await trunkline.session('01890a5d-ac96-774b-bcce-b302099a8057').view().catch((error) => error);

await fork.delete();
const deleted = await (async () => { for await (const _ of forked); })().catch((error) => error);
const parent = await session.view();
await session.stop();
for await (const record of agent) {
  records.push(record);
  if (note(record, 'state')?.state === 'stopped') break;
}
const seen = [...connections];
agent.close();

say({ outcome: {
  id: session.id, fork: fork.id, asked, hooked, errors, connections: seen,
  said: records.map(said).filter(Boolean), seqs: records.map((record) => record.seq),
  first: [first.subtype, first.result], held: held.result?.result, cut: cut.subtype,
  prompts: prompts.length, end: end.result,
  tools: servers.response?.mcpServers?.find((it) => it.name === 'calc')?.tools,
  isLive: parent.state, turns: turns.items.length,
  cost: usage.items.find((it) => it.key === session.id)?.cost_usd,
  unknown: unknown instanceof TrunklineError && [unknown.code, unknown.status, unknown.retryable],
  deleted: deleted instanceof ClosedError && deleted.closeCode,
} });
