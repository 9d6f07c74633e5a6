import { afterEach, expect, test, vi } from 'vitest';
import { shareOf, stepsLeftOut } from '../src/live/saver';
import { choose } from '../src/parts/choices';

afterEach(() => {
  vi.unstubAllGlobals();
  choose({ saver: false });
});

test('steps of agents are left out for a person or a browser that saves data, and the page says for which', () => {
  expect(stepsLeftOut()).toBeUndefined();
  choose({ saver: true });
  expect(stepsLeftOut()).toContain('in the settings');
  choose({ saver: false });
  vi.stubGlobal('navigator', { connection: { saveData: true } });
  expect(stepsLeftOut()).toContain('The browser');
});

test('the daemon is asked to leave out the lines of agents only where data is saved', () => {
  expect(shareOf(true).without?.split(',')).toContain('cli.subagents');
  expect(shareOf(false).without).toBeUndefined();
});
