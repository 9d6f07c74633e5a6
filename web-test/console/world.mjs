// Owns what the console's tests run against: the real daemon with a directory of its own, the real CLI on the stand-in API, the
// simulated agent or a fake CLI that says any bytes, and a way to take the daemon or the network away. All is on loopback, and
// ends with the test.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';

const root = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = process.env.TRUNKLINE_PROGRAM ?? join(root, 'target/debug/trunkline');
const PATIENCE_MS = 60_000;

/** Waits for a condition; its last value, or an error that has it. */
export async function until(words, condition, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${words}: it did not come within ${patience / 1000} s; last: ${JSON.stringify(value)}`);
    await pause(50);
  }
}

/** A port of loopback that nobody has. */
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

/** A network to the daemon that can be taken away. */
class Network {
  sockets = new Set();
  isThere = true;
  isFrozen = false;

  static async to(port) {
    const network = new Network();
    network.server = createServer((socket) => {
      if (!network.isThere) return socket.destroy();
      const daemon = connect(port, '127.0.0.1');
      for (const [one, other] of [[socket, daemon], [daemon, socket]]) {
        network.sockets.add(one);
        one.on('error', () => other.destroy());
        one.on('close', () => { network.sockets.delete(one); other.destroy(); });
        if (!network.isFrozen) one.pipe(other);
      }
    });
    await new Promise((resolve) => { network.server.listen(0, '127.0.0.1', resolve); });
    network.port = network.server.address().port;
    return network;
  }

  /** Breaks every connection; new ones pass unless it is to stay away. */
  cut({ stays = false } = {}) {
    this.isThere = !stays;
    for (const socket of this.sockets) socket.destroy();
  }

  /** Lets nothing through any more, and tells nobody: as a laptop that was carried away. */
  freeze() {
    this.isFrozen = true;
    for (const socket of this.sockets) socket.unpipe();
  }

  back() {
    this.isThere = true;
    if (!this.isFrozen) return;
    this.isFrozen = false;
    this.cut();
  }

  end() {
    this.cut({ stays: true });
    this.server.close();
  }
}

/** A daemon with its sessions. */
export class World {
  /** Starts one: `agent` is `simulated`, `real`, or `fake` for a CLI that does what {@link play} says. */
  static async start({ agent = 'simulated', env = {} } = {}) {
    const world = new World();
    world.dir = mkdtempSync(join(tmpdir(), 'trunkline-console-'));
    for (const name of ['home', 'data', 'run', 'work']) mkdirSync(join(world.dir, name), { mode: 0o700 });
    world.port = await freePort();
    world.env = {
      PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: join(world.dir, 'home'), TRUNKLINE_DATA_DIR: join(world.dir, 'data'),
      TRUNKLINE_DATA_RUNTIME_DIR: join(world.dir, 'run'), ...env,
    };
    if (agent === 'real') {
      const api = spawn(process.execPath, [join(root, 'tests/programs/model_api.mjs'), '--port', '0', '--until-stdin-closes'], { stdio: ['pipe', 'pipe', 'inherit'] });
      const [line] = await new Promise((resolve, reject) => { api.stdout.once('data', (data) => resolve(String(data).split('\n'))); api.once('error', reject); });
      world.api = api;
      const claude = spawnSync(process.execPath, [join(root, 'web-test/claude-path.mjs')], { encoding: 'utf8' }).stdout.trim();
      Object.assign(world.env, {
        CLAUDE_BIN: claude, ANTHROPIC_BASE_URL: JSON.parse(line).url, ANTHROPIC_API_KEY: 'sk-any', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      });
    } else if (agent === 'fake') {
      world.env.CLAUDE_BIN = join(root, 'tests/programs/fake_claude.py');
    } else {
      // The simulated agent plays where no CLI is found.
      world.env.PATH = '/usr/bin:/bin';
    }
    await world.serve();
    world.network = await Network.to(world.port);
    return world;
  }

  /** The address that pages use: it leads through the network that can be cut. */
  get url() {
    return `http://127.0.0.1:${this.network.port}`;
  }

  /** The directory that sessions work in. */
  get work() {
    return join(this.dir, 'work');
  }

  get token() {
    return readFileSync(join(this.dir, 'data/token'), 'utf8').trim();
  }

  /** Starts the daemon, again where it was. */
  async serve() {
    this.log = '';
    this.daemon = spawn(PROGRAM, ['serve', '--listen', `127.0.0.1:${this.port}`], { env: this.env, cwd: this.work, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.daemon.stdout, this.daemon.stderr]) stream.on('data', (data) => { this.log = (this.log + data).slice(-20_000); });
    const ended = new Promise((resolve) => { this.daemon.once('exit', resolve); });
    this.ended = ended;
    await until('the daemon answers', async () => {
      if (this.daemon.exitCode !== null) throw new Error(`the daemon ended:\n${this.log}`);
      return fetch(`http://127.0.0.1:${this.port}/healthz`).then((answer) => answer.ok, () => false);
    });
  }

  /** Kills the daemon, as a full memory would; its sessions go on. */
  async kill() {
    this.daemon.kill('SIGKILL');
    await this.ended;
  }

  /** Asks the daemon past the network; a body is sent as POST unless said otherwise. */
  async ask(path, { body, method = body === undefined ? 'GET' : 'POST', headers = {} } = {}) {
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { authorization: `Bearer ${this.token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** A new session of the fake CLI: it performs these actions (tests/programs/README.md) at its prompt. */
  async play(name, actions, { prompt = name, ...more } = {}) {
    const cwd = join(this.work, name);
    mkdirSync(cwd, { recursive: true });
    writeFileSync(join(cwd, '.fake-claude.json'), JSON.stringify({ prompt: actions }));
    return (await this.ask('/v1/sessions', { body: { cwd, prompt, ...more } })).id;
  }

  /** Makes the file that a session of {@link play} waits for. */
  touch(name, file) {
    writeFileSync(join(this.work, name, file), '');
  }

  /** An address as `trunkline open` makes it. */
  async address(role = 'operator') {
    const { ticket } = await this.ask('/v1/tickets', { body: { path: '/v1/logins', role } });
    return `/open#${ticket}`;
  }

  /** All records of a session. */
  async journal(id) {
    const records = [];
    for (let after = 0; ;) {
      const page = await this.ask(`/v1/sessions/${id}/events?after=${after}&limit=1000`);
      records.push(...page.items);
      if (page.next_after == null || page.items.length === 0) return records;
      after = page.next_after;
    }
  }

  /** Ends everything that was started. */
  async end() {
    this.network.end();
    const { items } = await this.ask('/v1/sessions?limit=500').catch(() => ({ items: [] }));
    await Promise.all(items.map(({ id }) => this.ask(`/v1/sessions/${id}`, { method: 'DELETE' }).catch(() => undefined)));
    this.daemon.kill('SIGTERM');
    await this.ended;
    this.api?.stdin.end();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A prompt for the real CLI: the stand-in API answers with these steps. */
export const scripted = (words, steps) => `${words} SCRIPT:${JSON.stringify(steps)}:END`;
