import { expect, test } from 'vitest';
import fc from 'fast-check';
import type { SessionSummary } from '../src/daemon/types';
import { filterOf, matches, searchOf, NO_FILTER } from '../src/sessions/filter';
import { areSameLines, heldLines, linesOf } from '../src/sessions/lines';
import { isCounted, arrange, nextNeeding } from '../src/lobby/order';
import { shownAs } from '../src/lobby/state';
import { sayingOf, timeOf, titleOf } from '../src/lobby/words';

const at = (minute: number): string => new Date(Date.UTC(2026, 0, 1, 12, minute)).toISOString();

function session(id: string, more: Partial<SessionSummary> = {}): SessionSummary {
  return {
    id, labels: {}, cwd: '/home/me/shop', state: 'idle', unread: false, seen_seq: 1, is_silent: false, simulated: true, parent_deleted: false, turns: 1, cost_usd: 0,
    turns_with_unknown_cost: 0, pending_approvals: [], waiting_approvals: 0, queued_prompts: 0, head_seq: 9, created_at: at(0), updated_at: at(0), ...more,
  };
}
const needs = (id: string, rank: number, since: number, deadline?: number): SessionSummary =>
  session(id, { state: rank <= 2 ? 'waiting' : 'idle', attention: { reason: rank <= 2 ? 'decision' : rank === 3 ? 'failed' : 'silent', rank, since: at(since), deadline: deadline === undefined ? null : at(deadline) } });
const names = (all: SessionSummary[]) => arrange(all).map((group) => `${group.word}: ${group.projects.flatMap((one) => one.rows.map((row) => row.id)).join(' ')}`);

test('what needs a person comes by rank, by the soonest deadline, then by the longest wait', () => {
  const all = [needs('silent', 4, 0), needs('failed', 3, 1), needs('young', 2, 9), needs('old', 2, 3), needs('later', 1, 1, 30), needs('soon', 1, 5, 20)];
  expect(names(all)).toEqual(['Needs you: soon later old young failed silent']);
});

test('ties go by id, so that the list is the same on every page', () => {
  expect(names([needs('b', 2, 3), needs('a', 2, 3)])).toEqual(names([needs('a', 2, 3), needs('b', 2, 3)]));
});

test('a turn that nobody has seen is to read; a restart that is due is work; a failure that was left rests', () => {
  const restart = { attempt: 1, at: at(9), reason: { code: 'cli_exited', detail: 'it ended' } };
  const left = { how: 'left', rank: 3, reason: 'failed', since: at(0), deadline: null, until: null } as const;
  expect(names([
    session('ready'), session('read-me', { unread: true }), session('again', { state: 'failed', restart }), session('left', { state: 'failed', put_off: left }),
    session('parked', { state: 'parked' }), session('works', { state: 'busy', turn: { number: 1, first_seq: 1, started_at: at(3) } }),
  ])).toEqual(['To read: read-me', 'Working: works again', 'Ready: ready', 'At rest: left parked']);
});

test('a decision that is put off is muted: it stands behind the others, says what it asks, and stays counted', () => {
  const snoozed = { how: 'snoozed', rank: 2, reason: 'decision', since: at(1), deadline: null, until: at(60) } as const;
  const muted = session('muted', {
    state: 'waiting', turn: { number: 1, first_seq: 1, started_at: at(0) }, put_off: snoozed,
    pending_approvals: [{ id: 'x', kind: 'question', subject: 'AskUserQuestion', tool_name: null, agent_id: null, requested_at: at(1), deadline: null, seq: 3 } as never],
  });
  expect(names([muted, needs('asks', 2, 9), session('ready')])).toEqual(['Needs you: asks muted', 'Ready: ready']);
  expect(linesOf(arrange([muted, needs('asks', 2, 9)]), new Set())[0]).toMatchObject({ word: 'Needs you', size: 2, muted: 1 });
  expect(shownAs(muted)).toBe('needs');
  expect(sayingOf(muted, undefined, Date.parse(at(5))).words).toBe('Asks a question');
  expect(timeOf(muted, Date.parse(at(5)))).toBe('4 min');
  expect(nextNeeding([muted])).toBeUndefined();
  expect(areSameLines(linesOf(arrange([muted]), new Set()), linesOf(arrange([needs('muted', 2, 1)]), new Set()))).toBe(false);
});

test('the number of the heading is that of badge and title: what is silent is to be looked at, and counts no more than what is muted', () => {
  const all = [needs('asks', 2, 1), needs('failed', 3, 2), needs('silent', 4, 3)];
  expect(linesOf(arrange(all), new Set())[0]).toMatchObject({ size: 3, counted: 2, muted: 0 });
  expect(all.filter(isCounted).map(({ id }) => id)).toEqual(['asks', 'failed']);
  // A row that grows more urgent in its place changes the heading.
  expect(areSameLines(linesOf(arrange([needs('a', 4, 1)]), new Set()), linesOf(arrange([needs('a', 3, 1)]), new Set()))).toBe(false);
  const held = heldLines(linesOf(arrange([needs('a', 4, 1)]), new Set()), linesOf(arrange([needs('a', 3, 1)]), new Set()), () => true);
  expect(held.lines[0]).toMatchObject({ size: 1, counted: 1 });
  expect(linesOf(arrange([session('r')]), new Set())[0]).toMatchObject({ size: 1, counted: 1 });
});

