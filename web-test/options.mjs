// Records what the official SDK passes to the CLI for each of its options: arguments, environment, `initialize`.
//
//   node options.mjs           writes ../tests/fixtures/sdk-options.json
//   node options.mjs --check   fails when the installed SDK passes something else than the file says
//
// No CLI is started: the SDK is given a process of our own making.
import { readFileSync, writeFileSync } from 'node:fs';
import { EventEmitter } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { createSdkMcpServer, query } from '@anthropic-ai/claude-agent-sdk';

const FIXTURE = new URL('../tests/fixtures/sdk-options.json', import.meta.url);
const DEADLINE_MS = 20_000;
const GIVEN_ENV = { PATH: '/usr/bin:/bin', HOME: '/home/user' };
const ID = '11111111-1111-4111-8111-111111111111';
const PARENT = '22222222-2222-4222-8222-222222222222';
const MESSAGE = '33333333-3333-4333-8333-333333333333';
const canUseTool = async () => ({ behavior: 'deny', message: 'no' });
const schema = { type: 'object', properties: { b: { type: 'string' }, a: { type: 'number' } }, required: ['b'] };
const servers = {
  files: { command: 'files-server', args: ['--root', '/srv'], env: { TOKEN: 'secret' } },
  web: { type: 'http', url: 'https://mcp.example/x', headers: { Authorization: 'Bearer secret' } },
  events: { type: 'sse', url: 'https://mcp.example/sse' },
};

/** A server inside the SDK, without a tool. */
function calculator() {
  return createSdkMcpServer({ name: 'calc', version: '1.0.0', tools: [] });
}

