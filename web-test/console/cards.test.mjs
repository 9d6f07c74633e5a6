// Owns that whatever the CLI says besides its answers has its words in the conversation: recalled memories, summaries, hooks, limits,
// searches, tools and forms of MCP servers, a silence that has a reason, the next message that it proposes, and agents in agents.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Person, accessible } from './browser.mjs';
import { calls, says } from './hostile-output.mjs';
import { stage } from './stage.mjs';
import { until } from './world.mjs';

const here = stage({
  agent: 'fake',
  async set(all) {
    const { browser, world } = all;
    all.person = await Person.at(browser, world.url);
    all.page = await all.person.signIn(await world.address());
    all.feed = all.page.getByRole('feed', { name: 'Transcript' });
    all.session = (id) => world.ask(`/v1/sessions/${id}`);
    all.open = async (id) => { await all.page.goto(`${world.url}/s/${id}`); await all.feed.waitFor(); };
  },
});

const line = (type, more) => ({ line: { type, session_id: '$SESSION_ID', uuid: '$UUID', ...more } });
const system = (subtype, more) => line('system', { subtype, ...more });

test('what the CLI says besides its answers stands in words, and opens', async () => {
  const { feed, open, page, session, world } = here;
  const pages = [{ title: 'axum - Rust', url: 'https://docs.rs/axum' }, { title: 'A trick', url: 'javascript:planted=1' }];
  const [search, found] = calls('WebSearch', { query: 'axum extractors' }, 'Links: [{"title":"axum - Rust"}]');
  found.line.tool_use_result = { query: 'axum extractors', results: [{ tool_use_id: 's', content: pages }, 'Axum has them.'], durationSeconds: 2 };
  const id = await world.play('besides', [
    system('memory_recall', { mode: 'select', memories: [{ path: 'tests.md', scope: 'personal', content: 'Tests run with nextest.' }, { path: 'style.md', scope: 'team' }] }),
    says('I look.'), search, found, ...calls('mcp__tickets__create', { title: 'Login fails', priority: 'high' }, [{ type: 'text', text: 'Ticket 7' }]),
    ...calls('mcp__tickets__close', { id: 7 }, 'MCP error: no such ticket', { is_error: true }),
    line('tool_use_summary', { summary: 'Looked for extractors', preceding_tool_use_ids: [] }),
    system('hook_response', { hook_id: 'h', hook_name: 'Stop', hook_event: 'Stop', output: 'it broke', stdout: '', stderr: 'it broke', exit_code: 2, outcome: 'error' }),
    line('rate_limit_event', { rate_limit_info: { status: 'allowed_warning', rateLimitType: 'five_hour', utilization: 0.91 } }),
    system('compact_boundary', { compact_metadata: { trigger: 'auto', pre_tokens: 150_000, post_tokens: 12_000 } }),
    { line: { type: 'user', message: { role: 'user', content: 'What came before: much.' }, isSynthetic: true, parent_tool_use_id: null, session_id: '$SESSION_ID', uuid: '$UUID' } },
    system('informational', { level: 'warning', content: `A hook was too late. ${'It is left out. '.repeat(20)}The end.` }),
    says('All is done.'), { result: {} }, system('post_turn_summary', { summary: 'All was looked at\nand more' }), line('prompt_suggestion', { suggestion: 'Now run \u202ethe tests' }),
  ]);
  await until('the turn ends', async () => (await session(id)).turns === 1);
  await open(id);
  const work = feed.getByRole('button', { name: /3 steps/ });
  if (await work.getAttribute('aria-expanded') === 'false') await work.click();
  const opens = async (words, inside) => {
    const button = feed.getByRole('button', { name: words }).first();
    if (await button.getAttribute('aria-expanded') === 'false') await button.click();
    await feed.getByText(inside).first().waitFor();
  };
  await opens('Recalled 2 memories', 'Tests run with nextest.');
  await opens(/Search the web axum extractors.*2 pages/, 'axum - Rust');
  assert.deepEqual(await feed.getByRole('link', { name: /axum - Rust|A trick/ }).evaluateAll((all) => all.map((one) => one.href)), ['https://docs.rs/axum']);
  await opens(/tickets · create Login fails/, 'Ticket 7');
  await opens(/tickets · close.*failed/, 'MCP error: no such ticket');
  await feed.getByText('Looked for extractors').waitFor();
  await opens('Hook Stop: error, exit 2', 'it broke');
  await opens('The limit of the account is near: 91 % of it is used', '"five_hour"');
  await feed.getByText('Compacted by itself: 150,000 to 12,000 tokens').waitFor();
  await opens('Summary of what came before', 'What came before: much.');
  await opens('All was looked at', 'and more');
  const whole = await feed.getByText(/^A hook was too late/).evaluate((one) => one.scrollWidth <= one.clientWidth + 1 || getComputedStyle(one).display === 'inline');
  assert.ok(whole, 'a note is cut, and nothing opens it');
  await accessible(page, 'a conversation with all its cards open');
  const next = page.getByRole('button', { name: /^Next: Now run U\+202E/ });
  await next.click();
  assert.equal(await page.getByRole('textbox', { name: 'Message' }).inputValue(), 'Now run \u202ethe tests');
  await next.waitFor({ state: 'detached' });
});

