// Owns that a page which was away for long, or is older than the daemon, comes back to the present: with true numbers, at the
// same place, with its draft.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Person } from './browser.mjs';
import { calls, says } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { World, until } from './world.mjs';

const CLI = fileURLToPath(new URL('../../tests/programs/fake_claude.py', import.meta.url));
const here = stage({ hasWorld: false, set: async (all) => { all.world = await World.start({ env: { CLAUDE_BIN: CLI } }); } });

const LONG = Array.from({ length: 60 }, (_, at) => `Paragraph ${at}`).join('\n\n');
const acts = (words, list) => `${words} FAKE:${JSON.stringify(list)}:END`;

test('a page that missed thousands of records stays where it was, and an upgrade of the daemon keeps place and draft', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.page('/', { mayLose: true });
  // The build of the daemon is what a test says, once it says one.
  await page.addInitScript(() => {
    const { parse } = JSON;
    JSON.parse = (...all) => {
      const value = parse(...all);
      if (globalThis.build !== undefined && value?.type === 'trunkline.lobby') value.build = globalThis.build;
      return value;
    };
  });
  await page.goto(world.url + await world.address());
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  const options = { include_partial_messages: true };
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: acts('Write much', [{ text: LONG }]), options } });
  const turns = (n) => until(`turn ${n} ends`, async () => (await world.ask(`/v1/sessions/${id}`)).turns === n);
  await turns(1);
  await page.goto(`${world.url}/s/${id}`);
  const feed = page.getByRole('feed', { name: 'Transcript' });
  await feed.getByText('Paragraph 59').waitFor();
  const top = () => feed.evaluate((scroller) => [...scroller.querySelectorAll('article')].find((one) => one.getBoundingClientRect().bottom > scroller.getBoundingClientRect().top + 1)?.innerText);
  const isAt = (text, when) => until(`${text} is on top ${when}`, async () => (await top()) === text);
  await feed.hover();
  await page.mouse.wheel(0, -600);
  await page.getByRole('button', { name: /To the end/ }).waitFor();
  const place = await top();
  assert.match(place, /Paragraph \d+/);

  await page.evaluate(() => {
    globalThis.told = [];
    const status = document.querySelector('.transcript-status');
    new MutationObserver(() => {
      const found = /Catching up, ([\d,]+) of ([\d,]+)/.exec(status.textContent);
      if (found !== null) globalThis.told.push(found.slice(1).map((n) => Number(n.replace(',', ''))));
    }).observe(status, { childList: true, subtree: true, characterData: true });
  });
  // Each word is five records; its pieces alone would be joined to one.
  const miss = async (words, n) => {
    world.network.cut({ stays: true });
    await world.ask(`/v1/sessions/${id}/messages`, { body: { text: acts(`More ${n}`, [...Array.from({ length: words }, (_, at) => ({ text: `word ${at}` })), { text: `End ${n}` }]) } });
    await turns(n);
    world.network.back();
    await page.getByRole('button', { name: 'Try now' }).click({ timeout: 3_000 }).catch(() => undefined);
    await page.getByRole('button', { name: /new$/ }).waitFor();
  };
  await miss(700, 2);
  await isAt(place, 'after the records were applied');
  const told = await page.evaluate(() => globalThis.told);
  const { head_seq: head } = await world.ask(`/v1/sessions/${id}/events?limit=1`);
  for (const [done, of] of told) assert.ok(done <= of && of > 1_500 && of < head, `${done} of ${of}`);
  assert.ok(told.length > 0, 'it says how far it is');

  await miss(1_100, 3);
  await isAt(place, 'after the end was opened anew');

  // The daemon is upgraded: its page has another start.
  await page.getByRole('textbox', { name: 'Message' }).fill('A draft');
  await page.route((url) => url.pathname === '/', async (route) => {
    if (route.request().resourceType() !== 'fetch') return route.fallback();
    return route.fulfill({ contentType: 'text/html', body: '<script type="module" src="/assets/newer.js"></script>' });
  });
  await page.evaluate(() => Object.assign(globalThis, { isOldPage: true, build: 'newer' }));
  await world.kill();
  await world.serve();
  await until('the page is loaded anew', async () => (await page.evaluate(() => globalThis.isOldPage).catch(() => true)) === undefined);
  assert.equal(new URL(page.url()).pathname, `/s/${id}`);
  await isAt(place, 'after the upgrade');
  await until('the draft is there', async () => (await page.getByRole('textbox', { name: 'Message' }).inputValue()) === 'A draft');
  await page.getByRole('button', { name: /new$|To the end/ }).click();
  await feed.getByText('End 3').waitFor();
  await person.clean();
});

test('a link to a record shows it, and goes on showing it when older ones come before it', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: acts('Write much', Array.from({ length: 500 }, (_, n) => ({ text: `Step ${n}` }))) } });
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  const { items, head_seq: head } = await world.ask(`/v1/sessions/${id}/events?limit=5000`);
  const said = items.filter(({ data }) => data?.type === 'assistant').map(({ seq, data }) => ({ seq, text: data.message.content[0].text }));
  // This one is among the first of the 200 records that a page begins with.
  const linked = said.find(({ seq }) => seq > head - 190);
  const page = await person.page(`/s/${id}/r/${linked.seq}`);
  const feed = page.getByRole('feed', { name: 'Transcript' });
  await until('older records came', async () => Number(await feed.locator('article').last().getAttribute('aria-setsize')) > 250);
  const row = feed.locator('article.is-current');
  await until('the linked row is in sight', async () => (await row.count()) === 1 && (await row.innerText()) === linked.text && await row.evaluate((one) => {
    const { top, bottom } = one.getBoundingClientRect();
    const place = one.closest('[role=feed]').getBoundingClientRect();
    return top >= place.top && bottom <= place.bottom;
  }));
  await person.clean();
});

