// Owns that several browsers share a session: one decides, the others see it at once, and a viewer only watches; each says who else
// is there, and what is to read is the same on all.
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
  await desk.getByRole('button', { name: /^Also open: .+ on .+, which only watches/ }).waitFor();
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
  for (const person of people) {
    await person.clean();
    await person.context.close();
  }
});

test('what is marked as unread is to read on every browser, until somebody opens it', async () => {
  const { browser, world } = here;
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: 'hello', title: 'For later' } });
  const session = () => world.ask(`/v1/sessions/${id}`);
  const { head_seq: seq } = await until('the turn ends', async () => { const it = await session(); return it.turns === 1 && it.unread && it; });
  await world.ask(`/v1/sessions/${id}/seen`, { method: 'PUT', body: { seq } });
  const people = [await Person.at(browser, world.url), await Person.at(browser, world.url, { size: 'phone' })];
  const [desk, phone] = [await people[0].signIn(await world.address()), await people[1].signIn(await world.address())];
  const toRead = (page) => page.getByRole('button', { name: /^To read/ });

  await desk.getByRole('link', { name: 'For later' }).focus();
  await desk.keyboard.press('u');
  await toRead(phone).waitFor();
  // A list holds still while a person is in it.
  await desk.getByRole('heading', { name: 'Nothing needs you.' }).click();
  await desk.getByRole('navigation', { name: 'Pages' }).hover();
  await toRead(desk).waitFor();
  await phone.getByRole('link', { name: 'For later' }).click();
  await until('the look at it clears it', async () => !(await session()).unread);
  await toRead(desk).waitFor({ state: 'detached' });

  // The page that it was marked on does not take it back.
  await phone.getByRole('button', { name: 'More for this conversation' }).click();
  await phone.getByRole('menuitem', { name: /^Mark as unread/ }).click();
  await toRead(desk).waitFor();
  await phone.waitForTimeout(1_500);
  assert.equal((await session()).unread, true);
  await desk.getByRole('link', { name: 'For later' }).focus();
  await desk.keyboard.press('u');
  await until('it is read', async () => !(await session()).unread);

  // Each key has a button with the same word: its line in the sheet.
  await desk.keyboard.press('?');
  const sheet = desk.getByRole('dialog', { name: 'Keys' });
  await sheet.getByRole('button', { name: /Last place/ }).waitFor();
  await sheet.getByRole('button', { name: 'g u Usage' }).click();
  await desk.getByRole('heading', { name: 'Usage' }).waitFor();
  for (const person of people) {
    await person.clean();
    await person.context.close();
  }
});
