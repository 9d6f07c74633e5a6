// Owns that nothing an agent says does anything to the page or to the person who reads it: no markup, no script, no address that is
// followed, no character that hides, no text that holds it up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { SESSIONS } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const ids = {};
let person;
let page;
const here = stage({
  agent: 'fake',
  async set({ browser, world }) {
    await Promise.all(Object.entries(SESSIONS).map(async ([name, { actions, ...more }]) => { ids[name] = await world.play(name, actions, more); }));
    await until('all is said', async () => (await world.ask('/v1/sessions')).items.every((one) => one.turns === 1 || one.pending_approvals.length > 0));
    person = await Person.at(browser, world.url);
    page = await person.signIn(await world.address());
    page.on('dialog', (dialog) => { person.faults.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  },
});

/** Goes through a whole conversation, from its end to its beginning, and opens each card on the way. It gives all that it read, and the most elements that the page had. */
async function readThrough(id) {
  await page.goto(`${here.world.url}/s/${id}`);
  await page.getByRole('feed', { name: 'Transcript' }).getByText('It began here').or(page.getByRole('article').last()).first().waitFor();
  return page.evaluate(async () => {
    const frame = () => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve, 0)); });
    const place = document.querySelector('.transcript');
    const said = new Map();
    // The end is followed until a person turns the wheel.
    place.dispatchEvent(new WheelEvent('wheel', { deltaY: -1 }));
    let most = 0;
    for (let steps = 0; steps < 150; steps += 1) {
      // The page opens and measures rows as they come into view.
      for (let tries = 0; tries < 2; tries += 1) {
        for (const button of place.querySelectorAll('button[aria-expanded="false"]:not([aria-haspopup])')) button.click();
        await frame();
      }
      for (const row of place.querySelectorAll('article')) said.set(row.dataset.key, row.innerText);
      most = Math.max(most, document.getElementsByTagName('*').length);
      if (place.scrollTop <= 0 && steps > 2) break;
      place.scrollTop -= place.clientHeight * 0.8;
      await frame();
    }
    const bad = 'script, iframe, object, embed, form, style, link, base, meta, svg image, img[src^="http"], [onclick], [onerror], [onload], a:not([href^="http://"], [href^="https://"], [href^="/s/"])';
    return { said: [...said.values()].join('\n'), most, markup: [...place.querySelectorAll(bad)].map((one) => one.outerHTML), planted: globalThis.planted, polluted: ({}).polluted };
  });
}

/** The places of the page that show what cannot be seen as it came: text, names, and the options of forms. */
const hiddenIn = () => page.evaluate(() => {
  const hides = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) if (hides.test(node.data)) found.push(node.parentElement.outerHTML.slice(0, 200));
  for (const element of document.querySelectorAll('[title], [aria-label], [alt], [placeholder]')) {
    for (const name of ['title', 'aria-label', 'alt', 'placeholder']) if (hides.test(element.getAttribute(name) ?? '')) found.push(`${name} of ${element.outerHTML.slice(0, 200)}`);
  }
  return found;
});

/** The page still does what a person wants. */
async function usable() {
  await page.getByRole('textbox', { name: 'Message' }).fill('Still here');
  await page.getByRole('button', { name: 'More for this conversation' }).click();
  await page.getByRole('menu').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('textbox', { name: 'Message' }).fill('');
}

test('markup, scripts, links and codes of terminals are text', async () => {
  const { said, markup, planted } = await readThrough(ids.markup);
  assert.equal(planted, undefined, 'a script of the agent ran');
  assert.deepEqual(markup, []);
  for (const words of ['<script>planted = 1</script>', '<style>* { display: none }</style>', 'js (javascript:planted=8)', '(data:text/html,', 'a bank (127.0.0.1:9)', 'https://bank.example/ (127.0.0.1:9)', 'image: pic (127.0.0.1:9)',
    '&valueOf; &toString; <b>', 'a link of a terminal', 'concealed', 'control codes left out', 'Fetch', 'javascript:planted=24', 'a line of stderr']) assert.ok(said.includes(words), `the page does not say: ${words}`);
  assert.ok(!said.includes('{ "text": "a line'), 'a line of stderr is drawn as JSON');
  await usable();
  await person.clean();
});

