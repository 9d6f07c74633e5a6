// The ways in which an official SDK reaches the CLI: directly, and through a daemon. A story does not know which it is.
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { query as browserQuery } from '@anthropic-ai/claude-agent-sdk/browser';

/** Options of the SDK that its browser transport cannot give, by their names in a request for a session. */
const AT_CREATION = {
  allowedTools: 'allowed_tools',
  includePartialMessages: 'include_partial_messages',
  model: 'model',
};
/** The profile of the configuration that has such an option of a story: an address has no lists and no objects. */
const PROFILES = { allowed_tools: 'writing', json_schema: 'city', mcp_servers: 'asking' };
/** Options that it has itself. */
const OF_BROWSER = ['abortController', 'canUseTool', 'hooks', 'onElicitation', 'onUserDialog', 'supportedDialogKinds'];

async function post(daemon, path, body) {
  const response = await fetch(`${daemon.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${daemon.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** A process of the stand-in, by the SDK's own option for that. */
const spawned = (program) => (spec) => spawn(program, ['claude', ...spec.args], {
  cwd: spec.cwd, env: spec.env, signal: spec.signal, stdio: ['pipe', 'pipe', 'ignore'],
});

/** Starts queries in `dir`. `query` is the one of the SDK under test. */
export function waysOf(setup, query) {
  const local = (more) => ({
    async start(prompt, { cwd, ...options }) {
      mkdirSync(cwd, { recursive: true });
      return { running: query({ prompt, options: { cwd, ...options, ...more } }), over: async () => {} };
    },
    isRemote: false,
  });
  /** A session of the daemon: a new one, the one that has the conversation, or a fork of that. */
  const sessionFor = async (cwd, { resume, forkSession }, atCreation) => {
    if (!resume) return post(setup.daemon, '/v1/sessions?wait=ready', { cwd, options: atCreation });
    const path = `/v1/sessions/${browser.made.get(resume)}`;
    return post(setup.daemon, `${path}/${forkSession ? 'fork' : 'resume'}?wait=ready`, {});
  };
  /** The options that the browser's transport has itself, and those with which its session is made. */
  const divided = (options) => {
    const atCreation = { permission_prompts: options.canUseTool ? 'host' : 'none' };
    const own = {};
    for (const [name, value] of Object.entries(options)) {
      if (OF_BROWSER.includes(name)) own[name] = value;
      else if (name === 'mcpServers') {
        const inProcess = Object.entries(value).filter(([, server]) => server.type === 'sdk');
        if (inProcess.length > 0) own.mcpServers = Object.fromEntries(inProcess);
        const others = Object.entries(value).filter(([, server]) => server.type !== 'sdk');
        if (others.length > 0) atCreation.mcp_servers = Object.fromEntries(others);
      } else if (name === 'outputFormat') atCreation.json_schema = value.schema;
      else if (name === 'resume' || name === 'forkSession') continue;
      else if (name in AT_CREATION) atCreation[AT_CREATION[name]] = value;
      else throw new Error(`/browser has no ${name}`);
    }
    return { own, atCreation };
  };
  const attached = (prompt, path, own) => {
    const url = `${setup.daemon.url.replace('http', 'ws')}${path}`;
    const authMessage = { type: 'auth', credential: { type: 'oauth', token: setup.daemon.token } };
    return browserQuery({ prompt, websocket: { url, authMessage }, ...own });
  };
  const browser = {
    async start(prompt, { cwd, ...options }) {
      mkdirSync(cwd, { recursive: true });
      const { own, atCreation } = divided(options);
      const session = await sessionFor(cwd, options, atCreation);
      const running = attached(prompt, `/v1/sessions/${session.id}/ws?protocol=ndjson`, own);
      const over = async (cliSession) => {
        browser.made.set(cliSession, session.id);
        await post(setup.daemon, `/v1/sessions/${session.id}/stop`, {});
      };
      return { running, over };
    },
    /** Sessions of the daemon by the CLI's ids. */
    made: new Map(),
    isRemote: true,
  };
  /** A session that is made for the connection, with what its address says. */
  const connect = {
    async start(prompt, { cwd, resume, forkSession, ...options }) {
      mkdirSync(cwd, { recursive: true });
      const { own, atCreation } = divided(options);
      const params = new URLSearchParams({ cwd, on_close: 'stop' });
      if (resume) params.set('resume', resume);
      if (forkSession) params.set('fork', true);
      for (const [name, value] of Object.entries(atCreation)) {
        if (name in PROFILES) params.set('profile', PROFILES[name]);
        else params.set(name, value);
      }
      const running = attached(prompt, `/v1/connect?${params}`, own);
      return { running, over: async () => {} };
    },
    isRemote: true,
  };
  const ways = {
    direct: () => local({ pathToClaudeCodeExecutable: setup.claude }),
    stand_in: () => local({ pathToClaudeCodeExecutable: setup.standIn }),
    spawned: () => local({ pathToClaudeCodeExecutable: setup.claude, spawnClaudeCodeProcess: spawned(setup.trunkline) }),
    browser: () => browser,
    connect: () => connect,
  };
  return ways[setup.way]();
}
