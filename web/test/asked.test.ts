import { createRoot, createSignal } from 'solid-js';
import { expect, test } from 'vitest';
import { createAsked } from '../src/daemon/asked';

const settled = () => new Promise<void>((resolve) => { setTimeout(resolve); });

test('the newest question is answered, and a late answer to an older one is not shown', async () => {
  const answers = new Map<string, (value: string) => void>();
  const [question, setQuestion] = createSignal<string | undefined>('old');
  const { asked, dispose } = createRoot((end) => {
    const [answer] = createAsked(question, (of) => new Promise<string>((resolve) => { answers.set(of, resolve); }));
    return { asked: answer, dispose: end };
  });
  expect(asked.loading).toBe(true);
  setQuestion('new');
  answers.get('new')?.('of the new');
  await settled();
  answers.get('old')?.('of the old');
  await settled();
  expect([asked(), asked.loading]).toEqual(['of the new', false]);
  setQuestion(undefined);
  expect([asked(), asked.loading]).toEqual(['of the new', false]);
  dispose();
});

test('a refusal is told, the answer before it stays, and another try forgets it', async () => {
  let refuses = false;
  await createRoot(async (dispose) => {
    const [asked, { refetch }] = createAsked(async () => { if (refuses) throw new Error('no'); return 1; });
    await settled();
    expect(asked()).toBe(1);
    refuses = true;
    await refetch();
    expect([asked(), String(asked.error), asked.loading]).toEqual([1, 'Error: no', false]);
    refuses = false;
    await refetch();
    expect([asked(), asked.error]).toEqual([1, undefined]);
    dispose();
  });
});
