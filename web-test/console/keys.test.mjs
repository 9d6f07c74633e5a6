// Owns that a person changes keys where they are listed, and that the new ones work, in that browser, until they are given back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';

const here = stage();

test('a key is changed in the sheet of keys, works at once and after a reload, and goes back', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const sheet = page.getByRole('dialog', { name: 'Keys' });
  const field = sheet.getByRole('textbox', { name: 'Key for Usage' });
  const usage = page.getByRole('heading', { name: 'Usage' });
  const isAt = (path) => page.waitForURL((url) => url.pathname === path);
  const open = async () => {
    await page.keyboard.press('?');
    await sheet.getByRole('button', { name: 'Change keys' }).click();
  };
  await open();
  await field.fill('Ctrl y');
  await field.press('Tab');
  await sheet.getByRole('button', { name: 'As it was' }).waitFor();
  await page.keyboard.press('Escape');
  await sheet.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+y');
  await usage.waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await isAt('/');
  // The key of before does nothing now.
  await page.keyboard.press('g');
  await page.keyboard.press('u');
  await page.keyboard.press('g');
  await page.keyboard.press('h');
  await isAt('/health');
  await page.reload();
  await page.getByRole('heading', { name: 'Health' }).waitFor();
  await page.keyboard.press('Control+y');
  await isAt('/usage');
  // It stands in the settings too, and its button is in the sheet.
  await page.goto(`${world.url}/settings/keys`);
  assert.equal(await page.getByRole('textbox', { name: 'Key for Usage' }).inputValue(), 'Ctrl y');
  await open();
  await sheet.getByRole('button', { name: 'As it was' }).click();
  assert.equal(await field.inputValue(), 'g u');
  await sheet.getByRole('button', { name: 'Change keys' }).click();
  await sheet.getByRole('button', { name: 'g u Usage' }).waitFor();
  // An empty field turns a key off.
  await sheet.getByRole('button', { name: 'Change keys' }).click();
  await sheet.getByRole('textbox', { name: 'Key for Theme' }).fill('');
  await sheet.getByRole('textbox', { name: 'Key for Theme' }).press('Tab');
  await page.keyboard.press('Escape');
  await sheet.waitFor({ state: 'detached' });
  await page.keyboard.press('t');
  await page.keyboard.press('g');
  await page.keyboard.press('u');
  await isAt('/usage');
  assert.equal(await page.getByText(/^Theme: /).count(), 0);
  await person.clean();
});
