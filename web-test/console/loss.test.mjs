// Owns that a page loses nothing: the network is cut ten times and the daemon killed twice in one streamed turn, and each word is
// there once, with the draft, the focus and the place.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person } from './browser.mjs';
import { stage } from './stage.mjs';
import { scripted, until } from './world.mjs';

const here = stage({ agent: 'real' });

const WORDS = Array.from({ length: 400 }, (_, at) => `word${at}`);

test('ten cuts and two kills in a turn lose and double nothing', { timeout: 240_000 }, async () => {
  const { browser, world } = here;
  const person = await Person.at(browser, world.url);
  // Slowly, so that the turn runs as long as things are taken away.
  await fetch(`${world.env.ANTHROPIC_BASE_URL}/control`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ pace: { chunk_ms: 80, chunk_size: 8 } }),
  });
  const prompt = scripted('Count', [{ text: WORDS.join(' ') }]);
  const page = await person.context.newPage();
  await page.goto(world.url + await world.address());
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  const { id } = await world.ask('/v1/sessions', { body: { cwd: world.work, prompt, options: { include_partial_messages: true } } });
  await page.goto(`${world.url}/s/${id}`);
  const transcript = page.getByRole('feed', { name: 'Transcript' });
  const said = async () => (await transcript.getByRole('article').allInnerTexts()).filter((text) => !text.includes('SCRIPT')).join(' ').match(/word\d+/g) ?? [];
  await until('the first words are there', async () => (await said()).length > 5);
  const box = page.getByRole('textbox', { name: 'Message' });
  await box.fill('A draft');
  let inTurn = 0;
  for (let step = 0; step < 12; step += 1) {
    if ((await world.ask(`/v1/sessions/${id}`)).turns === 0) inTurn += 1;
    const before = (await said()).length;
    if (step % 6 === 5) {
      await world.kill();
      await world.serve();
    } else {
      world.network.cut({ stays: step % 3 === 0 });
      if (step % 3 === 0) await page.getByText(/^Offline|Offline\. As of/).waitFor();
      world.network.back();
    }
    await until('words come again', async () => (await said()).length > before || (await world.ask(`/v1/sessions/${id}`)).turns === 1);
    const now = await said();
    assert.deepEqual(now, WORDS.slice(0, now.length).map((word, at) => (at === now.length - 1 ? now[at] : word)), `after step ${step}`);
    assert.equal(await box.inputValue(), 'A draft');
    assert.ok(await box.evaluate((element) => element === document.activeElement), 'the box has the focus');
  }
  assert.equal(inTurn, 12, 'the turn ended before all was taken away');
  await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
  await until('all words are there', async () => (await said()).length >= WORDS.length);
  assert.deepEqual(await said(), WORDS);
  await until('the page says that it is live', async () => !(await page.getByText('Offline.').isVisible()));
});
