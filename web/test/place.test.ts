import { expect, test } from 'vitest';
import { placeOf } from '../src/conversation/place';

test('an address names the conversation, a record of it, an agent or a task', () => {
  expect(placeOf(undefined)).toEqual({ kind: 'all' });
  expect(placeOf('r/12')).toEqual({ kind: 'record', seq: 12, isRaw: false });
  expect(placeOf('r/12/raw')).toEqual({ kind: 'record', seq: 12, isRaw: true });
  expect(placeOf('agent/toolu_1%2F2')).toEqual({ kind: 'agent', callId: 'toolu_1/2' });
  expect(placeOf('agent/100%')).toEqual({ kind: 'agent', callId: '100%' });
  expect(placeOf('task/b%201')).toEqual({ kind: 'task', taskId: 'b 1' });
  for (const rest of ['r/0', 'r/x', 'r/12/more', 'agent/', 'agent/a/b', 'task/', 'task/a/b', 'nonsense', '%']) expect(placeOf(rest)).toEqual({ kind: 'all' });
});
