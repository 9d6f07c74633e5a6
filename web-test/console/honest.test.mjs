// Owns that the page says what is so, when things go wrong: nothing twice, no work that has ended, no question that is decided, no
// word of a person that is lost, and every refusal in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { asks } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({ agent: 'fake' });

const session = (id) => here.world.ask(`/v1/sessions/${id}`);
const count = async (page, words) => (await page.getByRole('feed', { name: 'Transcript' }).innerText()).split(words).length - 1;

/** A person with a page of a session, who may lose the daemon. */
async function at(id) {
  const person = await Person.at(here.browser, here.world.url);
  const page = await person.context.newPage();
  await page.goto(here.world.url + await here.world.address());
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.goto(`${here.world.url}/s/${id}`);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  return { person, page };
}

test('a final text that the result repeats, with a blank more, is there once', async () => {
  const id = await here.world.play('twice', [{ text: 'The tests pass now.' }, { result: { result: 'The tests pass now. \n' } }]);
  await until('the turn ends', async () => (await session(id)).turns === 1);
  const { person, page } = await at(id);
  await page.getByText('The tests pass now.').first().waitFor();
  assert.equal(await count(page, 'The tests pass now.'), 1);
  await person.context.close();
});

test('work that ended while the page was away has ended, and a busy turn stays one through ten losses', { timeout: 120_000 }, async () => {
  const { world } = here;
  const id = await world.play('busy', [{ text: 'It begins.' }, { wait_file: 'go' }, { text: 'It ends.' }]);
  const { person, page } = await at(id);
  const state = page.locator('.header-how');
  await state.getByText(/^Working/).waitFor();
  await page.evaluate(() => {
    globalThis.states = new Set();
    const look = () => { const words = document.querySelector('.header-how')?.innerText.replace(/[\d:]+/g, '').trim(); if (words !== undefined) globalThis.states.add(words); };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  for (let n = 0; n < 10; n += 1) {
    const back = page.waitForEvent('websocket', { timeout: 60_000 }).then((socket) => socket.waitForEvent('framereceived', { timeout: 60_000 }));
    world.network.cut();
    await back;
  }
  const states = await page.evaluate(() => [...globalThis.states]);
  assert.ok(states.every((words) => /Working$/.test(words)), `the state went through ${JSON.stringify(states)}`);
  world.network.cut({ stays: true });
  await page.getByText(/Offline\. As of/).waitFor();
  world.touch('busy', 'go');
  await until('the turn ends', async () => (await session(id)).turns === 1);
  world.network.back();
  await state.getByText(/^(?:Ready|To read)/).waitFor();
  for (const words of ['It begins.', 'It ends.', 'busy']) assert.equal(await count(page, words), 1, `"${words}" is not there once`);
  await person.context.close();
});

test('a loss is said within two seconds, and one that nobody tells of within twenty, as of when something was heard', { timeout: 120_000 }, async () => {
  const { world } = here;
  const person = await Person.at(here.browser, world.url);
  const page = await person.context.newPage();
  await page.clock.install();
  await page.addInitScript(() => {
    globalThis.WebSocket = class extends WebSocket {
      constructor(...all) {
        super(...all);
        this.addEventListener('close', () => { globalThis.closedAt ??= performance.now(); });
        this.addEventListener('message', () => { globalThis.heardAt = Date.now(); });
      }
    };
    new MutationObserver(() => { if (document.body?.innerText.includes('Offline. As of')) globalThis.saidAt ??= performance.now(); }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  await page.goto(world.url + await world.address());
  const needs = page.getByRole('link', { name: 'Needs you' });
  await needs.waitFor();
  await until('the page is live', () => page.evaluate(() => globalThis.heardAt !== undefined));
  const offline = page.getByText(/Offline\. As of/);
  world.network.cut({ stays: true });
  await offline.waitFor();
  const took = await page.evaluate(() => globalThis.saidAt - globalThis.closedAt);
  assert.ok(took >= 1_400 && took <= 2_000, `it was said after ${Math.round(took)} ms`);
  world.network.back();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2_000 }).catch(() => undefined);
  await offline.waitFor({ state: 'detached' });
  world.network.freeze();
  const heard = await page.evaluate(() => new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }).format(globalThis.heardAt));
  const before = await page.evaluate(() => Date.now());
  await page.clock.fastForward(15_000);
  assert.ok(!(await offline.isVisible()), 'it was said before it was known');
  await page.clock.fastForward(5_000);
  await offline.waitFor();
  const after = await page.evaluate(() => Date.now());
  assert.ok(after - before < 21_000, `it was said after ${after - before} ms`);
  assert.match(await offline.innerText(), new RegExp(`As of ${heard}`));
  await page.getByRole('region', { name: 'Connection' }).getByText(/Trying/).waitFor();
  world.network.back();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2_000 }).catch(() => undefined);
  await offline.waitFor({ state: 'detached' });
  await person.context.close();
});