test('names that every object has are names like any other', async () => {
  const { said, planted, polluted, markup } = await readThrough(ids.names);
  assert.deepEqual([planted, polluted], [undefined, undefined]);
  assert.deepEqual(markup, []);
  for (const words of ['constructor', '__proto__', 'toString', '&valueOf; &toString;', 'It failed.', 'The last words.']) assert.ok(said.includes(words), `the page does not say: ${words}`);
  assert.ok(!said.includes('native code'), 'the page says a function of its own');
  for (const [path, words] of [['/s/__proto__', 'There is no such session.'], ['/s/constructor', 'There is no such session.'], [`/s/${ids.names}/agent/nobody`, 'There is no such agent.'], ['/s/%E0%A4%A', /sessions? needs? you\./]]) {
    await page.goto(here.world.url + path);
    await page.getByText(words).first().waitFor();
  }
  await person.clean();
});

test('texts that are made to hold up their reader are cut, and the page stays quick to use', async () => {
  const { said, most } = await readThrough(ids.bombs);
  assert.ok(most < 12_000, `the page had ${most} elements`);
  for (const words of ['The last words.', 'more rows', 'MB are not loaded']) assert.ok(said.includes(words), `the page does not say: ${words}`);
  assert.ok(said.length < 3_000_000, `the page drew ${said.length} characters`);
  await usable();
  await person.clean();
});

test('characters that hide something are shown as such on every page', async () => {
  for (const path of ['/', '/needs', '/watch', '/health', '/usage?by=session', ...['hiddenCommand', 'hiddenQuestion', 'hiddenForm'].map((name) => `/s/${ids[name]}`)]) {
    await page.goto(here.world.url + path);
    await page.getByText('U+202E').first().waitFor();
    if (path.startsWith('/s/')) await page.getByRole('button', { name: /^(?:Allow once|Send)/ }).waitFor();
    assert.deepEqual(await hiddenIn(), [], `on ${path}`);
  }
  await page.keyboard.press('Control+k');
  await page.getByRole('option').filter({ hasText: 'U+202E' }).first().waitFor();
  assert.deepEqual(await hiddenIn(), [], 'in the palette');
  await page.keyboard.press('Escape');
  await person.clean();
});

test('all that would run is seen before it runs', async () => {
  await page.goto(`${here.world.url}/s/${ids.hiddenCommand}`);
  const card = page.getByRole('region', { name: 'Run a command?' });
  await card.getByRole('button', { name: 'Allow once' }).waitFor();
  const said = await card.innerText();
  for (const words of ['300 blanks', 'rm -rf ~', 'U+202E', 'It hides something: characters that cannot be seen', 'deletes directories']) assert.ok(said.includes(words), `the card does not say: ${words}`);
  const [wide, has] = await card.locator('.decision-body').evaluate((body) => [body.scrollWidth, body.clientWidth]);
  assert.ok(wide <= has, 'a part of the command lies beyond the edge');
  await page.goto(here.world.url);
  const row = page.locator('.session-row').filter({ hasText: 'Title rm' }).first();
  await row.getByRole('link', { name: 'Review' }).waitFor();
  assert.equal(await row.getByRole('button', { name: /Allow/ }).count(), 0, 'a row offers what it cannot show');
  await person.clean();
});

test('a form is sent with every field, whatever the server calls it', async () => {
  await page.goto(`${here.world.url}/s/${ids.hiddenForm}`);
  const card = page.getByRole('region', { name: /asks$/ });
  await card.getByLabel('Proto').fill('first');
  await card.getByLabel(/^constructor/).fill('second');
  await card.getByRole('combobox').selectOption('two');
  await until('the form is sent', async () => {
    await card.getByRole('button', { name: /^Send/ }).click({ timeout: 2_000 }).catch(() => undefined);
    return (await here.world.ask(`/v1/sessions/${ids.hiddenForm}`)).pending_approvals.length === 0;
  });
  const sent = (await here.world.journal(ids.hiddenForm)).map((record) => JSON.stringify(record.data)).find((line) => line.includes('"action":"accept"') && line.includes('control_response'));
  for (const member of ['"__proto__":"first"', '"constructor":"second"', '"place":"two"', '"toString":false']) assert.ok(sent?.includes(member), `${member} is not in ${sent}`);
  await person.clean();
});
