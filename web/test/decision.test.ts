import { expect, test, vi } from 'vitest';
import { chosenFirst, inScope, isWide, updateWords, updatesFor } from '../src/decision/always';
import { contentOf, fieldsOf, problemOf } from '../src/decision/form';
import { learnRole } from '../src/daemon/role';
import { cardKindOf, endOf, isPersons, lineOf, questionOf } from '../src/lobby/request';
import { askedOf } from '../src/lobby/words';
import type { Approval } from '../src/daemon/types';

const CWD = '/home/ada/shop';
const tool = (name: string, input: object, more: object = {}) => ({ kind: 'tool', tool_name: name, subject: name, request: { input }, suggestions: null, requires_user_interaction: false, ...more }) as unknown as Approval;

test('a card asks in words', () => {
  const asked = (approval: Approval) => [cardKindOf(approval), questionOf(approval, CWD)];
  expect(asked(tool('Bash', { command: 'ls' }))).toEqual(['command', 'Run a command?']);
  expect(asked(tool('Edit', { file_path: `${CWD}/src/auth.rs` }))).toEqual(['change', 'Change src/auth.rs?']);
  expect(asked(tool('Write', { file_path: '/etc/x', content: '' }))).toEqual(['make', 'Make /etc/x?']);
  expect(asked(tool('WebFetch', { url: 'https://docs.rs/axum' }))).toEqual(['tool', 'Fetch a page from docs.rs?']);
  expect(asked(tool('mcp__tickets__create', {}))).toEqual(['tool', 'Use tickets: create?']);
  expect(asked(tool('mcp__evil__wipe_all', { command: 'ls' }))).toEqual(['tool', 'Use evil: wipe_all?']);
  expect(lineOf(tool('mcp__evil__wipe_all', { command: 'ls' }), CWD)).toEqual({ word: 'Use', text: 'evil: wipe_all' });
  expect(askedOf('tool', 'mcp__evil__wipe_all', tool('mcp__evil__wipe_all', { command: 'ls' }))).toEqual({ words: 'Use evil: wipe_all', code: '' });
  expect(asked(tool('Bash', { command: 'ls' }, { kind: 'deferred' }))).toEqual(['command', 'Run a command?']);
  expect(lineOf(tool('Bash', { command: 'cargo test' }), CWD)).toEqual({ word: 'Run', text: 'cargo test' });
});

test('always allow says what it means, and what is too wide', () => {
  const rule = (toolName: string, ruleContent?: string) => ({ type: 'addRules', rules: [{ toolName, ...(ruleContent === undefined ? {} : { ruleContent }) }] });
  expect(updateWords(rule('Bash', 'npm test *'))).toEqual({ words: '`npm test` and anything after it', rule: 'Bash(npm test *)' });
  expect(updateWords(rule('Bash', 'npm test:*')).words).toBe('`npm test` and anything after it');
  expect(updateWords(rule('WebFetch', 'domain:docs.rs')).words).toBe('every page of docs.rs');
  expect(updateWords(rule('Read', '//home/ada/x/**')).words).toBe('reading /home/ada/x and all below it');
  expect(updateWords({ type: 'setMode', mode: 'acceptEdits' }).words).toBe('changes of files in its directory, without asking');
  expect([isWide(rule('Bash')), isWide(rule('Bash', '*')), isWide(rule('Bash', 'sudo *')), isWide(rule('Bash', 'npm test *')), isWide(rule('mcp__a__b'))]).toEqual([true, true, true, false, false]);
});

test('of what the agent suggests, a mode or a directory is only offered', () => {
  const [rule, directory, mode] = [{ type: 'addRules' }, { type: 'addDirectories' }, { type: 'setMode' }];
  expect([chosenFirst([rule, directory, mode]), chosenFirst([mode])]).toEqual([[true, false, false], [true]]);
});

