import { expect, test, vi } from 'vitest';

const { posts, answers } = vi.hoisted(() => ({ posts: [] as unknown[], answers: [] as (() => void)[] }));
vi.mock('../src/daemon/daemon', () => ({
  said: (error: unknown) => ({ text: String(error), code: 'x', mayHaveHadEffect: false }),
  rest: { POST: (_: string, asked: object) => { posts.push(asked); return new Promise((resolve) => { answers.push(() => resolve({ id: 'copy' })); }); } },
}));
vi.mock('../src/lobby/lobby', () => ({ lobby: { byId: { a: { id: 'a', title: 'Fix login', cwd: '/work' } } } }));

import { fork, isDoing } from '../src/lobby/acts';
import { modesFor } from '../src/parts/mode-words';
import { besides, toastLog, type Toast } from '../src/parts/toasts';

test('two presses on Fork make one copy, with a name, and the page says that it is being made', async () => {
  const both = [fork('a'), fork('a')];
  expect(posts).toEqual([{ params: { path: { id: 'a' } }, body: { title: 'Fork of Fix login' } }]);
  expect([isDoing('fork', 'a'), isDoing('fork', 'b'), isDoing('stop', 'a')]).toEqual([true, false, false]);
  expect(toastLog()[0]?.text).toBe('Making a copy of “Fix login”…');
  answers[0]?.();
  expect((await Promise.all(both)).map((one) => one?.id)).toEqual(['copy', 'copy']);
  expect(isDoing('fork', 'a')).toBe(false);
  void fork('a');
  expect(posts).toHaveLength(2);
});

test('a message with something to do about it is pushed away by none', () => {
  const made = (id: number, act?: string): Toast => ({ id, text: String(id), at: 0, isProblem: false, ...(act === undefined ? {} : { act: { word: act, run: () => undefined } }) });
  let all: Toast[] = [];
  for (const one of [made(1, 'Undo'), made(2, 'Undo'), made(3, 'Undo'), made(4, 'Undo'), made(5), made(6), made(7), made(8)]) all = [...besides(all), one];
  expect(all.map(({ id }) => id)).toEqual([1, 2, 3, 4, 6, 7, 8]);
});

test('a mode that allows all is offered where the session takes it', () => {
  const words = (session: object, takesAuto?: boolean) => modesFor(session, takesAuto).map(({ mode }) => mode);
  expect(words({})).toEqual(['default', 'plan', 'acceptEdits', 'auto', 'dontAsk']);
  expect(words({ options: { allow_dangerously_skip_permissions: true } }, false)).toEqual(['default', 'plan', 'acceptEdits', 'dontAsk', 'bypassPermissions']);
  expect(words({ permission_mode: 'bypassPermissions' })).toContain('bypassPermissions');
});
