// Owns that notices are asked for by a person's press alone, tell each item once and nothing of what it is, are taken back when
// somebody decided elsewhere, and lead to the decision when they are pressed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({
  agent: 'fake',
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url);
    // The browser itself would ask the person; the test answers for it.
    await all.person.context.exposeFunction('grantNotices', () => all.person.context.grantPermissions(['notifications']));
    await all.person.context.addInitScript(() => {
      globalThis.timesAsked = [];
      Notification.requestPermission = async () => {
        globalThis.timesAsked.push(navigator.userActivation.isActive);
        await globalThis.grantNotices();
        return 'granted';
      };
    });
    all.page = await all.person.signIn(await world.address());
    all.asks = (name, n = 1) => world.play(name, [{ ask: { tool: 'Bash', input: { command: `echo ${name}` }, n } }], { title: name });
    /** The notices that are on the screen. */
    all.notices = () => all.page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications())
      .map(({ title, body, tag, actions }) => ({ title, body, tag, actions: (actions ?? []).map((one) => one.title) })));
    all.pending = async (id) => (await world.ask(`/v1/sessions/${id}`)).pending_approvals;
    all.decide = async (id) => world.ask(`/v1/sessions/${id}/approvals/${(await all.pending(id))[0].id}`, { body: { decision: 'allow' } });
    /** Presses a notice, or a button of it. */
    all.press = async (action) => {
      const [worker] = all.person.context.serviceWorkers();
      await worker.evaluate(async (chosen) => {
        const [notification] = await registration.getNotifications();
        dispatchEvent(new NotificationEvent('notificationclick', { notification, action: chosen }));
      }, action);
    };
  },
});

test('notices come after a press alone, once for each item, and say nothing of it', async () => {
  const { asks, decide, notices, page, person, world } = here;
  const before = await asks('before');
  await page.getByRole('link', { name: 'Needs you' }).getByText('1', { exact: true }).waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.timesAsked), []);
  assert.deepEqual(await notices(), []);
  await page.goto(`${world.url}/settings/notices`);
  const box = page.getByLabel('Tell me when a session needs me, while the page is open');
  await box.check();
  assert.deepEqual(await page.evaluate(() => globalThis.timesAsked), [true]);
  // A second page of the same browser says nothing twice.
  const other = await person.page('/watch');
  const id = await asks('a secret');
  await until('there is one notice', async () => (await notices()).length === 1);
  const [{ title, body, actions }] = await notices();
  assert.deepEqual([title, body, actions], ['A session needs you', '', ['Deny', 'Review']]);
  await page.reload();
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
  assert.equal((await notices()).length, 1);
  await decide(id);
  await until('it is taken back', async () => (await notices()).length === 0);
  // Nothing is told of the session that the person looks at.
  await other.close();
  await page.bringToFront();
  await page.goto(`${world.url}/s/${before}`);
  await page.getByRole('button', { name: /^Allow once/ }).waitFor();
  await decide(before);
  await page.getByText('Allowed by').first().waitFor();
  const seen = await world.play('seen', [{ wait_file: 'go' }, { ask: { tool: 'Bash', input: { command: 'echo seen' } } }], { title: 'seen' });
  await page.goto(`${world.url}/s/${seen}`);
  await page.getByRole('heading', { name: 'seen' }).waitFor();
  world.touch('seen', 'go');
  await page.getByRole('button', { name: /^Allow once/ }).waitFor();
  const elsewhere = await asks('elsewhere');
  await until('the other one is told', async () => (await notices()).length > 0);
  assert.deepEqual((await notices()).map(({ tag }) => tag), (await here.pending(elsewhere)).map((one) => `approval ${one.id}`));
  await decide(seen);
  await decide(elsewhere);
  await until('it is taken back', async () => (await notices()).length === 0);
});

test('a press on a notice opens the decision, Deny denies it, and many are one', async () => {
  const { asks, notices, page, pending, person, press, world } = here;
  await page.goto(`${world.url}/usage`);
  const id = await asks('to review');
  await until('there is a notice', async () => (await notices()).length === 1);
  await press('review');
  await page.waitForURL(`**/needs/${(await pending(id))[0].id}`);
  await page.goto(`${world.url}/usage`);
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  const denied = await asks('to deny');
  await until('there is a notice', async () => (await notices()).length === 1);
  await press('deny');
  await until('it is denied', async () => (await pending(denied)).length === 0);
  await page.getByText('Denied.').waitFor();
  assert.ok(page.url().endsWith('/usage'));
  assert.deepEqual(await notices(), []);
  await asks('many', 4);
  await until('they are one', async () => (await notices()).some(({ title }) => title === '4 need you'));
  assert.equal((await notices()).length, 1);
  await person.clean();
});
