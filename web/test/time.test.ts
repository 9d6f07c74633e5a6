import { expect, test } from 'vitest';
import { bytes, clock, money, span } from '../src/parts/time';

test('durations, money and sizes are said in words', () => {
  expect([span(12_000), span(250_000), span(7_800_000), span(3 * 86_400_000)]).toEqual(['12 s', '4 min', '2:10 h', '3 d']);
  expect([clock(41_000), clock(725_000), clock(3_725_000)]).toEqual(['0:41', '12:05', '1:02:05']);
  expect([money(0), money(0.004), money(0.42), money(12.4)]).toEqual(['$0', '$0.004', '$0.42', '$12.40']);
  expect([bytes(812), bytes(64_000), bytes(12_000_000)]).toEqual(['812 B', '64 kB', '12 MB']);
});
