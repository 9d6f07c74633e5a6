// Owns that several browsers share a session: one decides, the others see it at once, and a viewer only watches.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage();

test('one browser decides, another sees by whom, and a viewer cannot', async () => {
  const { browser, world } = here;
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: 'Please use a tool' } });
  const people = [await Person.at(browser, world.url), await Person.at(browser, world.url, { size: 'phone' }), await Person.at(browser, world.url)];
  const roles = ['operator', 'operator', 'viewer'];
  const pages = [];
  for (const [at, person] of people.entries()) {
    const page = await person.signIn(await world.address(roles[at]));
    await page.goto(`${world.url}/s/${id}`);
    await page.getByRole('region', { name: /Run a command/ }).waitFor();
    pages.push(page);
  }
  const [desk, phone, viewer] = pages;
  const allow = (page) => page.getByRole('button', { name: /^Allow once/ });
  const canViewerPress = await allow(viewer).count() > 0 && await allow(viewer).isEnabled();
  assert.equal(canViewerPress, false, 'a viewer has a button that decides');
  assert.equal(await viewer.getByRole('textbox', { name: 'Message' }).count(), 0, 'a viewer has a box');
  await until('the desk decides', async () => {
    await allow(desk).click({ timeout: 2_000 }).catch(() => undefined);
    return !(await allow(desk).isVisible());
  });
  await until('the phone has no card any more', async () => !(await allow(phone).isVisible()), 5_000);
  await phone.getByText(/Allowed by/).first().waitFor();
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  for (const page of pages) await page.getByRole('feed').getByText(/Done: the simulated agent/).waitFor();
  for (const person of people) await person.clean();
});
