import { TrunklineError } from 'trunkline-client';
import { render } from 'solid-js/web';
import { beforeEach, expect, test, vi } from 'vitest';

const { asked, who, ready } = vi.hoisted(() => ({ asked: [] as string[], who: { acts: true }, ready: { answer: (): Promise<unknown> => Promise.resolve({}) } }));
vi.mock('@solidjs/router', () => ({ A: (props: { children: unknown }) => props.children }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined }));
vi.mock('../src/daemon/role', () => ({ canAct: () => who.acts, mayAsk: () => who.acts, isMine: () => false }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error) }),
  rest: {
    GET: (path: string) => {
      asked.push(path);
      if (path === '/readyz') return ready.answer();
      if (path === '/metrics') return Promise.resolve('trunkline_processes{state="idle"} 3\n');
      return Promise.resolve({ values: { 'limits.live_processes': { value: 128 } }, items: [] });
    },
  },
}));

import HealthPage from '../src/health/page';
import { TaskOutput } from '../src/side/tasks';

const READINESS = { version: '1.0.0', build: 'b', started_at: new Date().toISOString(), cli: null, problems: [], ready: true, live_sessions: 3, store_writable: true, unknown_sessions: [], unreadable_sessions: [], warm: [] };

async function shown(draw: () => unknown): Promise<string> {
  const host = document.body.appendChild(document.createElement('div'));
  const end = render(draw as () => Element, host);
  await new Promise((resolve) => { setTimeout(resolve); });
  const text = host.textContent ?? '';
  end();
  return text;
}

beforeEach(() => { asked.length = 0; who.acts = true; ready.answer = () => Promise.resolve(READINESS); });

test('a daemon that cannot work says on the page of its health why, with all its figures', async () => {
  const readiness = { ...READINESS, ready: false, problems: ['The database takes no writes.'], unreadable_sessions: ['s-damaged'] };
  ready.answer = () => Promise.reject(new TrunklineError({ type: 'x', title: 'Not ready', status: 503, code: 'not_ready', readiness } as never));
  const text = await shown(() => <HealthPage />);
  for (const words of ['The database takes no writes.', 's-damaged', '3 of 128']) expect(text).toContain(words);
  expect(text).not.toContain('could not be read');
});

test('who only watches is not refused for what the page asks by itself', async () => {
  who.acts = false;
  const text = await shown(() => <HealthPage />);
  expect(text).toContain('Processes3');
  expect(text).not.toContain('Doctor');
  expect(await shown(() => <TaskOutput sessionId="s" taskId="t" isOver={false} name="it" />)).toBe('This login only watches. It does not see the output of tasks.');
  expect(asked).toEqual(['/readyz', '/metrics']);
});