test('older records that come while a reader rests move nothing', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: acts('Write much', Array.from({ length: 800 }, (_, n) => ({ text: `Step ${n}` }))) } });
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  const page = await person.page(`/s/${id}`);
  const feed = page.getByRole('feed', { name: 'Transcript' });
  await feed.getByText('Step 799', { exact: true }).waitFor();
  let letGo;
  const rested = new Promise((resolve) => { letGo = resolve; });
  let held = 0;
  await page.route(/\/events\?.*before=/, async (route) => {
    held += 1;
    await rested;
    await route.continue();
  });
  await feed.hover();
  // To the top of what is loaded, which is far above the end: the older rows make the list much higher than it is.
  await until('the top is reached and older records are asked for', async () => {
    await page.mouse.wheel(0, -2_000);
    // The wheel moves the list after its event, over some frames.
    return held > 0 && await feed.evaluate((one) => new Promise((resolve) => {
      let [frames, at] = [0, one.scrollTop];
      const look = () => {
        if (one.scrollTop !== at) [frames, at] = [0, one.scrollTop];
        frames += 1;
        if (frames > 20) resolve(at < 40); else requestAnimationFrame(look);
      };
      look();
    }));
  });
  /** A row of the list and how far it is below the top: the first one in sight, or the one with these words. */
  const row = (words) => feed.evaluate((one, text) => {
    const { top } = one.getBoundingClientRect();
    const found = [...one.querySelectorAll('article')].find((each) => (text === undefined ? /^Step/.test(each.innerText) && each.getBoundingClientRect().top >= top : each.innerText === text));
    return found === undefined ? null : { text: found.innerText, below: found.getBoundingClientRect().top - top, of: Number(found.getAttribute('aria-setsize')) };
  }, words);
  const before = await row();
  letGo();
  await until('older records came', async () => (await row())?.of > before.of + 100);
  await until('the same row is where it was', async () => Math.abs((await row(before.text))?.below - before.below) <= 1);
  await person.clean();
});

test('a reader on the way back to a place comes to it, though the page is loaded anew meanwhile', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: acts('Write much', Array.from({ length: 800 }, (_, n) => ({ text: `Step ${n}` }))) } });
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  const page = await person.page(`/s/${id}`);
  const feed = page.getByRole('feed', { name: 'Transcript' });
  await feed.getByText('Step 799', { exact: true }).waitFor();
  const top = () => feed.evaluate((scroller) => [...scroller.querySelectorAll('article')].find((one) => one.getBoundingClientRect().bottom > scroller.getBoundingClientRect().top + 1)?.innerText);
  await feed.hover();
  await until('the reader is far above the end', async () => {
    await page.mouse.wheel(0, -2_000);
    return Number(/^Step (\d+)$/.exec(await top())?.[1] ?? 800) < 500;
  });
  const still = () => feed.evaluate((one) => new Promise((resolve) => {
    let [frames, at] = [0, one.scrollTop];
    const look = () => {
      if (one.scrollTop !== at) [frames, at] = [0, one.scrollTop];
      frames += 1;
      if (frames > 30) resolve(true); else requestAnimationFrame(look);
    };
    look();
  }));
  await still();
  const place = await top();
  let held = 0;
  let letGo;
  const rested = new Promise((resolve) => { letGo = resolve; });
  await page.route(/\/events\?.*before=/, async (route) => {
    held += 1;
    await rested;
    await route.continue().catch(() => undefined);
  });
  for (const times of [1, 2]) {
    const before = held;
    await page.reload();
    await feed.locator('article').first().waitFor();
    await until(`the way back begins, ${times}`, () => held > before);
  }
  letGo();
  await until('the reader is back', async () => (await top()) === place);
  await person.clean();
});

test('a link to a record of a turn that is folded opens the turn', { timeout: 120_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: acts('Look', [says('Words before a call.'), ...calls('Bash', { command: 'ls' }, 'a.md'), says('Seen.')]) } });
  const ended = (turns) => until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === turns);
  await ended(1);
  await world.ask(`/v1/sessions/${id}/messages`, { body: { text: acts('Go on', [says('More.')]) } });
  await ended(2);
  const { items, head_seq: head } = await world.ask(`/v1/sessions/${id}/events?limit=5000`);
  await world.ask(`/v1/sessions/${id}/seen`, { method: 'PUT', body: { seq: head } });
  const { seq } = items.find(({ data }) => data?.message?.content?.[0]?.text === 'Words before a call.');
  const page = await person.page(`/s/${id}`);
  const feed = page.getByRole('feed', { name: 'Transcript' });
  await feed.getByText('More.', { exact: true }).waitFor();
  assert.equal(await feed.getByText('Words before a call.', { exact: true }).count(), 0);
  await page.goto(`${world.url}/s/${id}/r/${seq}`);
  await feed.locator('article.is-current').getByText('Words before a call.', { exact: true }).waitFor();
  await person.clean();
});