// Name of the case → the SDK's options. `canUseTool` is in every case but `bare`, as the daemon always answers prompts.
const CASES = {
  base: {},
  bare: { canUseTool: undefined },
  session_id: { sessionId: ID },
  resume: { resume: ID },
  resume_at: { resume: ID, resumeSessionAt: MESSAGE },
  fork: { resume: PARENT, forkSession: true, sessionId: ID },
  fork_at: { resume: PARENT, forkSession: true, sessionId: ID, resumeSessionAt: MESSAGE },
  model: { model: 'sonnet' },
  fallback_model: { fallbackModel: 'haiku,sonnet' },
  betas: { betas: ['context-1m-2025-08-07', 'other-beta'] },
  thinking_adaptive: { thinking: { type: 'adaptive' } },
  thinking_adaptive_display: { thinking: { type: 'adaptive', display: 'summarized' } },
  thinking_enabled: { thinking: { type: 'enabled' } },
  thinking_enabled_budget: { thinking: { type: 'enabled', budgetTokens: 4000, display: 'omitted' } },
  thinking_disabled: { thinking: { type: 'disabled' } },
  thinking_over_max_thinking_tokens: { thinking: { type: 'adaptive' }, maxThinkingTokens: 5 },
  max_thinking_tokens: { maxThinkingTokens: 2048 },
  max_thinking_tokens_zero: { maxThinkingTokens: 0 },
  effort: { effort: 'xhigh' },
  max_turns: { maxTurns: 7 },
  max_budget_usd: { maxBudgetUsd: 1.25 },
  max_budget_usd_small: { maxBudgetUsd: 0.001 },
  task_budget: { taskBudget: { total: 20000 } },
  permission_mode_default: { permissionMode: 'default' },
  permission_mode_accept_edits: { permissionMode: 'acceptEdits' },
  permission_mode_plan: { permissionMode: 'plan' },
  permission_mode_dont_ask: { permissionMode: 'dontAsk' },
  permission_mode_auto: { permissionMode: 'auto' },
  permission_mode_bypass: { permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true },
  allow_dangerously_skip_permissions: { allowDangerouslySkipPermissions: true },
  permission_prompts_host: { permissionPrompts: 'host' },
  permission_prompts_none: { permissionPrompts: 'none', canUseTool: undefined },
  permission_prompt_tool_name: { permissionPromptToolName: 'mcp__gate__ask', canUseTool: undefined },
  allowed_tools: { allowedTools: ['Read', 'Bash(git log, git show)'] },
  disallowed_tools: { disallowedTools: ['WebFetch', 'Bash(rm *)'] },
  tools: { tools: ['Bash', 'Read'] },
  tools_none: { tools: [] },
  tools_preset: { tools: { type: 'preset', preset: 'claude_code' } },
  tool_aliases: { toolAliases: { Bash: 'mcp__box__bash' } },
  skills: { skills: ['pdf', 'tools:docx'] },
  skills_none: { skills: [] },
  skills_all: { skills: 'all' },
  skills_and_allowed_tools: { skills: ['pdf'], allowedTools: ['Read'] },
  mcp_servers: { mcpServers: servers },
  sdk_mcp_servers: { mcpServers: { calc: calculator() } },
  hooks: {
    hooks: {
      PreToolUse: [{ matcher: 'Bash', hooks: [async () => ({})], timeout: 5, onFailure: 'block' }],
      Stop: [{ hooks: [async () => ({})], timeout: 60 }],
    },
  },
  strict_mcp_config: { strictMcpConfig: true },
  plugins: {
    plugins: [
      { type: 'local', path: '/srv/plugin' },
      { type: 'local', path: '/srv/quiet', skipMcpDiscovery: true },
    ],
  },
  question_preview_format: { toolConfig: { askUserQuestion: { previewFormat: 'html' } } },
  additional_directories: { additionalDirectories: ['/srv/one', '/srv/two, three'] },
  project_config_root: { projectConfigRoot: '/srv/trusted' },
  agent: { agent: 'reviewer' },
  agents: {
    agents: { reviewer: { description: 'Reviews', prompt: 'You review.', tools: ['Read'], model: 'haiku' } },
  },
  system_prompt_text: { systemPrompt: 'You are brief.' },
  system_prompt_empty: { systemPrompt: '' },
  system_prompt_blocks: { systemPrompt: ['One.', 'Two.'] },
  system_prompt_preset: { systemPrompt: { type: 'preset', preset: 'claude_code' } },
  system_prompt_preset_full: {
    systemPrompt: {
      type: 'preset', preset: 'claude_code', append: 'Be kind.', excludeDynamicSections: true, snapshot: false,
    },
  },
  system_prompt_custom: { systemPrompt: { type: 'custom', prompt: 'You release.', snapshot: true } },
  system_prompt_custom_blocks: { systemPrompt: { type: 'custom', prompt: ['A', 'B'] } },
  plan_mode_instructions: { planModeInstructions: 'Draw first.' },
  json_schema: { outputFormat: { type: 'json_schema', schema } },
  settings_inline: { settings: { model: 'haiku', permissions: { allow: ['Read'] } } },
  settings_path: { settings: '/srv/settings.json' },
  managed_settings: { managedSettings: { permissions: { deny: ['Bash'] } } },
  sandbox: { sandbox: { enabled: true, network: { allowLocalBinding: true } } },
  sandbox_lenient: { sandbox: { enabled: true, failIfUnavailable: false } },
  sandbox_off: { sandbox: { enabled: false } },
  sandbox_and_settings: { sandbox: { enabled: true }, settings: { model: 'haiku' } },
  setting_sources: { settingSources: ['user', 'project', 'local'] },
  setting_sources_none: { settingSources: [] },
  include_partial_messages: { includePartialMessages: true },
  include_hook_events: { includeHookEvents: true },
  prompt_suggestions: { promptSuggestions: true },
  prompt_suggestions_off: { promptSuggestions: false },
  agent_progress_summaries: { agentProgressSummaries: true },
  forward_subagent_text: { forwardSubagentText: true },
  per_task_stop_affordance: { perTaskStopAffordance: true },
  supported_dialog_kinds: {
    supportedDialogKinds: ['refusal_fallback_prompt'],
    onUserDialog: async () => ({ behavior: 'cancelled' }),
  },
  title: { title: 'A title' },
  enable_file_checkpointing: { enableFileCheckpointing: true },
  verbatim_prompts: { verbatimPrompts: true },
  persist_session: { persistSession: true },
  persist_session_off: { persistSession: false },
  debug: { debug: true },
  debug_file: { debugFile: '/tmp/debug.log' },
  debug_and_debug_file: { debug: true, debugFile: '/tmp/debug.log' },
  env: { env: { ...GIVEN_ENV, FOO: 'bar' } },
  extra_args: { extraArgs: { 'some-flag': 'value', 'other-flag': null } },
  extra_args_dash: { extraArgs: { 'some-flag': '-x' } },
};

