// Owns where the console is measured: two daemons with what they have to show, one browser, and a network with a delay.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LAST_WORDS, prompt, writeWork } from './records.mjs';

const bench = fileURLToPath(new URL('..', import.meta.url));
const root = join(bench, '..');
process.env.TRUNKLINE_PROGRAM ??= process.env.PROGRAM ?? join(root, 'target/release/trunkline');
export const PROGRAM = process.env.TRUNKLINE_PROGRAM;
/** The files of a console that the program does not have yet, such as `web/dist`; without it the page is the program's. */
export const DIST = process.env.DIST;

const { Person } = await import('../../web-test/console/browser.mjs');
const { World, until } = await import('../../web-test/console/world.mjs');
const { installProbe } = await import('./probe.mjs');

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png', '.webmanifest': 'application/manifest+json' };
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; require-trusted-types-for 'script'; trusted-types trunkline-template";

/** A daemon with the fake CLI. */
export async function daemon() {
  const world = await World.start({ env: { CLAUDE_BIN: join(root, 'tests/programs/fake_claude.py') } });
  world.delayed = await delayed(world.port, 150);
  return world;
}

/** Ends a daemon, and its network. */
export async function end(world) {
  world.delayed.close();
  await world.end();
}

/** A way to the daemon on which each direction takes so long, and a connection as long as there and back. */
async function delayed(port, ms) {
  const sockets = new Set();
  const server = createServer((socket) => {
    const far = connect(port, '127.0.0.1');
    let opensAt = Date.now() + 2 * ms;
    for (const [from, to] of [[socket, far], [far, socket]]) {
      sockets.add(from);
      from.on('data', (data) => { setTimeout(() => to.write(data), ms + Math.max(0, opensAt - Date.now())); });
      from.on('end', () => { setTimeout(() => to.end(), ms + Math.max(0, opensAt - Date.now())); });
      from.on('error', () => to.destroy());
      from.on('close', () => { sockets.delete(from); });
    }
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close() { for (const socket of sockets) socket.destroy(); server.close(); },
  };
}

/** A session whose last turn has ended. */
export async function session(world, actions) {
  // As the page starts them.
  const options = { include_partial_messages: true };
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, options, prompt: prompt('Work.', actions) } });
  await idle(world, id, 1);
  return id;
}

/** Waits for the end of so many turns. */
export const idle = (world, id, turns) => until('the turn ends', async () => {
  const { turns: ended, turn } = await world.ask(`/v1/sessions/${id}`);
  return ended >= turns && turn == null;
}, 120_000);

/** A session that has said one line. */
export const emptySession = (world) => session(world, [{ text: `${LAST_WORDS} of an empty session.` }]);

/** A session of so many records, one of them of `large` bytes. */
export async function longSession(world, records, large) {
  const file = join(world.dir, 'work.ndjson');
  writeWork(file, records, large);
  return session(world, [{ script: file }]);
}

/** Gives the daemon so many sessions, each with a title of its own, half of them with something to read. */
export async function multiply(world, count) {
  // The daemon is not there meanwhile, and its sessions have ended: a row is all that a copy is.
  const ids = (await world.ask('/v1/sessions?limit=200')).items.map(({ id }) => id);
  await Promise.all(ids.map((id) => world.ask(`/v1/sessions/${id}/stop`, { body: {} })));
  await until('all have stopped', async () => (await world.ask('/v1/sessions?limit=200')).items.every((one) => one.state === 'stopped'));
  world.daemon.kill('SIGTERM');
  await world.ended;
  const program = `
import pathlib, sqlite3, sys, types
sys.path.insert(0, sys.argv[1])
import many
database = pathlib.Path(sys.argv[2])
connection = sqlite3.connect(database / "data/trunkline.db")
kept = [row[0] for row in connection.execute("SELECT id FROM sessions")]
connection.execute("CREATE TABLE others AS SELECT * FROM sessions WHERE rowid > 1")
connection.execute("DELETE FROM sessions WHERE rowid > 1")
connection.commit()
connection.close()
many.multiply(types.SimpleNamespace(path=database), int(sys.argv[3]) - len(kept) + 1)
connection = sqlite3.connect(database / "data/trunkline.db")
connection.execute("INSERT INTO sessions SELECT * FROM others")
connection.execute("DROP TABLE others")
marks = ", ".join("?" * len(kept))
connection.execute(f"UPDATE sessions SET title = 'Session ' || rowid, cwd = cwd || '/' || (rowid % 40), seen_seq = CASE rowid % 2 WHEN 0 THEN 0 ELSE last_turn_seq END WHERE id NOT IN ({marks})", kept)
connection.commit()
`;
  const { status, stderr } = spawnSync('python3', ['-c', program, bench, world.dir, String(count)], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  await world.serve();
  for (const id of ids) await world.ask(`/v1/sessions/${id}/resume`, { body: {} });
  await until('they run again', async () => (await Promise.all(ids.map((id) => world.ask(`/v1/sessions/${id}`)))).every((one) => one.state === 'idle'));
}

/** A person of this daemon who is signed in. */
export async function person(browser, world, { size = 'desk', url = `http://127.0.0.1:${world.port}`, ...more } = {}) {
  const made = await Person.at(browser, url, { size, ...more });
  if (DIST !== undefined) await serveFiles(made.context, url);
  if (more.storageState === undefined) {
    const page = await made.signIn(await world.address());
    // The groups of the list are open, so that all sessions have rows.
    await page.evaluate(() => localStorage.setItem('trunkline.folded', '[]'));
    await page.close();
  }
  return made;
}

/** The files of the page come from a directory, with the policy that the daemon gives them. */
async function serveFiles(context, url) {
  // A page whose files the browser got from nowhere may ask nobody on loopback unless it is let.
  await context.grantPermissions(['local-network-access']);
  await context.route((asked) => asked.origin === url && !/^\/(?:v1|healthz|readyz|metrics|docs)/.test(asked.pathname), (route) => {
    const path = new URL(route.request().url()).pathname;
    const file = extname(path) && existsSync(DIST + path) ? DIST + path : `${DIST}/index.html`;
    return route.fulfill({ body: readFileSync(file), headers: { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': CSP, 'cache-control': 'max-age=3600' } });
  });
}

/** A page with the probe. `wanted` is looked for from its beginning on. */
export async function open(who, path, wanted, { slow } = {}) {
  const page = await who.context.newPage();
  page.setDefaultTimeout(60_000);
  await page.addInitScript(installProbe, wanted ?? null);
  const cdp = await who.context.newCDPSession(page);
  if (slow !== undefined) await cdp.send('Emulation.setCPUThrottlingRate', { rate: slow });
  await page.goto(new URL(path, who.url).href);
  return { page, cdp };
}

/** Megabytes of the page's heap after a collection. */
export async function heap(cdp) {
  await cdp.send('HeapProfiler.collectGarbage');
  return (await cdp.send('Runtime.getHeapUsage')).usedSize / 1e6;
}
