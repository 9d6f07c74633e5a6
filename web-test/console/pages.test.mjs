// Owns that every page is clean and accessible: at the desk and on the phone, in both themes.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const PAGES = {
  '/': /^Sessions|need/i, '/needs': 'Needs you', '/needs?state=decided': 'Needs you', '/new': 'New session', '/watch': 'Watch', '/usage': 'Usage', '/health': 'Health',
  '/settings/look': 'Settings', '/settings/keys': 'Settings', '/settings/notices': 'Settings', '/settings/logins': 'Settings', '/settings/configuration': 'Settings',
};

let waiting, finished;
const here = stage({
  async set({ world }) {
    const begin = (prompt) => world.ask('/v1/sessions', { body: { cwd: world.work, prompt } });
    const [done, tool] = [await begin('hello'), await begin('tool'), await begin('question'), await begin('plan'), await begin('error')];
    waiting = tool.id;
    finished = done.id;
    await until('turns end and requests wait', async () => {
      const { items } = await world.ask('/v1/sessions');
      return items.filter((one) => one.pending_approvals.length > 0).length === 3 && items.find((one) => one.id === done.id).turns === 1;
    });
  },
});

for (const size of ['desk', 'phone']) {
  test(`every page is clean and accessible on the ${size}`, async () => {
    const { browser, world } = here;
    const person = await Person.at(browser, world.url, { size });
    const page = await person.signIn(await world.address());
    for (const [path, heading] of Object.entries({ ...PAGES, [`/s/${waiting}`]: null })) {
      await page.goto(world.url + path);
      if (heading !== null) await page.getByRole('heading', { name: heading }).or(page.getByRole('dialog', { name: heading })).first().waitFor();
      else await page.getByRole('button', { name: /Allow once/ }).waitFor();
      await accessible(page, `${path} on the ${size}`);
    }
    await person.clean();
    await person.context.close();
  });
}

test('the settings lead to the licences of what the page is made of', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url, {});
  const page = await person.signIn(await world.address());
  await page.goto(`${world.url}/settings/look`);
  const opened = page.waitForEvent('popup');
  await page.getByRole('link', { name: /Licences of the libraries/ }).click();
  const text = await (await opened).locator('body').innerText();
  for (const library of ['solid-js', 'highlight.js', 'd3-scale']) assert.ok(text.includes(library), library);
  await person.clean();
  await person.context.close();
});

test('words are found in a conversation, and the whole of it is saved as a file', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url, { acceptDownloads: true });
  const page = await person.signIn(await world.address('viewer'));
  await page.goto(`${world.url}/s/${finished}`);
  await page.getByRole('heading', { name: 'hello' }).waitFor();
  await page.keyboard.press('Control+f');
  const find = page.getByRole('dialog', { name: 'Find' });
  await find.getByRole('searchbox').fill('HELLO');
  const hit = find.getByRole('button', { name: /^You.*hello/s });
  await hit.waitFor();
  await find.getByText(/^\d+ hits?\.$/).waitFor();
  await accessible(page, 'find');
  await page.keyboard.press('Escape');
  await find.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+f');
  await find.getByRole('searchbox').fill('hello');
  await hit.click();
  await page.waitForURL(/\/r\/\d+$/);
  for (const [word, name, begins] of [['Export as Markdown', 'hello.md', '# hello\n\n## You\n\nhello\n'], ['Export as JSON', 'hello.json', '[\n{"seq":1,']]) {
    await page.getByRole('button', { name: 'More for this conversation' }).click();
    const saved = page.waitForEvent('download');
    await page.getByRole('menuitem', { name: word }).click();
    const download = await saved;
    assert.equal(download.suggestedFilename(), name);
    const text = readFileSync(await download.path(), 'utf8');
    assert.ok(text.startsWith(begins), text.slice(0, 200));
    if (name.endsWith('json')) assert.deepEqual(JSON.parse(text), await world.journal(finished));
  }
  await person.clean();
  await person.context.close();
});