// A process that answers `initialize`, keeps the next line, and ends.
function fakeProcess(seen) {
  const child = new EventEmitter();
  const stdout = new PassThrough();
  let text = '';
  const end = () => {
    if (child.exitCode !== null) return;
    child.exitCode = 0;
    stdout.end(() => setImmediate(() => child.emit('exit', 0, null)));
  };
  const stdin = new Writable({
    write(chunk, _encoding, done) {
      text += chunk;
      let at;
      while ((at = text.indexOf('\n')) >= 0) {
        const line = JSON.parse(text.slice(0, at));
        text = text.slice(at + 1);
        seen.lines.push(line);
        if (line.type === 'control_request') {
          const response = { mcp_servers_applied: true, hook_on_failure_supported: true, commands: [], models: [] };
          stdout.write(`${JSON.stringify({
            type: 'control_response',
            response: { subtype: 'success', request_id: line.request_id, response },
          })}\n`);
        } else if (line.type === 'user') {
          end();
        }
      }
      done();
    },
    final(done) {
      end();
      done();
    },
  });
  return Object.assign(child, {
    stdin, stdout, killed: false, exitCode: null,
    kill() { child.killed = true; end(); return true; },
  });
}

async function record(options) {
  const seen = { lines: [] };
  async function* prompt() {
    yield {
      type: 'user', message: { role: 'user', content: [{ type: 'text', text: 'hi' }] }, parent_tool_use_id: null,
    };
  }
  const given = { env: { ...GIVEN_ENV }, canUseTool, pathToClaudeCodeExecutable: '/usr/bin/true', ...options };
  for (const name of Object.keys(given)) if (given[name] === undefined) delete given[name];
  given.spawnClaudeCodeProcess = ({ args, env }) => {
    seen.args = args;
    seen.env = env;
    return fakeProcess(seen);
  };
  const run = (async () => {
    try {
      for await (const _ of query({ prompt: prompt(), options: given })) { /* nothing is expected */ }
    } catch (error) {
      // The process ends without a result, which is an error to the SDK. The options that it passed are known by then.
      if (!seen.args) throw error;
    }
  })();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('the SDK did not come to an end')), DEADLINE_MS);
  });
  await Promise.race([run, late]);
  clearTimeout(timer);
  const request = seen.lines.find((line) => line.type === 'control_request')?.request ?? {};
  const { subtype, ...initialize } = request;
  if (subtype !== 'initialize') throw new Error('the first request was no initialize');
  const env = Object.fromEntries(
    Object.entries(seen.env).filter(([name, value]) => GIVEN_ENV[name] !== value && value !== undefined).sort(),
  );
  return { args: seen.args, env, initialize, user: seen.lines.find((line) => line.type === 'user') ?? null };
}

process.removeAllListeners('warning');
process.on('warning', () => {});
const cases = {};
for (const [name, options] of Object.entries(CASES)) {
  try {
    cases[name] = await record(options);
  } catch (error) {
    throw new Error(`case ${name}: ${error.message}`, { cause: error });
  }
}
const sdk = JSON.parse(readFileSync(new URL('./node_modules/@anthropic-ai/claude-agent-sdk/package.json', import.meta.url)));
const text = `${JSON.stringify({ sdk: sdk.version, cases }, null, 1)}\n`;
if (process.argv.includes('--check')) {
  const known = JSON.parse(readFileSync(FIXTURE, 'utf8'));
  const found = JSON.parse(text);
  const names = [...new Set([...Object.keys(known.cases), ...Object.keys(found.cases)])];
  const changed = names.filter((name) => JSON.stringify(known.cases[name]) !== JSON.stringify(found.cases[name]));
  if (changed.length > 0 || known.sdk !== found.sdk) {
    console.error(`the SDK (${found.sdk}, recorded with ${known.sdk}) passes something else for: ${changed.join(', ')}`);
    process.exit(1);
  }
  console.log(`${names.length} cases as recorded with SDK ${known.sdk}`);
} else {
  writeFileSync(FIXTURE, text);
  console.log(`${Object.keys(cases).length} cases recorded with SDK ${sdk.version}`);
}
process.exit(0);
