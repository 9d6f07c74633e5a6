import { expect, test } from 'vitest';
import { byName } from '../src/shell/keys-sheet';

test('places of one name are one in the sheet, whose keys stay in order', () => {
  const key = (word: string) => ({ keys: word, word, run: () => undefined });
  const found = byName([
    { name: 'Conversation', bindings: [key('r'), key('F')] }, { name: 'Prompt box', bindings: [key('Ctrl Enter')] }, { name: 'Layer', bindings: [] },
    { name: 'Conversation', bindings: [key('\\')] },
  ]);
  expect(found.map(({ name, bindings }) => [name, bindings.map((one) => one.word)])).toEqual([['Conversation', ['r', 'F', '\\']], ['Prompt box', ['Ctrl Enter']]]);
});
