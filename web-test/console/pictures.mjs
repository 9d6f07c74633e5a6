// Owns the pictures of the console in docs/pictures: real sessions of the real CLI, drawn by the daemon's own page.
// Run it by hand: node web-test/console/pictures.mjs
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Person, launch } from './browser.mjs';
import { World, until } from './world.mjs';

const TO = fileURLToPath(new URL('../../docs/pictures/', import.meta.url));

const browser = await launch();
const world = await World.start({ agent: 'real' });
try {
  // The page shows where a session works: a short name, and none of this machine.
  const code = join(tmpdir(), 'code');
  const shop = join(code, 'shop');
  mkdirSync(join(shop, 'src'), { recursive: true });
  writeFileSync(join(shop, 'src/auth.rs'), 'fn check(token: &str) -> bool {\n    if token == "" {\n        return false;\n    }\n    known(token)\n}\n');
  const steps = async (script) => {
    await fetch(`${world.env.ANTHROPIC_BASE_URL}/control`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ default_script: script }) });
  };
  const begin = async (title, prompt, script, { cwd = shop, options = {}, isDone }) => {
    await steps(script);
    const { id } = await world.ask('/v1/sessions', { body: { cwd, title, prompt, options } });
    await until(`${title} is as it is to be`, async () => isDone(await world.ask(`/v1/sessions/${id}`)));
    return id;
  };
  const ended = (one) => one.turns === 1;
  const waits = (one) => one.pending_approvals.length > 0;
  await begin('Import job', 'Write the import job.', [{ text: 'The import job is written: it reads a line at a time, and says which lines it left out.' }], { isDone: ended });
  await begin('Docs', 'What is missing in the docs?', [{ text: 'Two options have no explanation: `retry` and `limit`.' }], { isDone: ended });
  await begin('Shop API', 'Add the orders.', [{ tool: 'AskUserQuestion', input: { questions: [{
    question: 'Which database?', header: 'Database', multiSelect: false,
    options: [{ label: 'SQLite', description: 'one file' }, { label: 'Postgres', description: 'a server' }],
  }] } }, { text: 'Done.' }], { isDone: waits });
  const id = await begin('Fix login', 'An empty token must be refused. Make the tests pass.', [
    { text: 'I look at the check first.', tool: 'Read', input: { file_path: join(shop, 'src/auth.rs') } },
    { tool: 'Edit', input: { file_path: join(shop, 'src/auth.rs'), old_string: 'if token == "" {', new_string: 'if token.trim().is_empty() {' } },
    { text: 'A token of blanks passed as well. Both are refused now:\n\n1. `check` trims the token.\n2. A test has both.\n\nNow the tests.', tool: 'Bash', input: { command: 'cargo test --all --quiet', description: 'Runs all tests' } },
    { text: 'They pass.' },
  ], { options: { permission_mode: 'acceptEdits' }, isDone: waits });
  mkdirSync(TO, { recursive: true });
  for (const [name, more] of [['console-desk', { size: 'desk', theme: 'light' }], ['console-phone', { size: 'phone', theme: 'dark' }]]) {
    const person = await Person.at(browser, world.url, more);
    const page = await person.signIn(await world.address());
    await page.goto(`${world.url}/s/${id}`);
    await page.getByRole('button', { name: 'Allow once' }).waitFor();
    await page.evaluate(() => document.activeElement?.blur?.());
    await page.mouse.move(0, 0);
    await page.waitForTimeout(1_000);
    await page.screenshot({ path: join(TO, `${name}.png`) });
    await person.context.close();
  }
} finally {
  await browser.close();
  await world.end();
  rmSync(join(tmpdir(), 'code'), { recursive: true, force: true });
}
