import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const src = join(import.meta.dirname, '../src');

test('no place of the page breaks off what a screen reader says, and words that come have a place before them', () => {
  const sources = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tsx'));
  expect(sources.length).toBeGreaterThan(50);
  for (const name of sources) {
    const text = readFileSync(join(src, name), 'utf8');
    expect(text, name).not.toMatch(/role="alert"|aria-live="assertive"/);
    // A place that comes together with its words is not said.
    expect(text, name).not.toMatch(/<Show [^>]*>(?:\{\(\w*\) => )?<\w+[^>]* role="status"/);
  }
});
