import { render } from 'solid-js/web';
import { beforeEach, expect, test, vi } from 'vitest';

const { asked, answer, gone } = vi.hoisted(() => ({ asked: [] as { body: { prompt?: string }; key: string }[], answer: { make: () => Promise.resolve({ id: 's1' }) as Promise<{ id: string }> }, gone: [] as string[] }));
vi.mock('@solidjs/router', () => ({ useNavigate: () => (path: string) => { gone.push(path); } }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined }));
vi.mock('../src/daemon/role', () => ({ canAct: () => true }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error) }),
  rest: {
    GET: () => Promise.resolve({ items: [] }),
    POST: (_: string, { body, params }: { body: { prompt?: string }; params: { header: { 'Idempotency-Key': string } } }) => { asked.push({ body, key: params.header['Idempotency-Key'] }); return answer.make(); },
  },
}));

import { QuickStart } from '../src/sessions/quick-start';

const turn = () => new Promise((resolve) => { setTimeout(resolve); });

/** The form, as a person sees it who comes to the page. */
function form() {
  const host = document.body.appendChild(document.createElement('div'));
  const leave = render(() => <QuickStart />, host);
  const field = (selector: string) => host.querySelector<HTMLInputElement | HTMLTextAreaElement>(selector)!;
  const type = (selector: string, text: string) => { field(selector).value = text; field(selector).dispatchEvent(new Event('input', { bubbles: true })); };
  const send = () => field('textarea').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }));
  return { host, leave, field, type, send };
}

beforeEach(() => { localStorage.clear(); asked.length = 0; gone.length = 0; });

test('what is written into the short form is there again after a look elsewhere, until the session is made', async () => {
  const first = form();
  first.type('input', '/home/me/shop');
  first.type('textarea', 'Make the tests pass');
  first.leave();
  const again = form();
  expect([again.field('input').value, again.field('textarea').value]).toEqual(['/home/me/shop', 'Make the tests pass']);
  again.send();
  await turn();
  expect(gone).toEqual(['/s/s1']);
  again.leave();
  expect(form().field('textarea').value).toBe('');
});

test('a second press makes no second session, and one that was refused is asked for with the same key', async () => {
  const { host, type, send } = form();
  // The place of a problem is there before it, so that it is said.
  const told = [...host.querySelectorAll('[role="status"]')];
  type('input', '/home/me/shop');
  type('textarea', 'Go');
  answer.make = () => Promise.reject(new Error('refused'));
  send();
  send();
  await turn();
  expect(asked.map(({ body }) => body.prompt)).toEqual(['Go']);
  expect(told.map((one) => one.textContent).join()).toContain('refused');
  answer.make = () => Promise.resolve({ id: 's2' });
  send();
  await turn();
  expect(asked.length).toBe(2);
  expect(asked[0]!.key).toBe(asked[1]!.key);
  expect(gone).toEqual(['/s/s2']);
});