test('what is typed while the daemon is away is kept, is sent when it is back, and is there once', { timeout: 120_000 }, async () => {
  const { world } = here;
  const id = await world.play('typing', [{ text: 'Yes?' }]);
  await until('the turn ends', async () => (await session(id)).turns === 1);
  const { person, page } = await at(id);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.pressSequentially('Try the ');
  await world.kill();
  await box.pressSequentially('other fixture');
  await page.getByText(/Offline\. As of/).waitFor();
  assert.equal(await box.inputValue(), 'Try the other fixture');
  await page.reload().catch(() => undefined);
  await world.serve();
  await page.goto(`${world.url}/s/${id}`);
  await until('the draft is there', async () => (await box.inputValue()) === 'Try the other fixture');
  await box.press('Enter');
  await until('it is sent', async () => (await session(id)).turns === 2);
  await until('the box is empty', async () => (await box.inputValue()) === '');
  world.network.cut();
  await page.reload();
  await page.getByRole('article', { name: 'You' }).filter({ hasText: 'Try the other fixture' }).waitFor();
  assert.equal(await page.getByRole('article', { name: 'You' }).filter({ hasText: 'Try the other fixture' }).count(), 1);
  await person.context.close();
});

test('a second question stands behind the first, and cards go when they are withdrawn or the turn is stopped', { timeout: 120_000 }, async () => {
  const { world } = here;
  const id = await world.play('cards', [
    { ask: { tool: 'Bash', input: { command: 'echo first' }, ids: ['one'], wait: false } }, { wait_file: 'second' }, { ask: { tool: 'Bash', input: { command: 'echo second' }, ids: ['two'], wait: false } },
    { wait_file: 'away' }, { cancel: 'one' }, { wait_file: 'never' },
  ]);
  const { person, page } = await at(id);
  const card = page.getByRole('region', { name: 'Run a command?' });
  await card.getByText('echo first').waitFor();
  world.touch('cards', 'second');
  await card.getByText('1 of 2').waitFor();
  assert.ok(await card.getByText('echo first').isVisible(), 'the second question took the place of the first');
  // The first one is withdrawn while a hand is on its way: the click meets the second card, which is dead so soon.
  await page.evaluate(() => {
    new MutationObserver(() => {
      const shown = document.querySelector('.decision');
      if (shown?.innerText.includes('echo second')) [...shown.querySelectorAll('button')].find((one) => one.textContent.startsWith('Allow once'))?.click();
    }).observe(document.body, { childList: true, subtree: true });
  });
  world.touch('cards', 'away');
  await card.getByText('echo second').waitFor();
  assert.equal((await session(id)).pending_approvals.length, 1, 'a stale click decided the next question');
  await page.getByRole('banner').or(page.locator('.header-acts')).getByRole('button', { name: 'Interrupt' }).first().click();
  await page.getByText('Interrupted by you').waitFor();
  await until('no card is left', async () => (await card.count()) === 0);
  assert.equal(await page.getByText(/error_during_execution|Request interrupted|aborted/).count(), 0, 'a raw error is shown');
  await person.context.close();
});

test('every refusal is JSON, and is said in words', async () => {
  const { world } = here;
  const id = await world.play('refusals', [{ text: 'Ready.' }]);
  const base = `http://127.0.0.1:${world.port}`;
  const authorization = `Bearer ${world.token}`;
  const asked = [
    [400, fetch(`${base}/v1/sessions`, { method: 'POST', headers: { authorization, 'content-type': 'application/json' }, body: '{' })],
    [405, fetch(`${base}/v1/sessions`, { method: 'PATCH', headers: { authorization } })],
    [413, fetch(`${base}/v1/sessions/${id}`, { method: 'PATCH', headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify({ title: 'x'.repeat(2_000_000) }) })],
  ];
  for (const [status, answer] of asked) {
    const got = await answer;
    assert.equal(got.status, status);
    assert.match(got.headers.get('content-type'), /^application\/problem\+json/);
    assert.ok((await got.json()).title.length > 3);
  }
  const person = await Person.at(here.browser, world.url);
  const page = await person.signIn(await world.address());
  await page.goto(`${world.url}/new`);
  const dialog = page.getByRole('dialog', { name: 'New session' });
  await dialog.getByLabel('Where').fill('/no/such/directory');
  await dialog.getByRole('button', { name: 'Start' }).click();
  const said = await dialog.getByRole('status').locator('p').first().innerText();
  assert.ok(said.length > 5 && !/[{}]|undefined|\[object/.test(said), `it says: ${said}`);
  await person.context.close();
});
