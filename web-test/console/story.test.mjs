// Owns the first story of a new user: create, prompt, watch it stream, allow a command, answer a question, edit a plan, see a
// diff, fork, see the cost. It is told with the real CLI and the simulated agent, at the desk, on a phone, and by keys alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person, pictured } from './browser.mjs';
import { stage } from './stage.mjs';
import { World, scripted, until } from './world.mjs';

const here = stage({ hasWorld: false });

const PLAN = '1. Read the file\n2. Change it';
const QUESTIONS = [{ question: 'Which database?', header: 'Database', multiSelect: false, options: [{ label: 'SQLite', description: 'one file' }, { label: 'Postgres', description: 'a server' }] }];

/** The words of each step: the real CLI is told what to do by a script, the simulated agent by a word. */
const PROMPTS = {
  simulated: { first: 'Please use a tool', question: 'Ask me a question', plan: 'Make a plan' },
  real: {
    first: scripted('Please say hello', [
      { text: 'I run a command. ', pace: { chunk_ms: 30 }, tool: 'Bash', input: { command: 'echo hello > made.txt', description: 'Writes a file' } },
      { text: 'The file is made.' },
    ]),
    question: scripted('Ask me', [{ tool: 'AskUserQuestion', input: { questions: QUESTIONS } }, { text: 'Noted.' }]),
    plan: scripted('Plan it', [{ tool: 'ExitPlanMode', input: { plan: PLAN } }, { text: 'The plan is done.' }]),
    change: scripted('Change it', [
      { tool: 'Read', input: { file_path: 'WORK/made.txt' } },
      { tool: 'Edit', input: { file_path: 'WORK/made.txt', old_string: 'hello', new_string: 'goodbye' } },
      { text: 'Changed.' },
    ]),
  },
};

/** The hands of a person: by pointer and touch, or by keys alone. */
class Hands {
  constructor(page, { keys = false } = {}) {
    this.page = page;
    this.keys = keys;
  }

  /** Presses a button; by keys the key of the same work, or Tab to it and Enter. */
  async press(target, key) {
    await target.waitFor();
    if (!this.keys) return target.click();
    if (key !== undefined) return this.page.keyboard.press(key);
    await target.focus();
    return this.page.keyboard.press('Enter');
  }

  /** Decides, once the card takes it: keys and taps are dead until it was in view for a while. */
  async decide(button, key) {
    const { page } = this;
    await button.waitFor();
    if (this.keys) await page.evaluate(() => document.activeElement?.blur?.());
    await until('the decision is taken', async () => {
      if (!(await button.isVisible())) return true;
      if (this.keys) await page.keyboard.press(key); else await button.click({ timeout: 2_000 }).catch(() => undefined);
      await page.waitForTimeout(500);
      return !(await button.isVisible());
    });
  }

  /** Chooses the first answer of each question, and sends them, until `isDone`. Each key waits as long as a card is dead. */
  async answer(card, isDone) {
    const { page } = this;
    const choices = card.getByRole('radio').or(card.getByRole('checkbox'));
    if (this.keys) await page.evaluate(() => document.activeElement?.blur?.());
    await until('the answers are sent', async () => {
      await page.waitForTimeout(600);
      if (await isDone() || !(await choices.first().isVisible().catch(() => false))) return isDone();
      const chosen = await choices.evaluateAll((all) => all.some((one) => one.checked)).catch(() => false);
      if (!chosen) {
        if (this.keys) await page.keyboard.press('1'); else await choices.first().check({ force: true, timeout: 2_000 }).catch(() => undefined);
      } else if (this.keys) {
        await page.keyboard.press('Control+Enter');
      } else {
        await card.getByRole('button', { name: /^(Next|Send)/ }).click({ timeout: 2_000 }).catch(() => undefined);
      }
      return isDone();
    });
  }

  /** Says something to the agent. */
  async say(text) {
    const { page } = this;
    const box = page.getByRole('textbox', { name: 'Message' });
    if (this.keys) {
      await page.evaluate(() => document.activeElement?.blur?.());
      await page.keyboard.press('i');
      await page.keyboard.insertText(text);
      await page.keyboard.press('Control+Enter');
    } else {
      await box.fill(text);
      await page.getByRole('button', { name: 'Send', exact: true }).click();
    }
    await until('the box is empty', async () => (await box.inputValue()) === '');
  }
}

