import { expect, test } from 'vitest';
import { parse, sum } from '../src/health/metrics';

test('metrics are read with their labels, and other lines are left out', () => {
  const samples = parse('# HELP x y\ntrunkline_clients 3\ntrunkline_sessions{state="idle",note="a \\"b\\" c"} 2\ntrunkline_sessions{state="busy"} 1\nnonsense\nx NaN\n');
  expect(samples).toHaveLength(3);
  expect(samples[1]?.labels).toEqual({ state: 'idle', note: 'a "b" c' });
  expect([sum(samples, 'trunkline_sessions'), sum(samples, 'trunkline_sessions', { state: 'busy' }), sum(samples, 'none')]).toEqual([3, 1, 0]);
});
