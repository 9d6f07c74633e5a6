// Owns the page "Needs you" as the one place for all that needs a person: decisions and other needs beside each other, a decision
// that is muted, and an address of one that does not wait any more.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { asks, says } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({
  agent: 'fake',
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url);
    all.page = await all.person.signIn(await world.address());
    all.ids = { asks: await world.play('asks', [asks('Bash', { command: 'echo one' })]), fails: await world.play('fails', [says('I begin.'), { exit: 7 }], { restart: { max_restarts: 0 } }) };
    await until('one waits and one failed', async () => {
      const { items } = await world.ask('/v1/sessions');
      return items.some((one) => one.pending_approvals.length > 0) && items.some((one) => one.state === 'failed');
    });
  },
});

test('what failed stands beside what is to be decided, on the page that the badge leads to', async () => {
  const { page, world } = here;
  await page.goto(`${world.url}/needs`);
  await page.getByRole('region', { name: 'Run a command?' }).waitFor();
  await page.getByRole('navigation', { name: 'Decisions' }).getByText('Waiting 2').waitFor();
  const others = page.getByRole('list', { name: 'Sessions that need you for another reason' });
  await others.getByText(/^It stopped/).waitFor();
  // Keys come to it as well: it is no row of the list.
  const link = others.getByRole('link', { name: 'fails' });
  assert.equal(await link.getAttribute('tabindex'), '0');
  await accessible(page, '/needs with a failure');
  await others.getByRole('button', { name: 'Leave it' }).click();
  await others.waitFor({ state: 'detached' });
  await page.getByRole('navigation', { name: 'Decisions' }).getByText('Waiting 1').waitFor();
});

test('an address of a request that does not wait any more says so, and another one is not taken for it', async () => {
  const { page, world } = here;
  await page.goto(`${world.url}/needs/00000000-0000-4000-8000-000000000000`);
  await page.getByText('It no longer waits for this.').waitFor();
  await page.getByRole('region', { name: 'Run a command?' }).waitFor();
  const [asked] = (await world.ask(`/v1/sessions/${here.ids.asks}`)).pending_approvals;
  await page.goto(`${world.url}/needs/${asked.id}`);
  await page.getByRole('region', { name: 'Run a command?' }).waitFor();
  assert.equal(await page.getByText('It no longer waits for this.').count(), 0);
});

test('a decision that is put off is muted: it is counted apart, and is no work', async () => {
  const { page, person, world } = here;
  await page.goto(world.url);
  const row = page.locator('.session-row').filter({ has: page.getByRole('link', { name: 'asks', exact: true }) });
  await row.getByRole('img', { name: 'Needs you' }).waitFor();
  await row.getByRole('button', { name: 'Allow' }).waitFor();
  await page.getByRole('link', { name: 'asks', exact: true }).focus();
  await page.keyboard.press('z');
  await page.getByRole('button', { name: '30 minutes' }).click();
  await page.getByRole('heading', { name: 'Needs you 0 · 1 muted' }).waitFor();
  await row.getByRole('img', { name: 'Needs you' }).waitFor();
  await row.getByText(/^Snoozed until/).waitFor();
  assert.equal(await row.getByRole('button', { name: 'Allow' }).count(), 0);
  await until('the title tells of no need', () => page.evaluate(() => document.title === 'Trunkline'));
  await person.clean();
});