test('where the agent suggests nothing, the very command can be allowed, and no line of several', () => {
  expect(updatesFor(tool('Bash', { command: 'make check' })).map(updateWords)).toEqual([{ words: '`make check`, exactly', rule: 'Bash(make check)' }]);
  expect(updatesFor(tool('Bash', { command: 'make && rm -rf x' }))).toEqual([]);
  expect(updatesFor(tool('AskUserQuestion', {}, { kind: 'question' }))).toEqual([]);
  expect(inScope([{ type: 'addRules', destination: 'localSettings' }, { type: 'setMode', destination: 'session' }], 'userSettings').map((one) => one.destination)).toEqual(['userSettings', 'session']);
});

test('a form checks while one types, and sends what was filled in', () => {
  const fields = fieldsOf({
    type: 'object', required: ['name', 'count'],
    properties: {
      count: { type: 'integer', minimum: 1, maximum: 5 }, name: { type: 'string', title: 'Your name', minLength: 2 }, mail: { type: 'string', format: 'email' },
      size: { type: 'string', enum: ['S', 'M'], enumNames: ['Small', 'Medium'] }, ok: { type: 'boolean', default: true },
      tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, minItems: 1 },
    },
  }, ['name', 'count']);
  expect(fields.map((field) => [field.name, field.kind, field.isRequired])).toEqual([
    ['name', 'text', true], ['count', 'integer', true], ['mail', 'text', false], ['size', 'choice', false], ['ok', 'yes-no', false], ['tags', 'choices', false]]);
  const problem = (name: string, value: string | string[]) => problemOf(fields.find((field) => field.name === name)!, value);
  expect([problem('name', ''), problem('name', 'A'), problem('name', 'Ada')]).toEqual(['This is needed.', 'At least 2 characters; these are 1.', null]);
  expect([problem('count', 'x'), problem('count', '1.5'), problem('count', '9'), problem('count', '3')]).toEqual(['This must be a number.', 'This must be a whole number.', 'At most 5.', null]);
  expect([problem('mail', 'a'), problem('mail', 'a@b.c'), problem('mail', ''), problem('size', 'XL')]).toEqual(['This must be an email address.', null, null, 'Choose one.']);
  const given: Record<string, string> = { name: 'Ada', count: '3', mail: '', size: 'S' };
  expect(contentOf(fields, (field) => given[field.name] ?? field.fallback)).toEqual({ name: 'Ada', count: 3, size: 'S', ok: true });
});

test('a pattern that is made to hold up its reader is not read', () => {
  const [field] = fieldsOf({ properties: { name: { type: 'string', pattern: '^(a+)+$' } } }, null);
  const started = performance.now();
  expect(problemOf(field!, `${'a'.repeat(40)}!`)).toBeNull();
  expect(performance.now() - started).toBeLessThan(1_000);
});

test('an end says which browser decided, and you where it is this one', async () => {
  const ended = (by: string) => endOf({ state: 'allowed', resolution: { by } } as unknown as Approval);
  dispatchEvent(new StorageEvent('storage', { key: 'trunkline.login', newValue: 'the key' }));
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ role: 'operator', author: 'login:Firefox on the desk' })));
  await learnRole();
  vi.unstubAllGlobals();
  expect(['login:Firefox on the desk', 'login:Chrome: 2', `login:${crypto.randomUUID()}`, 'rest', `ws:${crypto.randomUUID()}`].map(ended)).toEqual([
    'Allowed by you', 'Allowed by Chrome: 2', 'Allowed by somebody', 'Allowed by somebody', 'Allowed by somebody']);
  expect([null, 'login:x', 'rest', 'ws:a', 'restore', 'rule:login:'].map(isPersons)).toEqual([false, true, true, true, false, false]);
});

test('an end says who decided', () => {
  const ended = (state: string, by: string) => endOf({ state, resolution: { by } } as unknown as Approval);
  expect([ended('allowed', 'ws:phone'), ended('denied', 'rule:no-env'), ended('denied', 'expiry:push'), ended('withdrawn', 'cli')]).toEqual([
    'Allowed by phone', 'Denied by the rule no-env', 'Denied by the time limit of the rule push', 'It no longer waits for this.']);
});
