// Owns what a person does in the list of sessions: by keys, with one or many, and that it holds still while it is used.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({
  async set(all) {
    const { browser, world } = all;
    all.begin = async (title, prompt) => (await world.ask('/v1/sessions', { body: { cwd: world.work, title, prompt } })).id;
    all.ids = {};
    for (const [title, prompt] of [['Asks', 'tool'], ['Wonders', 'question'], ['One', 'hello'], ['Two', 'hello'], ['Three', 'hello']]) {
      all.ids[title] = await all.begin(title, prompt);
      // The one that waits longest comes first.
      if (title === 'Asks') await until('it waits', async () => (await world.ask(`/v1/sessions/${all.ids.Asks}`)).pending_approvals.length > 0);
    }
    await until('turns end and two wait', async () => {
      const { items } = await world.ask('/v1/sessions');
      return items.filter((one) => one.pending_approvals.length > 0).length === 2 && items.filter((one) => one.turns === 1).length >= 3;
    });
    all.person = await Person.at(browser, world.url);
    all.page = await all.person.signIn(await world.address());
    all.row = (title) => all.page.locator('.session-row').filter({ has: all.page.getByRole('link', { name: title, exact: true }) });
    all.titles = () => all.page.locator('.session-row-link').allInnerTexts();
    /** Puts the keys on a row. */
    all.stand = async (title) => { await all.page.getByRole('link', { name: title, exact: true }).first().focus(); };
  },
});

const session = (title) => here.world.ask(`/v1/sessions/${here.ids[title]}`);

