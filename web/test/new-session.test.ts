import { expect, test } from 'vitest';
import { EMPTY, fieldOf, requestOf } from '../src/sessions/new-draft';

test('a directory alone is enough, and what is left out is not sent', () => {
  const made = requestOf({ ...EMPTY, cwd: ' /home/me/shop ' });
  expect(made).toMatchObject({ request: { cwd: '/home/me/shop', options: { include_partial_messages: true } } });
  expect(Object.keys('request' in made ? made.request : {})).toEqual(['cwd', 'options']);
});

test('everything of the form is in the request', () => {
  const servers = [{ name: 'tickets', json: '{"command": "tickets"}' }, { name: '', json: '' }];
  expect(requestOf({ ...EMPTY, cwd: '/w', prompt: 'Go', model: 'opus', mode: 'plan', effort: 'high', title: 'T', tag: 'x', labels: 'team=tools\n a = b=c ', allowed: 'Read\n\nBash(git *)', disallowed: 'WebFetch', budget: '2.5', servers })).toMatchObject({
    request: {
      prompt: 'Go', title: 'T', tag: 'x', labels: { team: 'tools', a: 'b=c' },
      options: { model: 'opus', permission_mode: 'plan', effort: 'high', allowed_tools: ['Read', 'Bash(git *)'], disallowed_tools: ['WebFetch'], max_budget_usd: 2.5, mcp_servers: { tickets: { command: 'tickets' } } },
    },
  });
});

test('each problem stands at its field, and nothing is sent', () => {
  const made = requestOf({ ...EMPTY, from: 'resume', cwd: 'shop', budget: '-1', labels: 'nonsense', servers: [{ name: 'x', json: '[1]' }] });
  expect(Object.keys('problems' in made ? made.problems : {}).sort()).toEqual(['budget', 'conversation', 'cwd', 'labels', 'servers']);
});

test('the daemon\'s name of a field leads to the field of the form', () => {
  expect(['cwd', 'options.max_budget_usd', 'options.mcp_servers.x.command', 'options.allowed_tools[0]', 'options.hooks', null].map(fieldOf))
    .toEqual(['cwd', 'budget', 'servers', 'allowed', 'form', 'form']);
});
