// Owns what a person answers when an agent asks: questions, a plan, a form; and what is left of a card that somebody else decided.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url, { size: 'phone' });
    all.page = await all.person.signIn(await world.address());
    all.card = all.page.locator('.decision');
  },
});

/** A session that asks, on the page. */
async function begin(prompt) {
  const { page, world } = here;
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt } });
  await page.goto(`${world.url}/s/${id}`);
  await here.card.waitFor();
  return id;
}

/** Presses the button that sends, and answers with what was sent once the turn has ended. */
async function send(id, name) {
  const { page, card, world } = here;
  const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().includes('/approvals/'));
  await until('the press counts', async () => {
    await card.getByRole('button', { name }).click({ timeout: 1_000 }).catch(() => undefined);
    return !(await card.isVisible());
  });
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  return (await sent).postDataJSON();
}

test('questions take words of one\'s own and several answers, and keep them over a reload', async () => {
  const { page, card } = here;
  const id = await begin('question');
  await card.getByLabel('Something else, in your words').fill('My own words');
  await card.getByRole('button', { name: 'Next' }).click();
  await card.getByText('Several may be chosen.').waitFor();
  await card.getByRole('checkbox').nth(0).check();
  await card.getByRole('checkbox').nth(1).check();
  await page.reload();
  await card.getByRole('checkbox', { checked: true }).nth(1).waitFor();
  const { decision, answers } = await send(id, 'Send 2 answers');
  assert.deepEqual([decision, Object.values(answers)], ['answer', ['My own words', ['S', 'L']]]);
});

test('a plan that a person changed is the one that is worked on', async () => {
  const { card } = here;
  const id = await begin('plan');
  const edit = card.getByRole('button', { name: /^Edit step/ });
  await edit.nth(1).click();
  await card.getByLabel('This step').fill('2. Change one thing.');
  await card.getByRole('button', { name: /^Done with step/ }).click();
  await card.getByRole('button', { name: '+ Add a step' }).click();
  await card.getByText('changed by you').waitFor();
  const { plan } = await send(id, /^Start/);
  assert.match(plan, /1\. Look around\.\n2\. Change one thing\.\n3\. Say so\.\n+4\. A new step/);
});

test('a card that somebody else decided becomes one line, and then nothing', async () => {
  const { card, page, person, world } = here;
  const id = await begin('tool');
  const [asked] = (await world.ask(`/v1/sessions/${id}`)).pending_approvals;
  await world.ask(`/v1/sessions/${id}/approvals/${asked.id}`, { body: { decision: 'deny' } });
  const line = page.getByText(/^Denied by/);
  await line.waitFor();
  assert.equal(await card.count(), 0);
  await line.waitFor({ state: 'detached' });
  await person.clean();
});
