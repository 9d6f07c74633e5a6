import { expect, test } from 'vitest';
import fc from 'fast-check';
import { bestOf, score } from '../src/parts/match';

const best = (query: string, ...texts: string[]) => bestOf(query, texts, (text) => text, 10);

test('the start of a word comes before its middle, and its middle before letters that are apart', () => {
  expect(best('log', 'catalogue', 'Fix login', 'a line of gold')).toEqual(['Fix login', 'catalogue', 'a line of gold']);
  expect(best('fl', 'Fix login', 'Shelf')).toEqual(['Fix login']);
  expect(best('login fix', 'Fix login', 'Login')).toEqual(['Fix login']);
});

test('what is not there is not found, and nothing asked for is everything, in its order', () => {
  expect(best('xyz', 'Fix login')).toEqual([]);
  expect(best('  ', 'b', 'a')).toEqual(['b', 'a']);
  expect(best('É', 'école', 'ecole')).toEqual(['école']);
});

test('any part of a text finds it', () => {
  fc.assert(fc.property(fc.string({ minLength: 1 }), fc.nat(), fc.nat(), (text, from, length) => {
    const at = from % text.length;
    const part = text.slice(at, at + 1 + (length % (text.length - at)));
    expect(score(part, text)).not.toBeNull();
  }));
});
