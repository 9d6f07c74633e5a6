// Owns the measurements: each is taken of one daemon and session, so that the empty one is measured in the same way.
import { existsSync, statSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { DIST, heap, idle, open, session } from './place.mjs';
import { LAST_WORDS, flood, paced, prompt } from './records.mjs';

const NEWEST = { selector: '[role=feed] article', text: LAST_WORDS };
const LIST = { selector: '[data-row]' };
const FEED = '[role=feed]';

const shownAt = async (page) => {
  await page.waitForFunction(() => globalThis.probe.shownAt !== null);
  return page.evaluate(() => globalThis.probe.shownAt);
};
const ended = (page) => page.evaluate(() => globalThis.probe.end());
/** Says something to a session past the page. Each turn ends with the words that are looked for when the session is opened. */
const say = (world, id, actions) => world.ask(`/v1/sessions/${id}/messages`, { body: { text: prompt('Go on.', [...actions, { text: `${LAST_WORDS} of a turn.` }]) } });
const turnsOf = async (world, id) => (await world.ask(`/v1/sessions/${id}`)).turns;

/** From the navigation to the painted row. */
export async function openList(who, more) {
  const { page } = await open(who, '/', LIST, more);
  const ms = await shownAt(page);
  const longest = await page.evaluate(() => globalThis.probe.longest());
  await page.close();
  return { ms, longest };
}

/** From the navigation to the painted newest words. */
export async function openNewest(who, id, more) {
  const { page, cdp } = await open(who, `/s/${id}`, NEWEST, more);
  const ms = await shownAt(page);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  const longest = await page.evaluate(() => globalThis.probe.longest());
  const mb = await heap(cdp);
  await page.close();
  return { ms, longest, mb };
}

/** A turn of very many deltas, in `id` or in a session of its own that has said one line. */
export async function deltas(who, world, id, count) {
  const at = id ?? await session(world, [{ text: `${LAST_WORDS} of an empty session.` }]);
  const { page, cdp } = await open(who, `/s/${at}`, NEWEST);
  await shownAt(page);
  await pause(1_000);
  const turns = await turnsOf(world, at);
  await page.evaluate(() => globalThis.probe.begin());
  await say(world, at, [flood(count)]);
  await idle(world, at, turns + 1);
  await page.waitForFunction(() => document.querySelector('.open-part') === null);
  await pause(300);
  const taken = await ended(page);
  const mb = await heap(cdp);
  await page.close();
  if (id === undefined) await world.ask(`/v1/sessions/${at}/stop`, { body: {} });
  return { ...taken, deltasPerSecond: count * 1000 / taken.ms, mb };
}

/** A turn of deltas of which about one comes in each frame. */
export async function pacedDeltas(who, world, id, count) {
  const { page } = await open(who, `/s/${id}`, NEWEST);
  await shownAt(page);
  await pause(500);
  const turns = await turnsOf(world, id);
  await page.evaluate(() => globalThis.probe.begin({ hasMarks: true }));
  await say(world, id, [paced(count)]);
  await idle(world, id, turns + 1);
  const taken = await ended(page);
  const bare = [];
  for (let n = 0; n < 40; n += 1) bare.push(await page.evaluate(() => globalThis.probe.bare()));
  await page.close();
  return { ...taken, bareP95: bare.sort((one, other) => one - other)[37] };
}

/** Scrolls for a while. `html`: a page of the same length without a list. */
export async function scroll(who, id, html) {
  const { page, cdp } = await open(who, html === undefined ? `/s/${id}` : '/healthz', html === undefined ? NEWEST : undefined);
  if (html !== undefined) {
    await page.evaluate(() => {
      document.body.replaceChildren(...Array.from({ length: 10_000 }, (_, n) => Object.assign(document.createElement('article'), { textContent: `Row ${n} of a page without a list` })));
      document.body.style.cssText = 'height:600px;width:800px;overflow-y:scroll';
      document.body.setAttribute('role', 'feed');
    });
  } else {
    await shownAt(page);
    await page.keyboard.press('g');
    await page.keyboard.press('g');
    await page.getByText('It began here').first().waitFor();
    await pause(500);
  }
  const box = await page.locator(FEED).boundingBox();
  await page.evaluate((scroller) => globalThis.probe.begin({ scroller }), FEED);
  await cdp.send('Input.synthesizeScrollGesture', { x: box.x + box.width / 2, y: box.y + box.height / 2, yDistance: -20_000, speed: 6_000, gestureSourceType: 'mouse', preventFling: true });
  const taken = await ended(page);
  if (html !== undefined) taken.blankShare = undefined;
  const rows = await page.evaluate(() => Number(document.querySelector('[role=feed] article')?.getAttribute('aria-setsize') ?? 10_000));
  const mb = await heap(cdp);
  await page.close();
  return { ...taken, rows, mb };
}

/** How far the first row in sight moves while older ones come before it. */
export async function prepend(who, id) {
  const { page } = await open(who, `/s/${id}`, NEWEST);
  await shownAt(page);
  let isHeld = true;
  const waiting = [];
  await page.route(/\/events\?.*before=/, (route) => (isHeld ? waiting.push(route) : route.continue()));
  const box = await page.locator(FEED).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  while (waiting.length === 0) {
    await page.mouse.wheel(0, -400);
    await pause(30);
  }
  await pause(500);
  await page.evaluate((feed) => {
    const scroller = document.querySelector(feed);
    const top = scroller.getBoundingClientRect().top;
    const first = [...document.querySelectorAll(`${feed} article`)].find((row) => row.getBoundingClientRect().top >= top);
    const { key } = first.dataset;
    const at = first.getBoundingClientRect().top;
    const size = Number(first.getAttribute('aria-setsize'));
    globalThis.shift = { worst: 0, frames: 0, size };
    const look = () => {
      const row = document.querySelector(`${feed} article[data-key="${CSS.escape(key)}"]`);
      globalThis.shift.worst = Math.max(globalThis.shift.worst, row === null ? 9_999 : Math.abs(row.getBoundingClientRect().top - at));
      if (Number(row?.getAttribute('aria-setsize')) > size) globalThis.shift.frames += 1;
      requestAnimationFrame(() => setTimeout(look));
    };
    look();
  }, FEED);
  isHeld = false;
  for (const route of waiting) await route.continue();
  await page.waitForFunction(() => globalThis.shift.frames > 30);
  const px = await page.evaluate(() => globalThis.shift.worst);
  await page.close();
  return { px };
}

/** Loads the record that was left out for its size, with its card open. */
export async function loadLarge(who, world, id) {
  const { page, cdp } = await open(who, `/s/${id}/r/${await largeIn(world, id)}`);
  const card = page.locator('.entry.is-current', { hasText: 'large' });
  await card.locator('.call-line').click();
  const load = card.getByRole('button', { name: 'Load it' });
  await load.waitFor();
  await page.evaluate(() => globalThis.probe.begin());
  await load.click();
  await load.waitFor({ state: 'detached' });
  await pause(300);
  const taken = await ended(page);
  const mb = await heap(cdp);
  await page.close();
  return { ...taken, mb };
}

/** The number of the large record. */
async function largeIn(world, id) {
  for (let after = 0; after !== undefined;) {
    const page = await world.ask(`/v1/sessions/${id}/events?after=${after}&limit=5000&stub_above=1000000`);
    const found = page.items.find(({ data }) => data?.['trunkline.stub'] !== undefined);
    if (found !== undefined) return found.seq;
    after = page.next_after ?? undefined;
  }
  throw new Error('there is no large record');
}

/** Keys, with what answers them in sight. */
const KEYS = [
  { name: 'palette', keys: 'Control+k', shown: { selector: '[role=dialog]' }, back: { selector: '[role=dialog]', isGone: true } },
  { name: 'keys of the place', keys: '?', shown: { selector: '[role=dialog]' }, back: { selector: '[role=dialog]', isGone: true } },
  { name: 'row before', keys: 'k', shown: { selector: '.entry.is-current' } },
  { name: 'to the end', keys: 'G', shown: { selector: '[role=feed]:not(:has(.entry.is-current))' } },
  { name: 'into the box', keys: 'i', shown: { selector: 'textarea:focus' } },
  { name: 'a letter', keys: 'x', shown: { selector: 'textarea:focus' } },
];

/** From a key to its painted answer, each in turn. */
export async function keys(who, id) {
  const { page } = await open(who, `/s/${id}`, NEWEST);
  await shownAt(page);
  // Layers are loaded after the page.
  await pause(2_500);
  const taken = {};
  const press = async (name, key, shown) => {
    await page.evaluate((wanted) => globalThis.probe.keyTo(wanted), shown);
    await page.keyboard.press(key);
    taken[name] = await page.evaluate(() => globalThis.keyed);
  };
  for (const { name, keys: key, shown, back } of KEYS) {
    await press(name, key, shown);
    if (back !== undefined) await press(`${name}, closed`, 'Escape', back);
  }
  await page.close();
  const [slowest, ms] = Object.entries(taken).sort(([, one], [, other]) => other - one)[0];
  return { ms, slowest };
}

/** From the press of one person to the sight of another; beside it a request there and back. */
export async function decision(one, other, world, id) {
  const pages = await Promise.all([one, other].map((who) => open(who, `/s/${id}`)));
  const [mine, theirs] = pages.map(({ page }) => page);
  const turns = await turnsOf(world, id);
  await say(world, id, [{ ask: { tool: 'Bash', input: { command: 'ls -l' } } }, { text: 'Done.' }]);
  const buttons = [mine, theirs].map((page) => page.getByRole('button', { name: /^Allow once/ }));
  for (const button of buttons) await button.waitFor();
  // A card is dead until it was in sight for a while.
  await pause(1_500);
  const seen = theirs.evaluate((gone) => globalThis.probe.momentOf(gone), { selector: 'button', text: 'Allow once', isGone: true });
  await mine.evaluate(() => { addEventListener('pointerdown', (event) => { globalThis.pressed = performance.timeOrigin + event.timeStamp; }, { capture: true, once: true }); });
  await buttons[0].click();
  const ms = await seen - await mine.evaluate(() => globalThis.pressed);
  await idle(world, id, turns + 1);
  const request = await mine.evaluate(async () => {
    const began = performance.now();
    await fetch('/healthz');
    return performance.now() - began;
  });
  for (const { page } of pages) await page.close();
  return { ms, request };
}

/** Kilobytes of all files that a page loads, as they come. */
export async function firstLoad(who, path) {
  const page = await who.context.newPage();
  const names = [];
  page.on('response', (response) => { names.push(new URL(response.url()).pathname); });
  await page.goto(new URL(path, who.url).href);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.locator(path === '/' ? '.home' : FEED).waitFor();
  const files = [...new Set(names)].filter((name) => name.startsWith('/assets/'));
  let total = 0;
  for (const name of ['/', ...files]) total += await compressed(who.url, name);
  await page.close();
  return { kb: total / 1000, files: files.length };
}

async function compressed(url, name) {
  if (DIST !== undefined) {
    const path = DIST + (name === '/' ? '/index.html' : name);
    return statSync(existsSync(`${path}.br`) ? `${path}.br` : path).size;
  }
  const { get } = await import('node:http');
  return new Promise((resolve, reject) => {
    get(new URL(name, url), { headers: { 'accept-encoding': 'br' } }, (response) => {
      let size = 0;
      response.on('data', (data) => { size += data.length; });
      response.on('end', () => resolve(size));
    }).on('error', reject);
  });
}
