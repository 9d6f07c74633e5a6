import { expect, test } from 'vitest';
import { companyWords } from '../src/live/company';
import type { AttachedClient } from '../src/daemon/types';

const client = (more: Partial<AttachedClient>): AttachedClient => ({ connection_id: crypto.randomUUID(), client_id: null, login: null, role: 'operator', ...more });

test('the others are named by their login, else by the name that they gave themselves, each once', () => {
  expect(companyWords([])).toBe('');
  expect(companyWords([client({ login: 'Chrome on Android', client_id: 'x' }), client({ client_id: 'editor' }), client({ client_id: 'editor' }), client({})]))
    .toBe('Chrome on Android; editor (2); a program');
});

test('a viewer is told apart from one that acts', () => {
  expect(companyWords([client({ login: 'Safari on iPhone', role: 'viewer' }), client({ login: 'Safari on iPhone' })]))
    .toBe('Safari on iPhone, which only watches; Safari on iPhone');
});
