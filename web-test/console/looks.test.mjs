// Owns that parts of a page leave each other their room: nothing lies over an edge, a header is one line at the desk, and a finger
// meets what it means.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { asks, calls, says } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const TODOS = ['completed', 'in_progress', 'pending'].map((status, n) => ({ content: `Step ${n}`, status, activeForm: `Doing the step ${n} with many words` }));
const WIDE = [{ type: 'addRules', behavior: 'allow', destination: 'session', rules: [{ toolName: 'Bash' }] }];

const here = stage({
  agent: 'fake',
  async set(all) {
    const { world } = all;
    Object.assign(all, {
      works: await world.play('works', [says('I begin.'), ...calls('TodoWrite', { todos: TODOS }, 'ok'), { wait_file: 'go' }]),
      asks: await world.play('asks', [{ ask: { ...asks('Bash', { command: 'echo one' }).ask, suggestions: WIDE } }]),
    });
    await until('one works and one waits', async () => (await world.ask('/v1/sessions')).items.filter((one) => one.pending_approvals.length > 0 || one.last_line?.tool === 'TodoWrite').length === 2);
  },
});

/** The place of an element on the page. */
const boxOf = (locator) => locator.evaluate((one) => { const { left, right, top, bottom, width, height } = one.getBoundingClientRect(); return { left, right, top, bottom, width, height }; });

test('at the desk the header is one line, with the plan, and menus of rows stand beside them', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const other = await Person.at(browser, world.url, { size: 'phone' });
  const phone = await other.signIn(await world.address());
  await phone.goto(`${world.url}/s/${here.works}`);
  await page.goto(`${world.url}/s/${here.works}`);
  await page.getByRole('button', { name: /^Also open/ }).waitFor();
  const plan = page.getByRole('button', { name: /^Plan 1\/3/ });
  await plan.waitFor();
  const [title, stop] = [await boxOf(page.locator('.header-title')), await boxOf(page.getByRole('button', { name: 'Interrupt' }))];
  assert.ok(Math.abs((title.top + title.bottom) - (stop.top + stop.bottom)) < 8, 'the header has two lines');
  assert.ok((await boxOf(page.getByRole('button', { name: 'More for this conversation' }))).right <= 1280);
  const prompt = page.locator('.entry').filter({ has: page.locator('.prompt') });
  assert.ok((await boxOf(prompt.locator('.prompt'))).right <= (await boxOf(prompt.locator('.row-menu'))).left, 'the menu of a row lies over the row');
  await plan.click();
  await page.getByRole('complementary', { name: 'Side panel' }).getByText('Doing the step 1 with many words').waitFor();
  // The panel lies over the page, and not over what stops the agent.
  await page.getByRole('button', { name: 'Interrupt' }).click({ trial: true, timeout: 3_000 });
  await page.keyboard.press('Escape');
  // The key that filters a list finds in a conversation.
  await page.keyboard.press('/');
  await page.getByRole('searchbox', { name: 'Find in this conversation' }).waitFor();
  for (const one of [person, other]) {
    await one.clean();
    await one.context.close();
  }
});

test('on a phone a rule for good has room, no key is shown, and a row is chosen by a finger', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url, { size: 'phone' });
  const page = await person.signIn(await world.address());
  await page.goto(`${world.url}/s/${here.asks}`);
  await page.getByRole('button', { name: /Always allow/ }).click();
  const panel = page.getByRole('group', { name: 'Always allow' });
  await panel.getByText(/This is very wide/).waitFor();
  const { right } = await boxOf(panel);
  for (const part of ['select', '.risk-reason']) assert.ok((await boxOf(panel.locator(part))).right <= right, `${part} lies over the edge`);
  await page.getByRole('button', { name: 'More for this conversation' }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).waitFor();
  assert.equal(await page.locator('.menu kbd:visible').count(), 0);
  await page.goto(world.url);
  await page.getByRole('button', { name: 'More for asks' }).click();
  await page.getByRole('menuitem', { name: 'Open in a new tab' }).waitFor();
  await page.getByRole('menuitem', { name: 'Select' }).click();
  const { width, height } = await boxOf(page.locator('.session-row-pick').first());
  assert.ok(width >= 44 && height >= 44, `${width} × ${height}`);
  await page.goto(`${world.url}/settings/configuration`);
  const table = page.getByRole('region', { name: 'The configuration in force' });
  await table.getByText('limits.live_processes', { exact: true }).waitFor();
  assert.deepEqual(await table.evaluate((one) => [one.scrollWidth > one.clientWidth, getComputedStyle(one.querySelector('td')).display]), [false, 'block']);
  await person.clean();
  await person.context.close();
});
