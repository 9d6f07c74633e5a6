// Owns that nobody decides by accident: not by a key or a tap that was meant for something else, not by a sentence, and not without
// the buttons in view; and that a decision of a sub-agent is seen wherever a person looks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { asks } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({ agent: 'fake' });

const pending = async (id) => (await here.world.ask(`/v1/sessions/${id}`)).pending_approvals;
const allow = (page) => page.getByRole('button', { name: /^Allow once/ });

test('keys and taps that come with a card, and a sentence that is typed beside one, decide nothing', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const id = await world.play('late', [{ wait_file: 'go' }, asks('Bash', { command: 'echo one' })]);
  await page.goto(`${world.url}/s/${id}`);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('Half a sentence');
  await page.keyboard.press('ArrowLeft');
  // In the page itself: as soon as a card is there, keys and clicks come with it, faster than any hand.
  await page.evaluate(() => {
    globalThis.tried = 0;
    new MutationObserver(() => {
      const button = [...document.querySelectorAll('.decision button')].find((one) => one.textContent.startsWith('Allow once'));
      if (button === undefined || globalThis.tried >= 60) return;
      for (const key of ['a', 'Enter', ' ', 'd']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      button.click();
      globalThis.tried += 1;
    }).observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true });
  });
  world.touch('late', 'go');
  await allow(page).waitFor();
  await until('they came with the card', () => page.evaluate(() => globalThis.tried > 0));
  assert.equal((await pending(id)).length, 1, 'a key or a click that came with the card decided it');
  assert.equal(await box.inputValue(), 'Half a sentence');
  assert.deepEqual(await box.evaluate((field) => [field === document.activeElement, field.selectionStart]), [true, 14], 'the card took the focus or moved the caret');
  await page.evaluate(() => { globalThis.tried = 1_000; });
  // A sentence in the box is a sentence, and so is one that goes on where the box lost the focus.
  await box.fill('');
  await box.pressSequentially('add a, d and A: a d', { delay: 2 });
  assert.equal(await box.inputValue(), 'add a, d and A: a d');
  // A thousand times, as fast as no hand is, so that no load of the machine makes a pause of it.
  await page.evaluate(() => {
    document.activeElement.blur();
    const keys = ['a', 'd', 'D', 'a', ' ', 'Enter', '1', 'a'];
    for (let sentence = 0; sentence < 1_000; sentence += 1) {
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '-', bubbles: true, cancelable: true }));
      for (let n = 0; n < 5; n += 1) document.body.dispatchEvent(new KeyboardEvent('keydown', { key: keys[Math.floor(Math.random() * keys.length)], bubbles: true, cancelable: true }));
    }
  });
  assert.equal((await pending(id)).length, 1, 'a sentence decided');
  assert.ok(await allow(page).isVisible(), 'a sentence opened another step of the card');
  assert.equal(await box.inputValue(), 'add a, d and A: a d');
  await person.clean();
  await person.context.close();
});

test('Allow and Deny are on the screen, however long what they decide', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const lines = (n, word) => Array.from({ length: n }, (_, at) => `${word} ${at}`).join('\n');
  const properties = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`field${at}`, { type: 'string', title: `Field ${at}`, description: lines(3, 'about') }]));
  const long = {
    command: await world.play('command', [asks('Bash', { command: lines(500, 'echo line') })]),
    change: await world.play('change', [asks('Write', { file_path: `${world.work}/change/long.txt`, content: lines(5_000, 'line') })]),
    form: await world.play('form', [{ request: { subtype: 'elicitation', mcp_server_name: 'tickets', message: lines(30, 'words'), mode: 'form', requested_schema: { type: 'object', properties } } }]),
  };
  const person = await Person.at(browser, world.url, { size: 'phone' });
  const page = await person.signIn(await world.address());
  for (const [name, id] of Object.entries(long)) {
    await page.goto(`${world.url}/s/${id}`);
    const buttons = page.locator('.decision .decision-buttons button');
    await buttons.filter({ hasText: /not seen/ }).first().waitFor();
    for (const height of [740, 400]) {
      await page.setViewportSize({ width: 360, height });
      await until(`the buttons of the ${name} are on the screen at ${height}`, async () => {
        const boxes = await buttons.evaluateAll((all) => all.map((one) => { const { top, bottom, left, right } = one.getBoundingClientRect(); return [top, bottom, left, right, document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === one || one.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2))]; }));
        return boxes.length >= 2 && boxes.every(([top, bottom, left, right, isOnTop]) => top >= 0 && bottom <= height && left >= 0 && right <= 360 && isOnTop);
      }, 10_000);
      const [wide, has] = await page.locator('.decision-body').evaluate((body) => [body.scrollWidth, body.clientWidth]);
      assert.ok(wide <= has, `what the ${name} asks is wider than the phone`);
    }
  }
  await person.clean();
  await person.context.close();
});

test('a sub-agent that asks is seen in the list, the badge, the title and the dock', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const before = (await world.ask('/v1/sessions')).items.reduce((all, one) => all + Math.min(1, one.pending_approvals.length), 0);
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const id = await world.play('child', [{ ask: { tool: 'Bash', input: { command: 'echo from below' }, extra: { agent_id: 'agent-three-deep' } } }], { title: 'Has a child' });
  await page.getByRole('link', { name: 'Needs you' }).getByText(String(before + 1), { exact: true }).waitFor();
  await page.waitForFunction((title) => document.title.startsWith(title), `(${before + 1}) Needs you`);
  await page.locator('.session-row').filter({ hasText: 'Has a child' }).getByText('echo from below').waitFor();
  await page.goto(`${world.url}/s/${id}`);
  await page.getByRole('region', { name: 'Run a command?' }).getByText('A sub-agent asks.').waitFor();
  await person.clean();
  await person.context.close();
});
