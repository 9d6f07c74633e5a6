// Owns that each state which a person brings about on a page is accessible too, in both themes: open menus, dialogs, decisions in all
// their forms, panels and strips. The pages as they open are those of pages.test.mjs.
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const RISKY = 'git push --force origin main';

const here = stage({
  async set(all) {
    const { world } = all;
    const begin = async (title, prompt, options = {}) => (await world.ask('/v1/sessions', { body: { cwd: world.work, title, prompt, options } })).id;
    all.ids = {
      done: await begin('Done', 'hello'), failed: await begin('Failed', 'error'), asks: await begin('Asks', 'tool run: npm test'), risky: await begin('Risky', `tool run: ${RISKY}`),
      wonders: await begin('Wonders', 'question'), plans: await begin('Plans', 'plan'), fills: await begin('Fills', 'form'),
    };
    await until('turns end and requests wait', async () => {
      const { items } = await world.ask('/v1/sessions');
      return items.filter((one) => one.pending_approvals.length > 0).length === 5 && items.find((one) => one.id === all.ids.done).turns === 1;
    });
    for (const text of ['One more thing', 'And another']) await world.ask(`/v1/sessions/${all.ids.asks}/prompts`, { body: { text } });
  },
});

const button = (name, within = (page) => page) => (page) => within(page).getByRole('button', { name }).first().click();
const key = (keys) => async (page) => { for (const one of keys.split(' ')) await page.keyboard.press(one); };
const role = (kind, name) => (page) => page.getByRole(kind, { name }).first();
const words = (text) => (page) => page.getByText(text).first();
const onRow = (title, keys) => async (page) => {
  await page.getByRole('link', { name: title, exact: true }).first().focus();
  await page.keyboard.press(keys);
};
const inCard = (page) => page.locator('.decision');
/** Presses a button of a card, which is dead until it was in sight for a while. */
const decides = (name, shown) => async (page) => {
  await until('the press counts', async () => {
    await inCard(page).getByRole('button', { name }).click({ timeout: 1_000 }).catch(() => undefined);
    return shown(page).isVisible();
  });
};
const asItIs = () => undefined;
const both = (...acts) => async (page) => { for (const act of acts) await act(page); };

/** States by their place: how each is brought about, and what is there then. */
const PLACES = [
  ['/', [
    ['filters', button('Filters'), role('combobox', 'State')],
    ['the menu of a session', button('More for Done'), role('menuitem', /^Rename/)],
    ['the dialog of a name', onRow('Done', 'r'), role('dialog', /^Name/)],
    ['the dialog of a tag', onRow('Done', 'l'), role('dialog', /^Tag/)],
    ['the dialog of a snooze', onRow('Wonders', 'z'), role('dialog', /^Snooze/)],
    ['selected sessions', onRow('Done', 'x'), role('group', 'Selected sessions')],
    ['the palette', key('Control+k'), role('dialog', 'Palette')],
    ['the keys', key('?'), role('dialog', 'Keys')],
    ['the keys while they are changed', both(key('?'), button('Change keys')), role('textbox', 'Key for Palette')],
    ['the messages of the page', key('g l'), role('dialog', /Messages/)],
    ['what is behind More', button('More', (page) => page.getByRole('navigation', { name: 'Pages' })), role('link', 'Health')],
  ]],
  ['/new', [['all of a new session', both((page) => page.getByText('Tools, MCP, budget, labels').click(), button('Add a server')), role('textbox', 'Name of server 1')]]],
  [({ done }) => `/s/${done}`, [
    ['the menu of models', button(/^Model/), role('menuitem', /./)],
    ['the menu of modes', button(/^Mode:/), role('menuitem', /./)],
    ['the menu of efforts', button('Effort'), role('menuitem', /./)],
    ['the menu of a conversation', button('More for this conversation'), role('menuitem', /^Export as JSON/)],
    ['the menu of a row', both((page) => page.getByRole('article', { name: 'Answer' }).first().click(), button('More for this row: Answer')), role('menuitem', /^Copy a link/)],
    ['a title that is changed', key('r'), role('textbox', 'Title')],
    ['the messages to go back to', both(button('More for this conversation'), (page) => page.getByRole('menuitem', { name: /^Rewind files/ }).click()), role('dialog', 'Rewind files')],
    ['the side panel', key('P'), role('complementary', 'Side panel')],
  ]],
  [({ done }) => `/s/${done}/r/1/raw`, [['a raw record', asItIs, words('"run_started"')]]],
  [({ asks }) => `/s/${asks}`, [
    ['a decision, with messages that wait', asItIs, role('region', 'Messages that wait')],
    ['a denial with its words', decides('Deny…', role('textbox', 'What should it do instead?')), role('textbox', 'What should it do instead?')],
    ['what is always allowed', button(/Always allow…/, inCard), role('combobox', 'How long')],
    ['a command that is edited', button(/Edit first/, inCard), role('textbox', 'Command')],
  ]],
  [({ risky }) => `/s/${risky}`, [['a second question about a risk', decides(/^Allow once/, role('button', /^Run it/)), role('button', /^Run it/)]]],
  [({ wonders }) => `/s/${wonders}`, [['a question with a remark', button(/Remark/, inCard), role('textbox', 'Remark')]]],
  [({ plans }) => `/s/${plans}`, [
    ['a step of a plan that is changed', button(/^Edit step/, inCard), role('textbox', 'This step')],
    ['a plan as text', button(/Edit as text/, inCard), role('textbox', 'The plan')],
  ]],
  [({ fills }) => `/s/${fills}`, [['a form', asItIs, (page) => inCard(page).getByRole('textbox').first()]]],
  [({ failed }) => `/s/${failed}`, [['a turn that failed', asItIs, role('article', /failed/)]]],
];

/** Leaves a state as a person does, by Esc; whether that was enough. */
async function left(page, shown) {
  for (let n = 0; n < 3 && await shown(page).isVisible(); n += 1) {
    await page.keyboard.press('Escape');
    await shown(page).waitFor({ state: 'hidden', timeout: 1_000 }).catch(() => undefined);
  }
  return !await shown(page).isVisible();
}

for (const size of ['desk', 'phone']) {
  test(`each state of a page is accessible on the ${size}`, { timeout: 240_000 }, async () => {
    const { browser, ids, world } = here;
    const person = await Person.at(browser, world.url, { size });
    const page = await person.signIn(await world.address());
    const faults = [];
    for (const [path, states] of PLACES) {
      let isFresh = false;
      for (const [name, bring, shown] of states) {
        try {
          if (!isFresh) await page.goto(world.url + (typeof path === 'string' ? path : path(ids)));
          await page.getByRole('heading').or(page.getByRole('dialog')).first().waitFor();
          await bring(page);
          await shown(page).waitFor();
          await accessible(page, `${name} on the ${size}`);
          isFresh = bring === asItIs || await left(page, shown);
        } catch (error) {
          faults.push(`${name}: ${error.message}`);
          isFresh = false;
        }
      }
    }
    if (faults.length > 0) throw new Error(faults.join('\n\n'));
    await person.clean();
    await person.context.close();
  });
}

test('a page without its daemon is accessible', async () => {
  const { browser, ids, world } = here;
  const person = await Person.at(browser, world.url);
  await person.signIn(await world.address());
  const page = await person.page(`/s/${ids.asks}`, { mayLose: true });
  await inCard(page).waitFor();
  world.network.cut({ stays: true });
  await page.getByText(/^▲ Offline/).waitFor();
  await accessible(page, 'a page without its daemon').finally(() => world.network.back());
  await person.context.close();
});
