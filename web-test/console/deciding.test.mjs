// Owns what a person's decision about a call does, with the real CLI: the reason of a denial is heard, a changed command is the
// one that runs, and what is always allowed is allowed as the words said, and not more.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { scripted, until } from './world.mjs';

const here = stage({
  agent: 'real',
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url);
    all.page = await all.person.signIn(await world.address());
    all.card = all.page.getByRole('region', { name: 'Run a command?' });
  },
});

const isMade = (name) => existsSync(join(here.world.work, name));
const run = (command) => ({ tool: 'Bash', input: { command } });
const session = (id) => here.world.ask(`/v1/sessions/${id}`);
const ended = (id, turns = 1) => until('the turn ends', async () => (await session(id)).turns === turns);

/** A session whose agent does these steps, on the page. */
async function begin(steps) {
  const { page, world } = here;
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: scripted('Do it', steps) } });
  await page.goto(`${world.url}/s/${id}`);
  await here.card.waitFor();
  return id;
}

/** Presses a button that decides until its work is seen: the card takes nothing before it was in view for a while. */
async function press(button, isDone) {
  await until('the press counts', async () => {
    await button.click({ timeout: 1_000 }).catch(() => undefined);
    return isDone();
  });
}

/** All that the model was told last. */
async function heard() {
  const control = `${here.world.env.ANTHROPIC_BASE_URL}/control/requests`;
  const all = await (await fetch(control)).json();
  const { n } = (all.items ?? all.requests ?? all).at(-1);
  return (await fetch(`${control}/${n}`)).text();
}

test('the agent hears why a command is denied, and stops where that is said', async () => {
  const { page, card, world } = here;
  const id = await begin([run('touch denied'), { text: 'Then not.' }]);
  const reason = page.getByLabel('What should it do instead?');
  // A caret in the box takes nothing away from a press.
  await page.getByRole('textbox', { name: 'Message' }).click();
  await press(card.getByRole('button', { name: 'Deny…' }), () => reason.isVisible());
  await reason.fill('Use the other name.');
  await until('the denial counts', async () => {
    await reason.press('Enter', { timeout: 1_000 }).catch(() => undefined);
    return (await session(id)).pending_approvals.length === 0;
  });
  await ended(id);
  assert.match(await heard(), /Use the other name\./);
  await world.ask(`/v1/sessions/${id}/messages`, { body: { text: scripted('Again', [run('touch denied'), { text: 'It went on.' }]) } });
  await card.waitFor();
  await press(card.getByRole('button', { name: 'Deny and interrupt…' }), () => reason.isVisible());
  await press(page.getByRole('button', { name: 'Deny and interrupt', exact: true }), async () => (await session(id)).pending_approvals.length === 0);
  await ended(id, 2);
  await page.getByText('Interrupted by you').waitFor();
  assert.equal(await page.getByRole('feed').getByText('It went on.', { exact: true }).count(), 0);
  assert.ok(!isMade('denied'));
});

test('a command that a person changed is the one that runs, and is shown', async () => {
  const { page, card } = here;
  const id = await begin([run('touch asked'), { text: 'Made.' }]);
  await card.getByRole('button', { name: 'Edit first' }).click();
  await card.getByLabel('Command').fill('touch changed');
  await card.getByRole('button', { name: 'Done' }).click();
  await card.getByText('changed by you').waitFor();
  await press(card.getByRole('button', { name: 'Allow once' }), async () => !(await card.isVisible()));
  await ended(id);
  assert.deepEqual([isMade('asked'), isMade('changed')], [false, true]);
  const call = page.getByRole('article', { name: /^Command/ });
  await call.getByText('touch changed').first().waitFor();
  await call.getByText('changed by you').waitFor();
});

