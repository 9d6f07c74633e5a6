import { expect, test } from 'vitest';
import { csv, dayOf, lastDays, startOf, total, withEmptyDays } from '../src/usage/sums';
import { bySize, isOld, nameOf, wordOf } from '../src/usage/limits-words';
import type { RateLimit, Usage } from '../src/daemon/types';

const sum = (key: string | null, cost_usd: number, turns = 1): Usage => ({
  key, cost_usd, turns, simulated_turns: 0, turns_with_unknown_cost: 0,
  usage: {
    input_tokens: 1, output_tokens: 2, cache_read_input_tokens: 3, cache_creation_input_tokens: 4,
    cache_creation_5m_input_tokens: 5, cache_creation_1h_input_tokens: 6, web_search_requests: 7,
  },
});

test('days are those of the zone, also where one has 23 or 25 hours', () => {
  const now = Date.parse('2026-03-30T10:00:00Z');
  expect(lastDays(3, now, 'Europe/Berlin')).toEqual(['2026-03-28', '2026-03-29', '2026-03-30']);
  expect(new Date(startOf('2026-03-29', 'Europe/Berlin')).toISOString()).toBe('2026-03-28T23:00:00.000Z');
  expect(new Date(startOf('2026-03-30', 'Europe/Berlin')).toISOString()).toBe('2026-03-29T22:00:00.000Z');
  expect(new Date(startOf('2026-11-02', 'America/New_York')).toISOString()).toBe('2026-11-02T05:00:00.000Z');
  expect(new Date(startOf('2026-06-01', 'Pacific/Kiritimati')).toISOString()).toBe('2026-05-31T10:00:00.000Z');
  expect(new Date(startOf('2026-06-01', 'Asia/Kathmandu')).toISOString()).toBe('2026-05-31T18:15:00.000Z');
  expect(dayOf(Date.parse('2026-06-01T01:00:00Z'), 'America/New_York')).toBe('2026-05-31');
});

test('a day without a turn has a sum of nothing, and sums add up', () => {
  const days = withEmptyDays([sum('2026-06-02', 0.5)], ['2026-06-01', '2026-06-02']);
  expect(days.map((one) => [one.key, one.cost_usd])).toEqual([['2026-06-01', 0], ['2026-06-02', 0.5]]);
  expect(total([sum('a', 0.25, 2), sum('b', 0.5, 3)])).toMatchObject({ cost_usd: 0.75, turns: 5, usage: { output_tokens: 4 } });
});

test('a name in the file for a spreadsheet is neither a formula nor a second column', () => {
  const lines = csv('tag', [sum('=HYPERLINK("x")', 1), sum('a,b', 0.25), sum(null, 0)]).split('\r\n');
  expect(lines[0]).toBe('tag,cost_usd,turns,turns_with_unknown_cost,simulated_turns,input_tokens,output_tokens,cache_read_input_tokens,cache_creation_input_tokens,cache_creation_5m_input_tokens,cache_creation_1h_input_tokens,web_search_requests');
  expect(lines[1]).toBe('"\'=HYPERLINK(""x"")",1,1,0,0,1,2,3,4,5,6,7');
  expect(lines[2]).toBe('"a,b",0.25,1,0,0,1,2,3,4,5,6,7');
  expect(lines[3]).toBe(',0,1,0,0,1,2,3,4,5,6,7');
});

const limit = (kind: string | null, utilization: number | null, status = 'allowed', resets_at: string | null = null): RateLimit => ({
  session_id: 's', kind, status, utilization, resets_at, info: {}, seq: 1, at: '2026-06-01T10:00:00Z',
});

test('limits have names that people know, the fullest first, and one that began anew since is old', () => {
  expect([limit('five_hour', 0), limit('seven_day_opus', 0), limit('one_day_new', 0), limit(null, 0)].map(nameOf)).toEqual(['5 hours', '7 days, Opus', 'one day new', 'Limit']);
  expect([limit('a', 0.5), limit('b', null, 'rejected'), limit('c', 0.9), limit('d', null)].sort(bySize).map((one) => one.kind)).toEqual(['b', 'c', 'a', 'd']);
  expect([limit('a', 0, 'rejected'), limit('a', 0, 'allowed_warning'), limit('a', 0), limit('a', 0, 'slowed')].map(wordOf)).toEqual(['Reached', 'Near', 'Free', 'slowed']);
  const now = Date.parse('2026-06-01T12:00:00Z');
  expect([limit('a', 1, 'rejected', '2026-06-01T11:00:00Z'), limit('a', 1, 'rejected', '2026-06-01T13:00:00Z'), limit('a', 1)].map((one) => isOld(one, now))).toEqual([true, false, false]);
});
