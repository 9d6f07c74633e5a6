import { createRoot, createSignal } from 'solid-js';
import { render } from 'solid-js/web';
import { expect, test, vi } from 'vitest';

const { asked, login } = vi.hoisted(() => ({ asked: [] as string[], login: { mayAsk: () => false, canAct: () => false } }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined, send: () => true }));
vi.mock('../src/daemon/role', () => ({ mayAsk: () => login.mayAsk(), canAct: () => login.canAct() }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error) }),
  rest: { GET: (path: string) => { asked.push(path); return Promise.resolve({ response: { percentage: 61, totalTokens: 61, maxTokens: 100 } }); } },
}));

import { ContextGauge } from '../src/conversation/context-gauge';
import type { Session } from '../src/daemon/types';
import type { Conversation } from '../src/live/store';
import { Context } from '../src/side/context';

const settled = () => new Promise<void>((resolve) => { setTimeout(resolve); });
const session = { id: 's1', state: 'idle', turns: 1, model: 'm', simulated: false } as unknown as Session;

function shown(): { place: HTMLElement; end: () => void } {
  const place = document.body.appendChild(document.createElement('div'));
  const end = render(() => <><ContextGauge session={session} open={() => undefined} /><Context conversation={{ id: 's1', session: () => session } as unknown as Conversation} /></>, place);
  return { place, end };
}

test('a login that only looks does not ask how full the context is, and is told so; another asks once its role is known', async () => {
  const viewer = shown();
  await settled();
  expect(asked).toEqual([]);
  expect(viewer.place.textContent).toBe('A login that only looks is not told of it.');
  viewer.end();
  const [mayAsk, setMayAsk] = createRoot(() => createSignal(false));
  Object.assign(login, { mayAsk, canAct: () => true });
  const operator = shown();
  await settled();
  expect(asked).toEqual([]);
  setMayAsk(true);
  await settled();
  expect(asked).toHaveLength(2);
  expect(operator.place.querySelector('button')!.textContent).toBe('61 %');
  operator.end();
});