test('changes are read as one, remarks on them go to the agent at once, and files are set back after a look', async () => {
  const { page, world } = here;
  const file = join(world.work, 'poem.txt');
  const lines = Array.from({ length: 12 }, (_, at) => `line ${at}`);
  writeFileSync(file, `${lines.join('\n')}\n`);
  const options = { permission_mode: 'acceptEdits', enable_file_checkpointing: true };
  const edit = (from, to) => ({ tool: 'Edit', input: { file_path: file, old_string: `${from}\n`, new_string: `${to}\n` } });
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, options, prompt: scripted('First', [{ tool: 'Read', input: { file_path: file } }, edit('line 2', 'line two'), { text: 'Changed.' }]) } });
  await ended(id);
  await world.ask(`/v1/sessions/${id}/messages`, { body: { text: scripted('Second', [edit('line 2', 'never'), edit('line two', 'line II'), { tool: 'Write', input: { file_path: join(world.work, 'new.txt'), content: 'new\n' } }, { text: 'Again.' }]) } });
  await ended(id, 2);
  await page.goto(`${world.url}/s/${id}/changes`);
  const poem = page.getByRole('region', { name: 'poem.txt' });
  // Two changes of one line are one, and one that failed is none.
  await until('the file is one comparison', async () => JSON.stringify(await poem.locator('.review-row:not(.is-same)').evaluateAll((all) => all.map((one) => `${one.dataset.sign}${one.innerText.replace(/^\+/, '').trim()}`))) === '["−line 2","+line II"]');
  await page.getByRole('region', { name: 'new.txt' }).getByText('new', { exact: true }).first().waitFor();
  await poem.getByRole('button', { name: 'Remark on line 3', exact: true }).click();
  await poem.getByRole('textbox', { name: 'Remark on line 3' }).fill('Why Roman?');
  await poem.getByRole('button', { name: 'Keep remark' }).click();
  await page.getByRole('button', { name: 'Put 1 remark into the box' }).click();
  const box = page.getByRole('textbox', { name: 'Message' });
  await until('it is in the box', async () => (await box.inputValue()) === 'My remarks on your changes:\n\npoem.txt, line 3, `line II`:\nWhy Roman?');
  await page.getByRole('button', { name: 'More for this conversation' }).click();
  await page.getByRole('menuitem', { name: /^Rewind files/ }).click();
  const dialog = page.getByRole('dialog', { name: 'Rewind files' });
  await dialog.getByRole('button', { name: /^First/ }).click();
  await dialog.getByText('2 files would change:').waitFor();
  assert.match(readFileSync(file, 'utf8'), /line II/, 'a look has changed the file');
  await dialog.locator('summary').filter({ hasText: 'poem.txt' }).click();
  await dialog.getByText('It gets back:').waitFor();
  await dialog.getByRole('button', { name: 'Rewind 2 files' }).click();
  await page.getByText('2 files have what they held before that message.').waitFor();
  assert.deepEqual([readFileSync(file, 'utf8'), isMade('new.txt')], [`${lines.join('\n')}\n`, false]);
  const set = page.getByText('Files were set back to an earlier message');
  await set.waitFor();
  // A message that never was has no files to set back.
  await assert.rejects(world.ask(`/v1/sessions/${id}/rewind`, { body: { user_message_id: '00000000-0000-4000-8000-000000000000' } }));
  await page.getByText(/^Files were not set back: /).waitFor();
  assert.equal(await set.count(), 1);
  await box.fill('');
});

test('what is always allowed is what the words say, and is not asked again', async () => {
  const { page, card, person, world } = here;
  const id = await begin([run('touch often.txt'), run('touch often.txt'), { text: 'Both are made.' }]);
  await card.getByRole('button', { name: 'Always allow…' }).click();
  const chosen = card.getByRole('checkbox', { checked: true });
  await card.getByText('`touch often.txt`, exactly').waitFor();
  assert.equal(await chosen.count(), 1, 'more than the rule is chosen');
  const sent = page.waitForRequest((request) => request.method() === 'POST' && request.url().includes('/approvals/'));
  await press(card.getByRole('button', { name: 'Always allow', exact: true }), async () => !(await card.isVisible()));
  const { updated_permissions: updates } = (await sent).postDataJSON();
  assert.deepEqual(updates, [{ type: 'addRules', behavior: 'allow', destination: 'session', rules: [{ toolName: 'Bash', ruleContent: 'touch often.txt' }] }]);
  await ended(id);
  assert.equal((await world.ask(`/v1/sessions/${id}/approvals`)).items.length, 1);
  assert.equal((await session(id)).permission_mode, 'default');
  await person.clean();
});
