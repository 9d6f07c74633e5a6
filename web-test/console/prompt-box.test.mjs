// Owns what a person meets in the prompt box: a message that could not be sent, the queue while the agent works, images and long
// texts, completion, and keys that are not meant for sending.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { scripted, until } from './world.mjs';

const here = stage({
  agent: 'real',
  async set(all) {
    const { browser, world } = all;
    writeFileSync(join(world.work, 'notes.txt'), 'Notes');
    all.person = await Person.at(browser, world.url);
    await (await all.person.signIn(await world.address())).close();
    all.page = await all.person.page('/', { mayLose: true });
    all.box = all.page.getByRole('textbox', { name: 'Message' });
    all.feed = all.page.getByRole('feed', { name: 'Transcript' });
  },
});

const session = (id) => here.world.ask(`/v1/sessions/${id}`);
const ended = (id, turns) => until(`${turns} turns have ended`, async () => (await session(id)).turns === turns);

/** A session on the page, whose agent says something first. */
async function begin(prompt) {
  const { page, world } = here;
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt } });
  await page.goto(`${world.url}/s/${id}`);
  await here.box.waitFor();
  return id;
}

/** An image of noise, which no compression makes smaller. */
function noise(width, height) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2], 8);
  const rows = randomBytes((width * 3 + 1) * height);
  for (let row = 0; row < height; row += 1) rows[row * (width * 3 + 1)] = 0;
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', deflateSync(rows, { level: 1 })), chunk('IEND', Buffer.alloc(0))]);
}

/** Pastes into what has the focus. */
const paste = (page, { image, text }) => page.evaluate(({ image, text }) => {
  const data = new DataTransfer();
  if (image !== undefined) data.items.add(new File([Uint8Array.from(atob(image), (one) => one.charCodeAt(0))], 'shot.png', { type: 'image/png' }));
  if (text !== undefined) data.setData('text/plain', text);
  document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
}, { image: image?.toString('base64'), text });

test('what could not be sent is kept, and is there once when it is sent again', async () => {
  const { box, feed, page, world } = here;
  const id = await begin('Hello');
  await ended(id, 1);
  world.network.cut({ stays: true });
  await box.fill('Said while away');
  await box.press('Enter');
  await page.getByText('Will be sent when back.').waitFor();
  world.network.back();
  await ended(id, 2);
  await page.route('**/messages', (route) => (route.request().method() === 'POST' ? route.fulfill({
    status: 503, contentType: 'application/problem+json', body: JSON.stringify({ type: 'about:blank', title: 'Busy', status: 503, code: 'queue_full', detail: 'Too much waits.', retryable: false, may_have_had_effect: false }),
  }) : route.continue()));
  await box.fill('Said to deaf ears');
  await box.press('Enter');
  await page.getByText('Not sent. It is kept here.').waitFor();
  await box.fill('A draft');
  await until('the draft is written', () => page.evaluate((key) => new Promise((resolve) => {
    const opening = indexedDB.open('keyval-store');
    opening.onsuccess = () => { const got = opening.result.transaction('keyval').objectStore('keyval').get(key); got.onsuccess = () => resolve(got.result?.text === 'A draft'); };
  }), `draft/${id}`));
  await page.reload();
  await page.getByText('Not sent. It is kept here.').waitFor();
  await until('the draft is back', async () => (await box.inputValue()) === 'A draft');
  await page.unroute('**/messages');
  await page.getByRole('button', { name: 'Send again' }).click();
  await ended(id, 3);
  for (const said of ['Said while away', 'Said to deaf ears']) {
    await feed.getByText(said, { exact: true }).first().waitFor();
    assert.equal(await feed.getByText(said, { exact: true }).count(), 1, said);
  }
  await page.getByText('Not sent. It is kept here.').waitFor({ state: 'detached' });
});

