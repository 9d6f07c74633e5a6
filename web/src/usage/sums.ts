// Owns the sums of the usage page: which span of time is asked for, days that had nothing, and the file for a spreadsheet.
import { rest } from '../daemon/daemon';
import type { Usage } from '../daemon/types';

/** By which the sums are grouped, in the API's words. */
export type GroupBy = 'day' | 'model' | 'session' | 'cwd' | 'tag' | 'agent';

/** The viewer's time zone. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The day of an instant in a zone, as `YYYY-MM-DD`. */
export function dayOf(at: number, zone = ZONE): string {
  const parts = new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }).formatToParts(at);
  const part = (type: string) => parts.find((one) => one.type === type)?.value ?? '';
  return `${part('year')}-${part('month')}-${part('day')}`;
}

/** The last so many days up to that of `now`, oldest first. */
export function lastDays(count: number, now = Date.now(), zone = ZONE): string[] {
  // The calendar's days, whatever the length of each: a day of 23 or 25 hours is one day.
  const [year = 0, month = 1, day = 1] = dayOf(now, zone).split('-').map(Number);
  return Array.from({ length: count }, (_, i) => new Date(Date.UTC(year, month - 1, day - (count - 1 - i))).toISOString().slice(0, 10));
}

/** When a day begins in a zone. */
export function startOf(day: string, zone = ZONE): number {
  const utc = Date.parse(`${day}T00:00:00Z`);
  // The offset differs within 14 hours around; the first instant that is of the day is looked for in steps of a quarter of an hour.
  for (let at = utc - 14 * 3_600_000; at <= utc + 14 * 3_600_000; at += 900_000) if (dayOf(at, zone) === day) return at;
  return utc;
}

const empty = (key: string): Usage => ({
  key, cost_usd: 0, turns: 0, simulated_turns: 0, turns_with_unknown_cost: 0,
  usage: {
    input_tokens: 0, output_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0,
    cache_creation_5m_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0,
  },
});

/** One sum for each day, also for those of which the daemon says nothing. */
export function withEmptyDays(sums: Usage[], days: string[]): Usage[] {
  const byDay = new Map(sums.map((one) => [one.key, one]));
  return days.map((day) => byDay.get(day) ?? empty(day));
}

/** All tokens of a sum. */
export const tokensOf = ({ usage }: Usage): number =>
  usage.input_tokens + usage.output_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

/** The sum of sums. */
export function total(sums: Usage[]): Usage {
  return sums.reduce((all, one) => ({
    key: null,
    cost_usd: all.cost_usd + one.cost_usd,
    turns: all.turns + one.turns,
    simulated_turns: all.simulated_turns + one.simulated_turns,
    turns_with_unknown_cost: all.turns_with_unknown_cost + one.turns_with_unknown_cost,
    usage: {
      input_tokens: all.usage.input_tokens + one.usage.input_tokens,
      output_tokens: all.usage.output_tokens + one.usage.output_tokens,
      cache_read_input_tokens: all.usage.cache_read_input_tokens + one.usage.cache_read_input_tokens,
      cache_creation_input_tokens: all.usage.cache_creation_input_tokens + one.usage.cache_creation_input_tokens,
      cache_creation_5m_input_tokens: all.usage.cache_creation_5m_input_tokens + one.usage.cache_creation_5m_input_tokens,
      cache_creation_1h_input_tokens: all.usage.cache_creation_1h_input_tokens + one.usage.cache_creation_1h_input_tokens,
      web_search_requests: all.usage.web_search_requests + one.usage.web_search_requests,
    },
  }), empty(''));
}

const MOST_PAGES = 20;

/** Asks for the sums since an instant; pages are joined. */
export async function load(by: GroupBy, from: number): Promise<{ sums: Usage[]; isWhole: boolean }> {
  const sums: Usage[] = [];
  let cursor: string | null | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const query = {
      group_by: by, from: new Date(from).toISOString(), limit: 500, ...(by === 'day' ? { tz: ZONE } : {}), ...(cursor ? { cursor } : {}),
    };
    const answer = await rest.GET('/v1/usage', { params: { query } });
    sums.push(...answer.items);
    cursor = answer.next_cursor;
    if (!cursor) return { sums, isWhole: true };
  }
  return { sums, isWhole: false };
}

const COLUMNS = ['key', 'cost_usd', 'turns', 'turns_with_unknown_cost', 'simulated_turns', 'input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens',
  'cache_creation_5m_input_tokens', 'cache_creation_1h_input_tokens', 'web_search_requests'] as const;

/** A cell of a CSV file. One that a spreadsheet would take for a formula begins with an apostrophe. */
function cell(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The sums as CSV. */
export function csv(by: GroupBy, sums: Usage[]): string {
  const rows = sums.map((one) => COLUMNS.map((column) => {
    if (column === 'key') return cell(one.key ?? '');
    return cell(column in one.usage ? one.usage[column as keyof Usage['usage']] : one[column as 'turns']);
  }).join(','));
  return [[by, ...COLUMNS.slice(1)].join(','), ...rows, ''].join('\r\n');
}
