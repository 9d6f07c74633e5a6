import { render } from 'solid-js/web';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';

const { sent, who } = vi.hoisted(() => ({ sent: [] as unknown[], who: { acts: true } }));
vi.mock('../src/daemon/link', () => ({ isLive: () => true, ride: () => () => undefined }));
vi.mock('../src/daemon/role', () => ({ canAct: () => who.acts }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error), code: 'x', mayHaveHadEffect: false }),
  rest: { POST: (_: string, { body }: { body: unknown }) => { sent.push(body); return new Promise(() => undefined); }, GET: () => new Promise(() => undefined) },
}));

import type { Approval } from '../src/daemon/types';
import PlanCard from '../src/decision/plan-card';
import { ToolCard } from '../src/decision/tool-card';

/** All that is watched is in view. */
class InView {
  constructor(private readonly tell: (entries: { target: Element; isIntersecting: boolean }[]) => void) {}
  observe(target: Element): void { this.tell([{ target, isIntersecting: true }]); }
  disconnect(): void { /* nothing is held */ }
}

const rm = { command: 'rm -rf build', description: 'Clean up' };
let end: () => void;
let host: HTMLElement;
const button = (word: string) => [...host.querySelectorAll('button')].find((one) => one.textContent === word);
/** A press of the mouse on a button, as the second one of a double click is. */
const press = (word: string) => button(word)!.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 }));
const wait = (ms: number) => vi.advanceTimersByTime(ms);

function card(input: object, tool = 'Bash'): void {
  const approval = {
    id: 'a', session_id: 's', kind: 'tool', tool_name: tool, subject: tool, request: { input }, suggestions: null, requires_user_interaction: false, deadline: null,
    requested_at: '2026-01-01T00:00:00Z', description: null, url: null, questions: null,
  } as unknown as Approval;
  host = document.createElement('div');
  document.body.append(host);
  end = render(() => <ToolCard approval={approval} cwd="/work" onDecided={() => undefined} />, host);
}

beforeEach(() => {
  sent.length = 0;
  who.acts = true;
  wait(10_000);
});
beforeAll(() => { vi.useFakeTimers(); vi.stubGlobal('IntersectionObserver', InView); });
afterAll(() => { vi.useRealTimers(); vi.unstubAllGlobals(); });
afterEach(() => { end(); host.remove(); });

test('a double click on Allow once runs no marked command', () => {
  card(rm);
  wait(500);
  press('Allow once');
  wait(150);
  press('Run it');
  expect(sent).toEqual([]);
  wait(400);
  press('Run it');
  expect(sent).toEqual([{ decision: 'allow' }]);
});

test('a double click on Deny… and on Done decides nothing, and the Enter of the same moment neither', () => {
  card({ command: 'ls' });
  wait(500);
  press('Deny…');
  wait(150);
  press('Deny');
  host.querySelector('textarea')!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  press('Back');
  press('▸ Edit first');
  wait(1_000);
  press('Done');
  wait(150);
  press('Allow once');
  expect(sent).toEqual([]);
  wait(400);
  press('Deny…');
  wait(400);
  host.querySelector('textarea')!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  expect(sent).toEqual([{ decision: 'deny' }]);
});

test('a press that brings the window back decides nothing', () => {
  card({ command: 'ls' });
  wait(500);
  dispatchEvent(new Event('focus'));
  press('Allow once');
  expect(sent).toEqual([]);
  wait(500);
  press('Allow once');
  expect(sent).toEqual([{ decision: 'allow' }]);
});

test('always allow of a marked command asks once more', () => {
  card(rm);
  wait(500);
  press('▸ Always allow…');
  wait(500);
  press('Always allow');
  expect(sent).toEqual([]);
  wait(500);
  press('Run it, and never ask again');
  expect(sent).toEqual([{ decision: 'allow', updated_permissions: [{ type: 'addRules', behavior: 'allow', destination: 'session', rules: [{ toolName: 'Bash', ruleContent: 'rm -rf build' }] }] }]);
});

test('a changed command is not allowed for good, and "Put back" ends the second question', () => {
  card(rm);
  wait(500);
  press('▸ Edit first');
  const field = host.querySelector('textarea')!;
  field.value = 'rm -rf /work/dist';
  field.dispatchEvent(new InputEvent('input', { bubbles: true }));
  press('Done');
  expect(button('▸ Always allow…')).toBeUndefined();
  wait(500);
  press('Allow once');
  expect(button('Run it')).toBeDefined();
  press('Put back');
  expect(button('Run it')).toBeUndefined();
  expect(button('▸ Always allow…')).toBeDefined();
});

test('who only watches sees no way to change or to allow for good', () => {
  who.acts = false;
  card({ command: 'ls' });
  expect([...host.querySelectorAll('button')].map((one) => one.textContent)).toEqual(['Deny…', 'Allow once']);
});

test('a card names its tool and shows every argument', () => {
  card({ command: 'ls', description: 'harmless', target: '/etc' }, 'mcp__evil__wipe_all');
  expect(host.querySelector('h2')!.textContent).toBe('Use evil: wipe_all?');
  for (const words of ['mcp__evil__wipe_all', 'command', 'ls', 'harmless', '/etc']) expect(host.textContent).toContain(words);
  expect(host.textContent).not.toContain('In /work');
  end();
  host.remove();
  card({ ...rm, timeout: 5_000 });
  for (const words of ['Tool Bash', 'It says: Clean up', 'timeout5000', 'In /work']) expect(host.textContent).toContain(words);
  end();
  host.remove();
  card({ notebook_path: '/work/a.ipynb', cell_id: 'c7', edit_mode: 'delete', new_source: '' }, 'NotebookEdit');
  for (const words of ['Change a.ipynb?', 'cell_idc7', 'edit_modedelete', 'Tool NotebookEdit']) expect(host.textContent).toContain(words);
});

test('a plan that starts without its remarks says so, and names the modes as the rest of the page does', () => {
  localStorage.setItem('trunkline.answer.p', JSON.stringify({ at: Date.now(), state: { remarks: { '1. One': 'Not so.' } } }));
  const approval = { id: 'p', session_id: 's', kind: 'plan', plan: '1. One', request: { input: {} }, deadline: null, requested_at: '2026-01-01T00:00:00Z' } as unknown as Approval;
  host = document.createElement('div');
  document.body.append(host);
  end = render(() => <PlanCard approval={approval} cwd="/work" onDecided={() => undefined} />, host);
  expect(button('Start without 1 remark')).toBeDefined();
  expect([...host.querySelectorAll('option')].map((one) => one.textContent)).toEqual(['the mode before the plan', 'Ask first', 'Accept edits', 'Decide by itself']);
});