test('a silence has a reason', async () => {
  const { open, page, world } = here;
  const id = await world.play('silence', [
    system('api_retry', { attempt: 2, max_retries: 10, retry_delay_ms: 500, error_status: 529, error: 'overloaded' }), { wait_file: 'answers' }, says('Here I am.'),
    system('status', { status: 'compacting' }), { wait_file: 'compacted' }, system('status', { status: null, compact_result: 'success' }), { wait_file: 'never' },
  ]);
  await open(id);
  await page.getByText('The API is asked again, try 2 of 10: overloaded, 529').waitFor();
  world.touch('silence', 'answers');
  await page.getByText('The conversation is being compacted').waitFor();
  assert.equal(await page.getByText('The API is asked again').count(), 0);
  world.touch('silence', 'compacted');
  await page.getByText('The conversation is being compacted').waitFor({ state: 'detached' });
});

test('the form of an MCP server says what is missing, and sends what was filled in', async () => {
  const { open, page, session, world } = here;
  const schema = { type: 'object', required: ['name', 'level'], properties: { name: { type: 'string', title: 'Name' }, level: { type: 'string', enum: ['low', 'high'] }, count: { type: 'integer', minimum: 1, maximum: 5 }, sure: { type: 'boolean', title: 'Sure?' } } };
  const id = await world.play('form', [{ request: { subtype: 'elicitation', mcp_server_name: 'tickets', display_name: 'Tickets', message: 'Which **ticket**?', mode: 'form', requested_schema: schema } }]);
  await open(id);
  const card = page.getByRole('region', { name: 'Tickets asks' });
  await card.getByLabel('count').fill('9');
  await until('it says what is missing', async () => {
    await card.getByRole('button', { name: /^Send/ }).click({ timeout: 1_000 }).catch(() => undefined);
    return card.getByText('3 fields need you.').isVisible();
  });
  await accessible(page, 'a form with faults');
  await card.getByLabel('Name').fill('Login');
  await card.getByLabel('level').selectOption('high');
  await card.getByLabel('count').fill('2');
  await card.getByLabel('Sure?').check();
  await until('it is sent', async () => {
    await card.getByRole('button', { name: /^Send/ }).click({ timeout: 1_000 }).catch(() => undefined);
    return (await session(id)).pending_approvals.length === 0;
  });
  const answer = (await world.journal(id)).find(({ data }) => data?.type === 'fake_answer');
  assert.deepEqual(answer.data.response.response, { action: 'accept', content: { name: 'Login', level: 'high', count: 2, sure: true } });
});

test('an agent three deep that asks is seen within 300 ms in the list, the badge, the title and the dock, and in each agent above it', async () => {
  const { feed, open, page, person, session, world } = here;
  const use = (name, input, id, parent) => ({ line: { type: 'assistant', message: { id: `m_${id}`, type: 'message', role: 'assistant', model: 'fake', content: [{ type: 'tool_use', id, name, input }], usage: {} }, parent_tool_use_id: parent, session_id: '$SESSION_ID', uuid: '$UUID' } });
  const agent = (id, task, parent, tokens) => [
    use('Agent', { description: task, prompt: task, subagent_type: 'explore' }, id, parent),
    system('task_started', { task_id: `task_${id}`, tool_use_id: id, description: task, subagent_type: 'explore', is_backgrounded: false, task_type: 'local_agent' }),
    system('task_progress', { task_id: `task_${id}`, tool_use_id: id, description: task, subagent_type: 'explore', usage: { total_tokens: tokens, tool_uses: 1, duration_ms: 5_000 } }),
  ];
  const id = await world.play('deep', [
    ...agent('one', 'Find the tests', null, 1_200), ...agent('two', 'Read the fixtures', 'one', 800), ...agent('three', 'Clean up', 'two', 300), use('Bash', { command: 'rm old.txt' }, 'run', 'three'),
    { wait_file: 'ask' }, { request: { subtype: 'can_use_tool', tool_name: 'Bash', input: { command: 'rm old.txt' }, tool_use_id: 'run', agent_id: 'task_three' } }, { wait_file: 'never' },
  ], { title: 'Three deep' });
  await open(id);
  await feed.getByRole('button', { name: /Agent · explore Find the tests.*1 step · 1,200 tokens/ }).waitFor();
  // When each of the four says it, after the request came over the socket.
  await page.evaluate(() => {
    globalThis.seen = {};
    const places = {
      list: () => document.querySelector('.session-row.is-needing')?.innerText.includes('Three deep'), badge: () => document.querySelector('.badge') !== null,
      title: () => document.title.startsWith('('), dock: () => document.querySelector('.decision')?.innerText.includes('Run a command?'),
    };
    const look = () => { for (const [name, isThere] of Object.entries(places)) if (isThere()) globalThis.seen[name] ??= Date.now(); };
    new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
  });
  world.touch('deep', 'ask');
  await until('all four say it', () => page.evaluate(() => Object.keys(globalThis.seen).length === 4));
  const [{ requested_at: asked }] = (await session(id)).pending_approvals;
  const late = Object.entries(await page.evaluate(() => globalThis.seen)).map(([name, at]) => [name, at - Date.parse(asked)]);
  // A machine with other work is slower; the least of the four shows that the way itself is short.
  assert.ok(Math.min(...late.map(([, ms]) => ms)) <= 300 && late.every(([, ms]) => ms <= 1_000), JSON.stringify(late));
  await feed.getByText('needs you: $ rm old.txt').waitFor();
  await page.goto(`${world.url}/s/${id}/agent/three`);
  await page.getByRole('navigation', { name: 'Where you are' }).getByRole('link', { name: '‹ Read the fixtures' }).click();
  await page.waitForURL('**/agent/two');
  await page.getByRole('navigation', { name: 'Where you are' }).getByText('1 step · 800 tokens').waitFor();
  await accessible(page, 'the page of an agent');
  await person.clean();
});
