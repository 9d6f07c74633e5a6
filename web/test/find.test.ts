import { describe, expect, test } from 'vitest';
import { MOST_HITS, NOTHING, placeOfHit, progressOf, withPage } from '../src/conversation/find';

const hit = (seq: number, more: object = {}) => ({
  seq, ts: '2026-11-29T12:00:00Z', turn: 1, who: 'agent' as const, tool: null, excerpt: { before: '', words: 'x', after: '' }, ...more,
});
const page = (items: ReturnType<typeof hit>[], from: number, next: string | null, more: object = {}) => ({ items, from_seq: from, head_seq: 1_000, next_cursor: next, ...more });

describe('the words of a search', () => {
  test('it says what it does before, during and after', () => {
    expect(progressOf(NOTHING, '')).toBe('The whole conversation is searched, loaded or not.');
    expect(progressOf(NOTHING, 'x')).toBe('Looking…');
    const some = withPage(NOTHING, page([hit(900)], 601, 'more'));
    expect(progressOf(some, 'x')).toBe('1 hit. Looking, 400 of 1,000');
    const all = withPage(some, page([], 1, null));
    expect(progressOf(all, 'x')).toBe('1 hit.');
    expect(all.hits.map(({ seq }) => seq)).toEqual([900]);
  });
  test('records that are missing are told once the search is over', () => {
    const found = withPage(withPage(NOTHING, page([], 500, 'more', { missing: [{ first_seq: 700, last_seq: 700, reason: 'lost' }] })), page([], 1, null, { missing: [{ first_seq: 1, last_seq: 9, reason: 'removed' }] }));
    expect(progressOf(found, 'x')).toBe('0 hits. 10 records are missing.');
  });
  test('more hits than anybody reads are left out', () => {
    const found = withPage(NOTHING, page(Array.from({ length: MOST_HITS + 1 }, (_, n) => hit(n + 1)), 400, 'more'));
    expect(found.hits.length).toBe(MOST_HITS);
    expect(progressOf(found, 'x')).toBe('The newest 500 hits.');
  });
});

test('a hit leads to its record, and one of a sub-agent to that', () => {
  expect(placeOfHit('s', hit(7))).toBe('/s/s/r/7');
  expect(placeOfHit('s', hit(7, { parent_tool_use_id: 'a/b' }))).toBe('/s/s/agent/a%2Fb');
});
