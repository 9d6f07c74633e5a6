// Owns that notices are asked for by a person's press alone, are offered once after a decision that waited long, tell each item once and nothing of what it is, are taken back when
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
  // A turn that has ended is told of the session alone for which that was asked.
  const [rung, quiet] = [await world.play('rung', [{ wait_file: 'go' }], { title: 'rung' }), await world.play('quiet', [{ wait_file: 'go' }], { title: 'quiet' })];
  await page.goto(`${world.url}/s/${rung}`);
  await page.getByRole('button', { name: 'More for this conversation' }).click();
  await page.getByRole('menuitem', { name: /^Tell me when it is done/ }).click();
  await page.getByText('This browser tells you when a turn of it has ended.').waitFor();
  await page.goto(`${world.url}/usage`);
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  for (const name of ['quiet', 'rung']) world.touch(name, 'go');
  await until('its end is told', async () => (await notices()).length > 0);
  await until('both have ended', async () => (await Promise.all([rung, quiet].map((one) => world.ask(`/v1/sessions/${one}`)))).every((one) => one.turns === 1));
  assert.deepEqual((await notices()).map(({ tag }) => tag), [`done ${rung} 1`]);
  await world.ask(`/v1/sessions/${rung}/seen`, { method: 'PUT', body: { seq: (await world.ask(`/v1/sessions/${rung}`)).head_seq } });
  await until('it is taken back', async () => (await notices()).length === 0);
  await asks('many', 4);
  await until('they are one', async () => (await notices()).some(({ title }) => title === '4 need you'));
  assert.equal((await notices()).length, 1);
  await person.clean();
});

test('notices are offered after a decision that waited over 30 s, once, and one press has them', async () => {
  const { asks, browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.context.addInitScript(() => {
    globalThis.timesAsked = [];
    let permission = localStorage.getItem('permission') ?? 'default';
    Object.defineProperty(Notification, 'permission', { get: () => permission });
    Notification.requestPermission = async () => {
      globalThis.timesAsked.push(navigator.userActivation.isActive);
      permission = 'granted';
      localStorage.setItem('permission', permission);
      return permission;
    };
  });
  const page = await person.signIn(await world.address());
  const offer = page.getByText('It waited for you. This browser can tell you the next time.');
  const allow = page.getByRole('button', { name: /^Allow once/ });
  const decided = async (name) => {
    const id = await asks(name);
    await page.goto(`${world.url}/s/${id}`);
    await until('the press counts', async () => {
      await allow.click({ timeout: 1_000 }).catch(() => undefined);
      return (await here.pending(id)).length === 0;
    });
    await page.getByText('Allowed by you').first().waitFor();
  };
  await decided('soon');
  assert.equal(await offer.count(), 0, 'a decision that was taken at once is no reason');
  // The page's clock runs ahead of the real time.
  await page.addInitScript(() => { const { now } = Date; Date.now = () => now() + 40_000; });
  await decided('late');
  await offer.waitFor();
  const [over, box] = [await page.locator('.toast').first().boundingBox(), await page.locator('.composer').boundingBox()];
  assert.ok(over.y + over.height <= box.y, 'the offer lies over the box');
  assert.deepEqual(await page.evaluate(() => globalThis.timesAsked), []);
  await page.getByRole('button', { name: 'Tell me' }).click();
  await until('the browser was asked', () => page.evaluate(() => globalThis.timesAsked.length === 1 && globalThis.timesAsked[0]));
  await decided('later');
  assert.equal(await offer.count(), 0, 'it is offered once');
  await page.goto(`${world.url}/settings/notices`);
  assert.equal(await page.getByLabel('Tell me when a session needs me, while the page is open').isChecked(), true);
  await person.clean();
});
