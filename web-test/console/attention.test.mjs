// Owns that a page draws the eye to what waits for a person, and to nothing else: on a phone all of it is on the first screen, and
// nothing is amber where nobody is needed. And what a person does with many sessions, and with the files that pages give.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const QUIET = 27;
const here = stage({
  async set(all) {
    const { browser, world } = all;
    all.begin = async (title, prompt) => (await world.ask('/v1/sessions', { body: { cwd: world.work, title, prompt } })).id;
    all.ids = await Promise.all(Array.from({ length: QUIET }, (_, at) => all.begin(`Quiet ${at}`, 'hello')));
    all.sessions = async () => (await world.ask('/v1/sessions?limit=100')).items;
    await until('all turns end', async () => (await all.sessions()).filter((one) => one.turns === 1).length === QUIET);
    all.person = await Person.at(browser, world.url, { acceptDownloads: true });
    all.page = await all.person.signIn(await world.address());
  },
});

/** Everything on the page that has the colour of a need as its ground or its edge. */
const amber = (page) => page.evaluate(() => {
  const probe = document.createElement('span');
  probe.className = 'badge';
  document.body.append(probe);
  const fill = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return [...document.body.querySelectorAll('*')].filter((one) => one.checkVisibility()
    && [getComputedStyle(one).backgroundColor, parseFloat(getComputedStyle(one).borderLeftWidth) > 0 ? getComputedStyle(one).borderLeftColor : ''].includes(fill))
    .map((one) => one.outerHTML.slice(0, 120));
});

test('nothing is amber where nobody is needed', async () => {
  const { ids, page, world } = here;
  for (const path of ['/', '/needs', '/watch', `/s/${ids[0]}`]) {
    await page.goto(world.url + path);
    await page.getByRole('heading').first().waitFor();
    await until('the title tells of no need', () => page.evaluate(() => !document.title.startsWith('(')));
    assert.deepEqual(await amber(page), [], path);
    if (path.startsWith('/s/')) await until('the tab names its session', () => page.evaluate(() => /^.+ · Trunkline$/.test(document.title)));
  }
});

test('many are parked and deleted at once, and come back by an undo', async () => {
  const { page, sessions, world } = here;
  await page.goto(world.url);
  const row = (title) => page.locator('.session-row').filter({ has: page.getByRole('link', { name: title, exact: true }) });
  const pick = async (titles) => {
    for (const title of titles) {
      await page.getByRole('link', { name: title, exact: true }).first().focus();
      await page.keyboard.press('x');
    }
    await page.getByRole('group', { name: 'Selected sessions' }).getByText(`${titles.length} sessions`).waitFor();
  };
  const bar = page.getByRole('group', { name: 'Selected sessions' });
  const two = ['Quiet 26', 'Quiet 25'];
  await pick(two);
  await bar.getByRole('button', { name: 'Park' }).click();
  await until('both are parked', async () => (await sessions()).filter((one) => two.includes(one.title) && one.state === 'parked').length === 2);
  await bar.getByRole('button', { name: 'Delete' }).click();
  for (const title of two) await row(title).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo (10 s)' }).click();
  for (const title of two) await row(title).waitFor();
  assert.equal((await sessions()).length, QUIET);
});

test('of thirty sessions with three that wait, all three are on the first screen of a phone', async () => {
  const { begin, browser, sessions, world } = here;
  for (const prompt of ['tool', 'question', 'plan']) await begin(`Waits for ${prompt}`, prompt);
  await until('three wait', async () => (await sessions()).filter((one) => one.pending_approvals.length > 0).length === 3);
  const person = await Person.at(browser, world.url, { size: 'phone' });
  const page = await person.signIn(await world.address());
  const rows = page.locator('.session-row.is-needing');
  await until('three are drawn', async () => (await rows.count()) === 3);
  const fold = await page.getByRole('navigation', { name: 'Pages' }).evaluate((bar) => bar.getBoundingClientRect().top);
  for (const box of await rows.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()))) assert.ok(box.top >= 0 && box.bottom <= fold, `a row is at ${box.top} to ${box.bottom}, and the bar at ${fold}`);
  await person.clean();
  await person.context.close();
});

test('decisions and costs are saved as files for a table', async () => {
  const { page, person, sessions, world } = here;
  const waits = (await sessions()).find((one) => one.title === 'Waits for tool');
  await world.ask(`/v1/sessions/${waits.id}/approvals/${waits.pending_approvals[0].id}`, { body: { decision: 'deny', message: 'No, "thanks"' } });
  const save = async (button) => {
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: button, exact: true }).click();
    const download = await saved;
    return [download.suggestedFilename(), readFileSync(await download.path(), 'utf8')];
  };
  await page.goto(`${world.url}/needs?state=decided`);
  await page.getByRole('cell', { name: /Denied by/ }).waitFor();
  const [name, decisions] = await save('CSV');
  assert.equal(name, 'decisions.csv');
  assert.match(decisions.split('\r\n')[0], /^id,session_id,(?:[a-z0-9_]+,)+[a-z0-9_]+$/);
  assert.ok(decisions.includes(waits.id) && decisions.includes('denied'), decisions);
  const [, lines] = await save('NDJSON');
  assert.ok(lines.trim().split('\n').map((line) => JSON.parse(line)).some((one) => one.session_id === waits.id && one.state === 'denied'));
  await page.goto(`${world.url}/usage?by=cwd`);
  await page.getByRole('cell').first().waitFor();
  const [file, usage] = await save('CSV');
  assert.equal(file, 'usage-by-cwd.csv');
  assert.match(usage.split('\r\n')[0], /^cwd,cost_usd,turns,(?:[a-z0-9_]+,)+[a-z0-9_]+$/);
  assert.ok(usage.includes(world.work), usage);
  await person.clean();
});
