// Owns how browsers get in, and stay out: addresses of `trunkline open`, the token, and a login that was revoked.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { stage } from './stage.mjs';
import { World, until } from './world.mjs';

const here = stage();

const pages = (page) => page.getByRole('navigation', { name: 'Pages' });

test('an address lets one browser in, once, and is in no history', async () => {
  const { browser, world } = here;
  const address = await world.address();
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(address);
  assert.equal(new URL(page.url()).pathname, '/');
  await page.goBack().catch(() => undefined);
  assert.ok(!page.url().includes(address.slice(6)), 'the ticket is in the history');
  await person.clean();
  const other = await Person.at(browser, world.url);
  const late = await other.context.newPage();
  await late.goto(world.url + address);
  await late.getByRole('heading', { name: 'This browser is not signed in.' }).waitFor();
  assert.match(await late.locator('.problem').innerText(), /^This address does not work any more: [A-Z][^{}()=>]*$/);
  await person.context.close();
  await other.context.close();
});

test('a token that is pasted lets a browser in, and a wrong one does not', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.context.newPage();
  await page.goto(`${world.url}/usage`);
  await page.getByLabel('Or paste its token').fill('wrong');
  await page.getByRole('button', { name: 'Go in' }).click();
  await page.getByRole('status').locator('.problem').waitFor();
  await accessible(page, 'the page that asks for a login');
  await page.getByLabel('Or paste its token').fill(world.token);
  await page.getByRole('button', { name: 'Go in' }).click();
  await page.getByRole('heading', { name: 'Usage' }).waitFor();
  await person.context.close();
});

test('a login that is revoked is out at once, says so, and comes back to its place and its draft', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work } });
  await page.goto(`${world.url}/s/${id}`);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('half a thought');
  const { items } = await world.ask('/v1/logins');
  for (const { id } of items) await world.ask(`/v1/logins/${id}`, { method: 'DELETE' });
  await page.getByRole('heading', { name: 'This login was ended.' }).waitFor();
  await page.getByLabel('Or paste its token').fill(world.token);
  await page.getByRole('button', { name: 'Go in' }).click();
  await box.waitFor();
  assert.equal(new URL(page.url()).pathname, `/s/${id}`);
  assert.equal(await box.inputValue(), 'half a thought');
  await world.ask(`/v1/sessions/${id}`, { method: 'DELETE' });
  await person.context.close();
});

test('a server at another port is sent the cookie and can do nothing with it', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  const page = await person.signIn(await world.address());
  const heard = [];
  const server = createServer((request, response) => {
    heard.push(request.headers.cookie ?? '');
    response.setHeader('content-type', 'text/html');
    response.end('<!doctype html><title>another</title>');
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const other = await person.context.newPage();
  await other.goto(`http://127.0.0.1:${server.address().port}/v1/x`);
  const cookie = await until('the cookie comes to the other port', () => heard.find((one) => one.includes('trunkline')));
  // The server uses what it was sent, as a program may.
  for (const headers of [{ cookie }, { cookie, origin: world.url, 'sec-fetch-site': 'same-origin' }, { cookie, 'trunkline-login': 'guess', origin: world.url }]) {
    const answer = await fetch(`${world.url}/v1/sessions`, { headers });
    assert.equal(answer.status, 401, JSON.stringify(headers));
  }
  // Its page asks, and the browser sends the cookie along.
  const asked = await other.evaluate(async (url) => {
    const results = [];
    for (const path of ['/v1/sessions', '/v1/logins/current', '/v1/tickets']) {
      const method = path.endsWith('tickets') ? 'POST' : 'GET';
      results.push(await fetch(url + path, { method, credentials: 'include', mode: 'no-cors' }).then((answer) => answer.type, () => 'refused'));
    }
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/ws`, ['trunkline.v1']);
    results.push(await new Promise((resolve) => { socket.onopen = () => resolve('opened'); socket.onerror = () => resolve('refused'); }));
    return results;
  }, world.url);
  assert.ok(!asked.includes('opened') && asked.every((one) => ['opaque', 'refused'].includes(one)), JSON.stringify(asked));
  const { items } = await world.ask('/v1/sessions');
  assert.deepEqual(items, []);
  // Nor can it put the page into a frame.
  await other.evaluate((url) => { const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame); }, world.url);
  await until('the frame is refused', () => other.frames().some((frame) => frame.url().startsWith('chrome-error:')));
  server.close();
  await pages(page).waitFor();
  await person.context.close();
});

test('a page over plain HTTP from another machine works, though browsers give it less', async () => {
  const { browser } = here;
  const world = await World.start({ env: { TRUNKLINE_SERVER_ALLOWED_HOSTS: 'trunkline.test' } });
  try {
    const url = world.url.replace('127.0.0.1', 'trunkline.test');
    const person = await Person.at(browser, url);
    const page = await person.signIn(await world.address());
    assert.equal(await page.evaluate(() => isSecureContext), false);
    await page.keyboard.press('c');
    const dialog = page.getByRole('dialog', { name: 'New session' });
    await dialog.getByLabel('What should it do?').and(page.locator(':focus')).waitFor();
    await page.keyboard.type('hello');
    await dialog.getByLabel('Where').fill(world.work);
    await dialog.getByRole('button', { name: 'Start' }).click();
    await page.getByText(/I am simulated|simulated agent/i).first().waitFor();
    // Chromium says of every such page that it leaves this header out.
    person.faults = person.faults.filter((fault) => !fault.includes('Cross-Origin-Opener-Policy header has been ignored'));
    await person.clean();
    await person.context.close();
  } finally {
    await world.end();
  }
});

test('a page of another site that frames or opens the console sees nothing of it', async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const server = createServer((request, response) => { response.setHeader('content-type', 'text/html'); response.end('<!doctype html><title>another</title><body>'); });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const other = await person.context.newPage();
  // To a browser `localhost` is another site than its address.
  await other.goto(`http://localhost:${server.address().port}/`);
  const popup = person.context.waitForEvent('page');
  await other.evaluate((url) => {
    globalThis.heard = [];
    addEventListener('message', ({ data }) => globalThis.heard.push(data));
    globalThis.frame = document.body.appendChild(Object.assign(document.createElement('iframe'), { src: url }));
    globalThis.opened = open(url);
  }, world.url);
  await pages(await popup).waitFor();
  await until('the frame is refused', () => other.frames().some((frame) => frame.url().startsWith('chrome-error:')));
  const got = await other.evaluate(() => {
    const read = (of) => { try { return String(of()); } catch (error) { return error.name; } };
    return [read(() => opened.document.body.innerText), read(() => opened.localStorage.getItem('trunkline.login')), read(() => frame.contentWindow.document.body.innerText), globalThis.heard.length];
  });
  // A browser that keeps the opener apart hands out an empty window, and one that does not refuses.
  assert.ok(got.slice(0, 3).every((one) => ['SecurityError', 'TypeError', ''].includes(one)), JSON.stringify(got));
  assert.equal(got[3], 0, 'the console said something to a page of another site');
  server.close();
  await person.context.close();
});
