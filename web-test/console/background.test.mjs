// Owns what a person sees of a command in the background, with the real CLI: the strip above the box, its page with its output as it
// comes, its end, and Stop.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { stage } from './stage.mjs';
import { scripted, until } from './world.mjs';

const here = stage({
  agent: 'real',
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url);
    all.page = await all.person.signIn(await world.address());
  },
});

/** A session whose agent leaves a command in the background; it prints its name, and ends once the file of that name is there. */
async function begin(name) {
  const { page, world } = here;
  const command = `echo ${name} began; until test -e ${name}; do sleep 0.1; done; echo ${name} is over`;
  const prompt = scripted('Do it', [{ tool: 'Bash', input: { command, description: `Wait for ${name}`, run_in_background: true } }, { text: 'It runs.' }, { text: 'I heard of it.' }]);
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt, options: { allowed_tools: ['Bash'] } } });
  await page.goto(`${world.url}/s/${id}`);
  await page.getByRole('feed').getByText('It runs.').waitFor();
  return id;
}

const head = () => here.page.getByRole('navigation', { name: 'Where you are' });
const task = () => here.page.getByRole('region', { name: 'Task' });

test('a task in the background leads to its page, which has its command, its output as it comes and its end', async () => {
  const { page, world } = here;
  const id = await begin('dawn');
  await page.getByRole('button', { name: /^1 task in the background: Wait for dawn/ }).click();
  await page.getByRole('complementary', { name: 'Side panel' }).getByRole('link', { name: 'Wait for dawn' }).click();
  await page.waitForURL(`**/s/${id}/task/*`);
  await head().getByRole('heading', { name: 'Task · Wait for dawn' }).waitFor();
  await head().getByText(/^running · 0:\d\d/).waitFor();
  await task().getByText('until test -e dawn').waitFor();
  await task().getByText('dawn began', { exact: true }).waitFor();
  await accessible(page, 'the page of a task');
  writeFileSync(join(world.work, 'dawn'), '');
  await head().getByText(/^completed/).waitFor();
  await task().getByText(/dawn is over\s+\[exited with code 0\]/).waitFor();
  // Its address is enough, also once it has ended.
  await page.reload();
  await head().getByRole('heading', { name: 'Task · Wait for dawn' }).waitFor();
  await head().getByRole('link', { name: '‹ Conversation' }).click();
  await page.waitForURL(`**/s/${id}`);
});

test('a task is stopped on its page, and an address of none says so', async () => {
  const { page, person, world } = here;
  const id = await begin('dusk');
  const { task_id: taskId } = await until('it runs', async () => (await world.ask(`/v1/sessions/${id}/tasks`)).items[0]);
  await page.goto(`${world.url}/s/${id}/task/${taskId}`);
  await task().getByText('dusk began', { exact: true }).waitFor();
  await head().getByRole('button', { name: 'Stop' }).click();
  await head().getByText(/^(?:stopped|killed)/).waitFor();
  await until('nothing runs', async () => (await world.ask(`/v1/sessions/${id}/tasks`)).items.length === 0);
  await page.goto(`${world.url}/s/${id}/task/nothing`);
  await head().getByText('There is no such task.').waitFor();
  await person.clean();
});