test('rows of one directory stand together under its newest one, and alone it has no heading', () => {
  const all = [session('1', { updated_at: at(1) }), session('2', { cwd: '/other', updated_at: at(2) }), session('3', { updated_at: at(3) })];
  expect(linesOf(arrange(all), new Set()).map((line) => line.key)).toEqual(['group ready', 'project ready /home/me/shop', 'row 3', 'row 1', 'row 2']);
  expect(linesOf(arrange(all), new Set(['ready'])).map((line) => line.key)).toEqual(['group ready']);
});

test('nothing moves under the finger: rows stay, new ones wait, and what is gone is gone', () => {
  const before = linesOf(arrange([needs('a', 2, 1), needs('b', 2, 2), session('c')]), new Set());
  const wanted = linesOf(arrange([needs('new', 1, 3, 9), needs('b', 2, 2), needs('c', 2, 0)]), new Set());
  const held = heldLines(before, wanted, (id) => id !== 'a');
  expect(held.lines.map((line) => line.key)).toEqual(['group needs', 'row b', 'group ready', 'row c']);
  expect(held.moved).toBe(2);
  expect(heldLines(before, before, () => true).moved).toBe(0);
});

test('a held list never gets a row that it had not, whatever comes', () => {
  const some = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 4 })), { selector: ([id]) => id });
  const made = (all: [number, number][]) => linesOf(arrange(all.map(([id, rank]) => (rank === 0 ? session(String(id)) : needs(String(id), rank, id)))), new Set());
  fc.assert(fc.property(some, some, (before, after) => {
    const [was, wanted] = [made(before), made(after)];
    const is = new Set(after.map(([id]) => String(id)));
    const held = heldLines(was, wanted, (id) => is.has(id));
    const rows = held.lines.filter((line) => line.kind === 'row').map((line) => line.key);
    expect(rows).toEqual(was.filter((line) => line.kind === 'row' && is.has(line.id)).map((line) => line.key));
    expect(held.moved).toBeGreaterThanOrEqual(after.filter(([id]) => !before.some(([old]) => old === id)).length);
  }));
});

test('the key for the next need goes around, and begins with the most urgent', () => {
  const all = [needs('b', 2, 2), needs('a', 1, 1, 9), session('c')];
  expect([nextNeeding(all)?.id, nextNeeding(all, 'a')?.id, nextNeeding(all, 'b')?.id, nextNeeding([session('c')])]).toEqual(['a', 'b', 'a', undefined]);
});

test('a filter survives its address, and each word must be found', () => {
  const filter = { q: 'fix "login" ä', state: 'needs', project: '/home/me/a b', tag: 'x&y' } as const;
  expect(filterOf(searchOf(filter))).toEqual(filter);
  expect(searchOf(NO_FILTER)).toBe('');
  expect(filterOf('?state=nonsense').state).toBe('');
  const one = session('1', { title: 'Fix the login', tag: 'web', labels: { team: 'tools' } });
  expect(['login fix', 'SHOP', 'team=tools', 'logout'].map((q) => matches(one, { ...NO_FILTER, q }))).toEqual([true, true, true, false]);
  expect(matches(one, { ...NO_FILTER, tag: 'we' })).toBe(false);
});

test('a row says why it stands there, and how long', () => {
  const now = Date.parse(at(10));
  expect(titleOf(session('1', { title: ' ', first_prompt: 'Make\nthe tests  pass' }))).toBe('Make the tests pass');
  expect(titleOf(session('1'))).toBe('shop');
  const asks = needs('1', 1, 4, 12);
  expect(timeOf(asks, now)).toBe('2:00 left');
  expect(timeOf(needs('1', 2, 6), now)).toBe('4 min');
  expect(timeOf(session('1', { state: 'busy', turn: { number: 1, first_seq: 1, started_at: at(9) } }), now)).toBe('1:00');
  expect(sayingOf(session('1', { last_line: { kind: 'tool', tool: 'Bash', text: 'cargo  test', at: at(1), seq: 3 } }), undefined, now)).toEqual({ words: 'Run', code: 'cargo test' });
  expect(sayingOf(needs('1', 4, 0), undefined, now).words).toBe('Silent for 10 min');
});

test('the list is drawn anew when a line moves or a heading counts otherwise, and not for what a row says', () => {
  const lines = (...all: SessionSummary[]) => linesOf(arrange(all), new Set());
  const [a, b] = [session('a', { updated_at: at(1) }), session('b', { updated_at: at(2) })];
  expect(areSameLines(lines(a, b), lines(a, { ...b, cost_usd: 4 }))).toBe(true);
  expect(areSameLines(lines(a, b), lines({ ...a, updated_at: at(3) }, b))).toBe(false);
  expect(areSameLines(lines(a, b), lines(a, { ...b, unread: true }))).toBe(false);
  expect(areSameLines(lines(a, b), lines(a, b, session('c', { updated_at: at(0) })))).toBe(false);
});
