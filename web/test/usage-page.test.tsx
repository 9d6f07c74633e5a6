import { render } from 'solid-js/web';
import { expect, test, vi } from 'vitest';

vi.mock('@solidjs/router', async () => {
  const { createStore } = await import('solid-js/store');
  const [query, setQuery] = createStore<Record<string, string | undefined>>({ by: 'model' });
  return { useSearchParams: () => [query, (change: Record<string, string | null>) => { for (const [name, value] of Object.entries(change)) setQuery(name, value ?? undefined); }] };
});
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined }));
vi.mock('../src/daemon/daemon', () => {
  const usage = { input_tokens: 1, output_tokens: 1, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, cache_creation_5m_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0 };
  const one = (key: string | null, cost_usd: number) => ({ key, cost_usd, turns: 1, simulated_turns: 0, turns_with_unknown_cost: 0, usage });
  return {
    said: (error: unknown) => ({ text: String(error) }),
    rest: { GET: (path: string) => Promise.resolve({ items: path === '/v1/usage' ? [one('opus', 3), one('hai\u202eku', 1), one(null, 2)] : [], next_cursor: null }) },
  };
});

import UsagePage from '../src/usage/page';

test('a bar of any grouping narrows the sums and the table, and once more shows all', async () => {
  const host = document.body.appendChild(document.createElement('div'));
  render(() => <UsagePage />, host);
  await new Promise((resolve) => { setTimeout(resolve, 20); });
  const bars = () => [...host.querySelectorAll('.bar')];
  const rows = () => [...host.querySelectorAll('tbody th')].map((row) => row.textContent);
  const sum = () => host.querySelector('.usage-sum')!.textContent;
  expect(sum()).toBe('$6.00 · 3 turns · 6 tokens');
  // Names come from agents: nothing in them hides.
  expect(bars().map((bar) => bar.getAttribute('aria-label')!.includes('\u202e'))).toEqual([false, false, false]);
  bars()[0]!.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  expect([sum(), rows()]).toEqual(['$3.00 · 1 turn · 2 tokens', ['opus']]);
  bars()[1]!.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  expect([sum(), rows()]).toEqual(['$2.00 · 1 turn · 2 tokens', ['Unknown']]);
  bars()[1]!.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  expect(sum()).toBe('$6.00 · 3 turns · 6 tokens');
});
