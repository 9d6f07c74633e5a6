import { render } from 'solid-js/web';
import type { JSX } from 'solid-js';
import { expect, test, vi } from 'vitest';

const { answers } = vi.hoisted(() => ({ answers: { refuses: true, value: {} as unknown } }));
vi.mock('@solidjs/router', () => ({ A: (props: { children: unknown }) => props.children, useNavigate: () => () => undefined }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined, send: () => true }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: (error as Error).message }),
  rest: { GET: () => (answers.refuses ? Promise.reject(new Error('It is busy.')) : Promise.resolve(answers.value)) },
}));

import { RawPanel } from '../src/conversation/raw-panel';
import { ConversationContext, type Conversation } from '../src/live/store';
import { Configuration } from '../src/settings/configuration';
import { Logins } from '../src/settings/logins';
import { McpServers } from '../src/side/mcp';
import { Limits } from '../src/usage/limits';

const settled = () => new Promise<void>((resolve) => { setTimeout(resolve); });
const at = new Date().toISOString();
const conversation = { id: 's1', folded: () => ({ lastSeq: 9 }) } as unknown as Conversation;

const cases: [string, () => JSX.Element, unknown, string][] = [
  ['the raw record', () => <ConversationContext.Provider value={conversation}><RawPanel seq={7} /></ConversationContext.Provider>, { seq: 7, src: 'daemon' }, '"src": "daemon"'],
  ['the limits of the account', () => <Limits />, { items: [{ session_id: 's1', kind: 'five_hour', status: 'allowed', utilization: 0.5, resets_at: null, info: {}, seq: 1, at }] }, '5 hours'],
  ['the MCP servers', () => <McpServers sessionId="s1" isRunning />, { response: { mcpServers: [{ name: 'files', status: 'connected' }] } }, 'files'],
  ['the logins', () => <Logins />, { items: [{ id: 'l1', name: 'Phone', role: 'operator', is_current: true, used_at: at, last_used_at: at, created_at: at, expires_at: at }] }, 'Phone'],
  ['the configuration', () => <Configuration />, { file: null, values: { 'http.listen': { value: ':7', origin: 'default' } }, variables: [] }, 'http.listen'],
];

test.each(cases)('%s that could not be read is asked for again on a press', async (_, part, value, words) => {
  answers.refuses = true;
  answers.value = value;
  const place = document.body.appendChild(document.createElement('div'));
  const end = render(part, place);
  await settled();
  expect(place.querySelector('.problem')!.textContent).toContain('It is busy.');
  answers.refuses = false;
  [...place.querySelectorAll('button')].find((button) => button.textContent === 'Try again')!.click();
  await settled();
  expect(place.querySelector('.problem')).toBeNull();
  expect(place.textContent).toContain(words);
  end();
  place.remove();
});