test('messages wait while the agent works: changed, held, taken back, and one that goes at once', async () => {
  const { box, feed, page, world } = here;
  const id = await begin(scripted('Work', [{ text: 'I begin.', wait: 'work' }]));
  await until('the agent works', async () => (await session(id)).state === 'busy');
  const queue = page.getByRole('region', { name: 'Messages that wait' });
  for (const text of ['First', 'Second']) {
    await box.fill(text);
    await box.press('Enter');
    await queue.getByText(text).waitFor();
  }
  await box.press('ArrowUp');
  await until('the last one is edited', async () => (await box.inputValue()) === 'Second');
  await box.fill('Changed');
  await box.press('Enter');
  await queue.getByText('Changed').waitFor();
  // The caret is in the box, and what lies above it stays where it is until the press is over.
  await box.click();
  await queue.getByRole('button', { name: 'Hold' }).click();
  await queue.getByText('Held, 2.').waitFor();
  await queue.getByRole('listitem').filter({ hasText: 'Changed' }).getByRole('button', { name: 'Cancel' }).click();
  await queue.getByText('Held, 1.').waitFor();
  await box.fill('At once');
  await box.press('Control+Shift+Enter');
  await feed.getByText('At once', { exact: true }).waitFor();
  await fetch(`${world.env.ANTHROPIC_BASE_URL}/control/release`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ name: 'work' }) });
  await until('both turns have ended', async () => { const { state, turns } = await session(id); return state === 'idle' && turns === 2; });
  await queue.getByText('Held, 1.').waitFor();
  await queue.getByRole('button', { name: 'Let go' }).click();
  await ended(id, 3);
  await feed.getByText('First', { exact: true }).waitFor();
  assert.equal(await feed.getByText('Changed', { exact: true }).count(), 0);
});

test('images and a long text are seen before they are sent, and after', async () => {
  const { box, feed, page } = here;
  const id = await begin('Hello');
  await ended(id, 1);
  const added = page.getByRole('list', { name: 'With this message' });
  await box.focus();
  await paste(page, { image: noise(40, 30) });
  await added.getByText('shot.png').waitFor();
  await page.locator('input[type=file]').setInputFiles({ name: 'large.png', mimeType: 'image/png', buffer: noise(1300, 1000) });
  await added.getByText(/kB, shrunk from 3\.9 MB/).waitFor();
  await paste(page, { text: Array.from({ length: 25 }, (_, line) => `line ${line}`).join('\n') });
  assert.equal(await box.inputValue(), '[Pasted text 1, 25 lines]');
  await box.press('Enter');
  await ended(id, 2);
  await feed.getByText('line 7', { exact: false }).first().waitFor();
  await page.reload();
  await until('both images are in the transcript', async () => (await feed.getByRole('img', { name: /^Picture/ }).count()) === 2);
});

test('a command, a file and what was sent before complete, and keys of an input method send nothing', async () => {
  const { box, browser, page, person, world } = here;
  const id = await begin('Find me later');
  await ended(id, 1);
  await box.fill('');
  await box.pressSequentially('/code-r');
  await page.getByRole('option', { name: /^\/code-review/ }).waitFor();
  await box.press('Tab');
  assert.equal(await box.inputValue(), '/code-review ');
  await box.fill('');
  await box.pressSequentially('See @note');
  await page.getByRole('option', { name: '@notes.txt' }).waitFor();
  await box.press('Enter');
  assert.equal(await box.inputValue(), 'See @notes.txt ');
  await box.press('Alt+r');
  const search = page.getByRole('combobox', { name: 'Search what you sent' });
  await search.fill('later find');
  await page.getByRole('option', { name: 'Find me later' }).waitFor();
  await search.press('Enter');
  assert.equal(await box.inputValue(), 'Find me later');
  await box.fill('');
  await box.press('ArrowUp');
  await until('Up brings back what was sent last', async () => (await box.inputValue()) === 'Find me later', 5_000);
  await box.evaluate((one) => one.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, isComposing: true, bubbles: true, cancelable: true })));
  const phone = await Person.at(browser, world.url, { size: 'phone' });
  const small = await phone.signIn(await world.address());
  await small.goto(`${world.url}/s/${id}`);
  const its = small.getByRole('textbox', { name: 'Message' });
  await its.tap();
  await its.pressSequentially('one');
  await its.press('Enter');
  await its.pressSequentially('two');
  assert.equal(await its.inputValue(), 'one\ntwo');
  await small.getByRole('button', { name: 'Send', exact: true }).tap();
  await ended(id, 2);
  await small.getByRole('feed').getByText('one\ntwo').waitFor();
  assert.equal(await box.inputValue(), 'Find me later');
  await phone.clean();
  await person.clean();
});
