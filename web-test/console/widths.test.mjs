// Owns that every page fits: from 320 px to a wide screen, with letters of twice the size, under a finger, without colours of its
// own, and without motion where a person wants none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const PAGES = ['/', '/needs', '/needs?state=decided', '/new', '/watch', '/usage', '/health', '/settings/look', '/settings/keys', '/settings/notices', '/settings/logins', '/settings/configuration'];

const here = stage({
  async set(all) {
    const { world } = all;
    const begin = async (prompt, options = {}) => (await world.ask('/v1/sessions', { body: { cwd: world.work, prompt, options } })).id;
    await begin('error');
    all.ids = [await begin(`tool run: cargo test --all-features ${'--package a-package-with-a-long-name '.repeat(4)}`), await begin('question'), await begin('plan'), await begin('form')];
    const done = await begin('hello');
    await until('turns end and requests wait', async () => {
      const { items } = await world.ask('/v1/sessions');
      return items.filter((one) => one.pending_approvals.length > 0).length === 4 && items.find((one) => one.id === done).turns === 1;
    });
  },
});

/** All that is wider than the window, with the first element that is. */
const tooWide = (page) => page.evaluate(() => {
  const { scrollWidth } = document.documentElement;
  if (scrollWidth <= innerWidth) return [];
  const first = [...document.body.querySelectorAll('*')].find((one) => one.getBoundingClientRect().right > innerWidth + 1);
  return [`${scrollWidth} px in ${innerWidth}, ${first?.outerHTML.slice(0, 160)}`];
});

/** Targets that a finger may miss: less than 44 px high or wide. */
const tooSmall = (page) => page.evaluate(() => {
  const LEAST = 43.5;
  return [...document.querySelectorAll('button, a[href], select, textarea, summary, input')].flatMap((one) => {
    const style = getComputedStyle(one);
    if (!one.checkVisibility({ visibilityProperty: true }) || one.closest('[aria-hidden=true], .only-heard') !== null) return [];
    // A link in a sentence is as high as its line.
    if (one.matches('a') && style.display === 'inline' && one.closest('p, td') !== null) return [];
    // A field takes a tap on its label, and a link may lie over all that it is about.
    const isOver = getComputedStyle(one, '::after').position === 'absolute';
    const target = isOver && style.position === 'static' ? one.offsetParent : one.matches('[type=checkbox], [type=radio]') ? one.closest('label, .tick') ?? one : one;
    const { width, height } = target.getBoundingClientRect();
    return width > 1 && height > 1 && (width < LEAST || height < LEAST) ? [`${Math.round(width)} × ${Math.round(height)} px: ${one.outerHTML.slice(0, 120)}`] : [];
  });
});

test('at 320 px, and with letters of twice the size, no page scrolls sideways, and a finger meets all that it means', async () => {
  const person = await Person.at(here.browser, here.world.url, { size: 'phone', viewport: { width: 320, height: 640 } });
  const page = await person.signIn(await here.world.address());
  const faults = [];
  for (const path of [...PAGES, ...here.ids.map((id) => `/s/${id}`)]) {
    await page.goto(here.world.url + path);
    await page.getByRole('heading').or(page.getByRole('dialog')).first().waitFor();
    if (path.startsWith('/s/')) await page.locator('.decision-buttons').waitFor();
    faults.push([path, await tooWide(page), await tooSmall(page)]);
    await page.evaluate(() => { document.documentElement.style.fontSize = '200%'; });
    await page.setViewportSize({ width: 640, height: 640 });
    faults.push([`${path}, large letters`, await tooWide(page)]);
    await page.setViewportSize({ width: 320, height: 640 });
  }
  assert.deepEqual(faults.filter(([, ...found]) => found.flat().length > 0), []);
  await person.context.close();
});

test('list, rail and side panel are where the width has room for them', async () => {
  const person = await Person.at(here.browser, here.world.url);
  const page = await person.signIn(await here.world.address());
  await page.goto(`${here.world.url}/s/${here.ids[0]}`);
  const list = page.getByRole('searchbox', { name: 'Filter sessions' });
  const rail = page.locator('.rail');
  const side = page.getByRole('complementary', { name: 'Side panel' });
  for (const [width, has] of Object.entries({ 1600: [true, false, true], 1280: [true, false, false], 768: [false, true, false], 360: [false, false, false] })) {
    await page.setViewportSize({ width: Number(width), height: 800 });
    await until(`what belongs to ${width} px is there`, async () =>
      JSON.stringify([await list.isVisible(), await rail.isVisible(), await side.isVisible()]) === JSON.stringify(has));
  }
  await person.context.close();
});

test('states differ without colours, a focus is seen, and nothing moves where that is wanted', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url, { forcedColors: 'active', reducedMotion: 'reduce' });
  const page = await person.signIn(await world.address());
  await world.ask('/v1/sessions', { body: { cwd: world.work, prompt: 'slow' } });
  await page.getByRole('heading', { name: /^Working/ }).waitFor();
  const shapes = await page.locator('.session-row').getByRole('img').evaluateAll((all) => Object.fromEntries(all.map((one) => [one.ariaLabel, one.textContent])));
  assert.ok(Object.keys(shapes).length >= 3, JSON.stringify(shapes));
  assert.equal(new Set(Object.values(shapes)).size, Object.keys(shapes).length, `two states have one shape: ${JSON.stringify(shapes)}`);
  assert.deepEqual(await page.evaluate(() => document.getAnimations().filter((one) => one.playState === 'running').map((one) => one.animationName ?? one.transitionProperty)), []);
  for (let step = 0; step < 12; step += 1) {
    await page.keyboard.press('Tab');
    // A ring may be drawn around the row or the box that the focus is in.
    const lacking = await page.evaluate(() => {
      for (let one = document.activeElement; one !== document.body && one !== null; one = one.parentElement) {
        const { outlineStyle, outlineWidth } = getComputedStyle(one);
        if (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2) return null;
      }
      return document.activeElement === document.body ? null : document.activeElement.outerHTML.slice(0, 200);
    });
    assert.equal(lacking, null, 'a focus without a ring');
  }
  await person.context.close();
});