/** Tells the story. */
async function tell(agent, size, keys) {
  const { browser } = here;
  const world = await World.start({ agent });
  try {
    const words = Object.fromEntries(Object.entries(PROMPTS[agent]).map(([name, text]) => [name, text.replaceAll('WORK', world.work)]));
    const person = await Person.at(browser, world.url, { size });
    const page = await person.signIn(await world.address());
    const hands = new Hands(page, { keys });

    // A new session.
    if (keys) await page.keyboard.press('c'); else await page.goto(`${world.url}/new`);
    const dialog = page.getByRole('dialog', { name: 'New session' });
    await dialog.getByLabel('Where').fill(world.work);
    await dialog.getByLabel('What should it do?').fill(words.first);
    if (keys) await page.keyboard.press('Control+Enter'); else await dialog.getByRole('button', { name: 'Start' }).click();
    await page.waitForURL(/\/s\/[0-9a-f-]{36}/);
    const id = /\/s\/([0-9a-f-]{36})/.exec(page.url())[1];
    const transcript = page.getByRole('feed', { name: 'Transcript' });

    // A command that asks.
    const dock = page.getByRole('region', { name: /Run a command/ });
    await dock.getByText(agent === 'real' ? 'echo hello > made.txt' : 'echo', { exact: false }).first().waitFor();
    await hands.decide(dock.getByRole('button', { name: /^(Allow once|Run it)/ }), 'a');
    await until('the turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 1);
    if (agent === 'real') await transcript.getByText('The file is made.', { exact: true }).waitFor();
    else await transcript.getByText('Done', { exact: false }).first().waitFor();

    // A question.
    await hands.say(words.question);
    const question = page.getByRole('region', { name: agent === 'real' ? 'Which database?' : /\?$/ }).first();
    await hands.answer(question, async () => (await world.ask(`/v1/sessions/${id}`)).turns === 2);

    // A plan.
    if (agent === 'real') await world.ask(`/v1/sessions/${id}/permission_mode`, { method: 'PUT', body: { mode: 'plan' } });
    await hands.say(words.plan);
    const plan = page.getByRole('region', { name: /plan/i }).filter({ has: page.getByRole('button', { name: 'Start' }) });
    await hands.decide(plan.getByRole('button', { name: 'Start' }), 'a');
    await until('the third turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 3);

    // A change, seen before it is made.
    if (agent === 'real') {
      await world.ask(`/v1/sessions/${id}/permission_mode`, { method: 'PUT', body: { mode: 'default' } });
      await hands.say(words.change);
      const change = page.getByRole('region', { name: /Change .*made\.txt/ });
      await change.getByText('goodbye').waitFor();
      await hands.decide(change.getByRole('button', { name: /^Allow once/ }), 'a');
      await until('the fourth turn ends', async () => (await world.ask(`/v1/sessions/${id}`)).turns === 4);
    }

    // A fork.
    if (keys) {
      await page.evaluate(() => document.activeElement?.blur?.());
      await page.keyboard.press('F');
    } else {
      await page.getByRole('button', { name: 'More for this conversation' }).click();
      await page.getByRole('menuitem', { name: /^Fork/ }).click();
    }
    await page.waitForURL((url) => /\/s\/[0-9a-f-]{36}/.test(url.pathname) && !url.pathname.includes(id));
    const { items } = await world.ask('/v1/sessions');
    assert.deepEqual(items.map((one) => one.parent_id).filter(Boolean), [id]);

    // The cost. The sums follow the end of a turn; the page asks for them once.
    if (agent === 'real') {
      await until('the sums have the turns', async () => (await world.ask('/v1/usage')).items.reduce((all, one) => all + one.turns, 0) === 4);
    }
    if (keys) {
      await page.evaluate(() => document.activeElement?.blur?.());
      await page.keyboard.press('g');
      await page.keyboard.press('u');
    } else {
      await page.goto(`${world.url}/usage`);
    }
    await page.getByText(agent === 'real' ? /\$\d.* · 4 turns/ : /of the simulated agent/).waitFor();
    await person.clean();
    await person.context.close();
  } catch (error) {
    throw await pictured(error, browser);
  } finally {
    await world.end();
  }
}

for (const agent of ['simulated', 'real']) {
  for (const [how, size, keys] of [['at the desk', 'desk', false], ['on a phone', 'phone', false], ['by keys alone', 'desk', true]]) {
    test(`a new user's first story ${how}, with the ${agent === 'real' ? 'real CLI' : 'simulated agent'}`, { timeout: 240_000 }, () => tell(agent, size, keys));
  }
}