test('keys go through the list, open, name, tag and put off', async () => {
  const { page, row, stand, titles } = here;
  await row('Three').waitFor();
  assert.equal((await titles())[0], 'Asks');
  await stand('Asks');
  await page.keyboard.press('j');
  await until('the row below has the focus', () => page.evaluate(() => document.activeElement.textContent === 'Wonders'));
  await page.keyboard.press('k');
  await until('the row above has it again', () => page.evaluate(() => document.activeElement.textContent === 'Asks'));
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/s/${here.ids.Asks}`);
  await page.goBack();
  await page.waitForURL((url) => url.pathname === '/');
  await stand('One');
  await page.keyboard.press('r');
  await page.getByRole('textbox', { name: 'Rename' }).fill('First');
  await page.keyboard.press('Enter');
  await row('First').waitFor();
  await stand('First');
  await page.keyboard.press('l');
  await page.getByRole('textbox', { name: 'Tag' }).fill('docs');
  await page.keyboard.press('Enter');
  await row('First').getByText('docs').waitFor();
  await stand('Wonders');
  await page.keyboard.press('z');
  await page.getByRole('button', { name: '30 minutes' }).click();
  await row('Wonders').locator('.chip').waitFor();
});

test('a filter is in the address, and holds over a reload', async () => {
  const { page, titles, world } = here;
  await page.getByRole('searchbox', { name: 'Filter sessions' }).fill('t');
  await page.getByRole('button', { name: /^Filters/ }).click();
  await page.getByLabel('Tag').selectOption('docs');
  await until('the address has both', () => /[?&]q=t(?:&|$)/.test(page.url()) && page.url().includes('tag=docs'));
  await until('one is left', async () => JSON.stringify(await titles()) === '["First"]');
  await page.reload();
  await until('one is left again', async () => JSON.stringify(await titles()) === '["First"]');
  await page.goto(`${world.url}/?q=nothing-has-this`);
  await page.getByRole('button', { name: /Clear filter/ }).click();
  await until('all are back', async () => (await titles()).length >= 4);
});

test('on a phone Back closes the menu and the dialog that is open, and only then leaves the page', async () => {
  const { browser, ids, world } = here;
  const person = await Person.at(browser, world.url, { size: 'phone' });
  const page = await person.signIn(await world.address());
  const path = () => new URL(page.url()).pathname;
  const more = page.getByRole('button', { name: 'More for Two' });
  const [rename, dialog] = [page.getByRole('menuitem', { name: /^Rename/ }), page.getByRole('dialog')];
  await more.click();
  await rename.waitFor();
  await page.goBack();
  await rename.waitFor({ state: 'detached' });
  await more.click();
  await rename.click();
  await dialog.waitFor();
  await page.goBack();
  await dialog.waitFor({ state: 'detached' });
  // A layer that was closed by its button needs no Back.
  await more.click();
  await rename.click();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Two', exact: true }).click();
  await page.waitForURL(`**/s/${ids.Two}`);
  const choices = page.getByRole('menuitem', { name: /^Find/ });
  await page.getByRole('button', { name: 'More for this conversation' }).click();
  await choices.click();
  await page.getByRole('dialog', { name: 'Find' }).waitFor();
  await page.goBack();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(path(), `/s/${ids.Two}`);
  await page.goBack();
  await page.waitForURL((url) => url.pathname === '/');
  await more.waitFor();
  await person.clean();
  await person.context.close();
});

test('of a thousand sessions those in sight are drawn; keys and focus go through all of them, and words find each', async () => {
  const { person, world } = here;
  const page = await person.context.newPage();
  page.setDefaultTimeout(20_000);
  // The daemon tells of five; the page hears of a thousand that are like one of them.
  await page.routeWebSocket(/\/v1\/ws/, (socket) => {
    const daemon = socket.connectToServer();
    daemon.onMessage((message) => {
      const lines = String(message).split('\n').map((line) => {
        if (!line.includes('"trunkline.lobby"')) return line;
        const lobby = JSON.parse(line);
        const one = lobby.sessions.find(({ title }) => title === 'Two');
        lobby.sessions.push(...Array.from({ length: 1_000 }, (_, n) => ({ ...one, id: one.id.slice(0, -4) + String(n).padStart(4, '0'), title: `Copy ${n}`, unread: true, cwd: `/work/${n % 20}` })));
        return JSON.stringify({ ...lobby, total: lobby.sessions.length });
      });
      socket.send(lines.join('\n'));
    });
  });
  await page.goto(world.url);
  await page.getByRole('button', { name: /^To read.*100\d/ }).waitFor();
  const elements = () => page.evaluate(() => document.getElementsByTagName('*').length);
  assert.ok(await elements() <= 1_500, `${await elements()} elements`);
  const focused = () => page.evaluate(() => document.activeElement?.closest('.session-row')?.querySelector('.session-row-link')?.textContent ?? null);
  await page.locator('.session-row-link').first().focus();
  await page.keyboard.press('End');
  const line = () => page.evaluate(() => { const item = document.activeElement?.closest('li'); return [Number(item?.ariaPosInSet), Number(item?.ariaSetSize)]; });
  await until('the last row has the focus', async () => { const [at, of] = await line(); return at > 1_000 && at === of; });
  const last = await focused();
  const row = page.getByRole('link', { name: last, exact: true });
  await until('it is in sight', () => row.evaluate((link) => { const { top, bottom } = link.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }));
  // Out of sight the focus stays where it is, and the next key goes on from there.
  await page.locator('.list-scroll').evaluate((scroller) => { scroller.scrollTop = 0; });
  await page.getByRole('link', { name: 'Asks', exact: true }).waitFor();
  assert.equal(await focused(), last);
  await page.keyboard.press('k');
  await until('the row above has the focus', async () => { const [at, of] = await line(); return at > 1_000 && at < of; });
  assert.ok(await elements() <= 1_500, `${await elements()} elements`);
  await page.keyboard.press('/');
  await page.keyboard.type('Copy 777');
  await until('one is found', async () => (await page.locator('.session-row-link').allInnerTexts()).join() === 'Copy 777');
  await page.close();
});

test('a very wide page shows two sessions beside each other, and the keys are those of the half that a person is in', async () => {
  const { ids, person, world } = here;
  const page = await person.context.newPage();
  page.setDefaultTimeout(20_000);
  await page.setViewportSize({ width: 1800, height: 900 });
  await page.goto(`${world.url}/s/${ids.Two}`);
  const [first, beside] = [page.getByRole('region', { name: 'Conversation', exact: true }), page.getByRole('region', { name: 'Conversation beside' })];
  await first.getByRole('heading', { name: 'Two' }).waitFor();
  await page.keyboard.press('\\');
  await beside.getByRole('heading', { name: 'Asks' }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get('beside'), ids.Asks);
  // A letter of a decision counts in its own half alone.
  await beside.getByRole('button', { name: /^Deny/ }).first().waitFor();
  await first.getByRole('feed').click();
  await page.waitForTimeout(600);
  await page.keyboard.press('d');
  assert.equal(await beside.getByRole('textbox', { name: /instead/ }).count(), 0);
  await beside.getByRole('feed').click();
  await until('the card takes its key', async () => { await page.waitForTimeout(600); await page.keyboard.press('d'); return await beside.getByRole('textbox', { name: /instead/ }).count() === 1; });
  await page.keyboard.press('Escape');
  await page.goBack();
  await beside.waitFor({ state: 'detached' });
  await first.getByRole('textbox', { name: 'Message' }).waitFor();
  await page.locator('.beside').getByRole('link', { name: 'Wonders', exact: true }).focus();
  await page.keyboard.press('o');
  await beside.getByRole('heading', { name: 'Wonders' }).waitFor();
  await beside.getByRole('button', { name: 'Close', exact: true }).click();
  await beside.waitFor({ state: 'detached' });
  await page.close();
});

test('many are tagged and stopped at once; a deletion can be undone for ten seconds', async () => {
  const { page, person, row, stand } = here;
  for (const title of ['Two', 'Three']) {
    await stand(title);
    await page.keyboard.press('x');
  }
  const bar = page.getByRole('group', { name: 'Selected sessions' });
  await bar.getByText('2 sessions').waitFor();
  await bar.getByRole('button', { name: 'Tag' }).click();
  await page.getByRole('textbox', { name: 'Tag' }).fill('both');
  await page.keyboard.press('Enter');
  await until('both have it', async () => (await session('Two')).tag === 'both' && (await session('Three')).tag === 'both');
  await bar.getByRole('button', { name: 'Stop' }).click();
  await until('both are stopped', async () => (await session('Two')).state === 'stopped' && (await session('Three')).state === 'stopped');
  await bar.getByRole('button', { name: 'Select nothing' }).click();
  // One is deleted for good meanwhile, and one by a page that closes before.
  const deleted = Date.now();
  await stand('First');
  await page.keyboard.press('#');
  await row('First').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo (10 s)' }).click();
  await row('First').waitFor();
  await stand('First');
  await page.keyboard.press('#');
  await row('First').waitFor({ state: 'detached' });
  assert.equal((await session('One')).title, 'First', 'the deletion did not wait');
  const other = await person.page('/');
  await other.getByRole('link', { name: 'Wonders', exact: true }).first().focus();
  await other.keyboard.press('#');
  await other.getByRole('button', { name: 'Undo (10 s)' }).waitFor();
  await other.close();
  await until('it is deleted', () => session('One').then(() => false, () => true), 30_000);
  assert.ok(Date.now() - deleted >= 10_000);
  assert.equal((await session('Wonders')).title, 'Wonders', 'a page that was closed deleted something');
});

test('nothing moves under the pointer, until a person sorts', async () => {
  const { begin, page, person, row, titles } = here;
  await row('Asks').hover();
  const before = await titles();
  here.ids.Late = await begin('Late', 'question');
  const sort = page.getByRole('button', { name: /moved · sort now/ });
  await sort.waitFor();
  assert.deepEqual((await titles()).slice(0, before.length), before);
  // It works first, and asks then: each may be a move of its own.
  await until('what waits is on top', async () => {
    if (await sort.isVisible()) await sort.click();
    return (await titles()).slice(0, 3).includes('Late');
  });
  await person.clean();
});
