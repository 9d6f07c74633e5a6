import { render } from 'solid-js/web';
import { expect, test, vi } from 'vitest';

const { items } = vi.hoisted(() => ({ items: [] as unknown[] }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true }));
vi.mock('../src/daemon/daemon', () => ({ said: (error: unknown) => ({ text: String(error) }), rest: { GET: () => Promise.resolve({ items: [...items], next_cursor: null }) } }));

import { Limits } from '../src/usage/limits';

async function shown(): Promise<HTMLElement> {
  const host = document.body.appendChild(document.createElement('div'));
  render(() => <Limits />, host);
  await new Promise((resolve) => { setTimeout(resolve); });
  return host;
}

test('the limits of the account are on the page of usage once a CLI has spoken of one', async () => {
  expect((await shown()).textContent).toBe('');
  const hour = 3_600_000;
  const at = new Date(Date.now() - hour).toISOString();
  const limit = { session_id: 's1', status: 'allowed', utilization: 0.25, resets_at: new Date(Date.now() + hour).toISOString(), info: {}, seq: 1, at };
  items.push({ ...limit, kind: 'seven_day' }, { ...limit, kind: 'five_hour', status: 'rejected', utilization: 1 }, { ...limit, kind: 'overage', resets_at: at });
  const host = await shown();
  const rows = [...host.querySelectorAll('li')].map((row) => row.textContent ?? '');
  expect(rows.map((row) => row.slice(0, 7))).toEqual(['5 hours', '7 days ', 'Extra u']);
  expect(rows[0]).toContain('Reached');
  expect(rows[0]).toContain('100 %');
  expect(rows[1]).toContain('25 %');
  expect(rows[2]).toContain('Began anew');
  expect([...host.querySelectorAll('li')].map((row) => row.className)).toEqual(['is-warned', '', '']);
  expect(host.querySelector('a')!.getAttribute('href')).toBe('/s/s1');
  expect(host.querySelector('meter')!.getAttribute('aria-label')).toBe('5 hours: used');
});
