// Tests that each room of the page uses only rooms above it in the table of the README, and that the table names all of them.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';

const source = join(import.meta.dirname, '../src');
const table = readFileSync(join(source, '../README.md'), 'utf8').split('\n').filter((line) => line.startsWith('| `'));
const order = table.flatMap((line) => [...line.split('|')[1]!.matchAll(/`([a-z]+)`/g)].map((match) => match[1]!));

function files(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

test('the table names every room', () => {
  const rooms = readdirSync(source).filter((name) => statSync(join(source, name)).isDirectory());
  expect([...order].sort()).toEqual(rooms.sort());
});

test('no room uses one below it', () => {
  const wrong: string[] = [];
  for (const path of files(source).filter((name) => /\.tsx?$/.test(name))) {
    const room = relative(source, path).split('/')[0]!;
    if (!order.includes(room)) continue;  // main, app and templates stand above all rooms
    for (const [, named] of readFileSync(path, 'utf8').matchAll(/(?:from|import\(?)\s*'(\.{1,2}\/[^']+)'/g)) {
      const other = relative(source, normalize(join(dirname(path), named!))).split('/')[0]!;
      if (other !== room && order.includes(other) && order.indexOf(other) > order.indexOf(room)) wrong.push(`${relative(source, path)} uses ${other}`);
    }
  }
  expect(wrong).toEqual([]);
});
