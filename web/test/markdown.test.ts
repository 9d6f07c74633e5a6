import fc from 'fast-check';
import { expect, test } from 'vitest';
import { partsOf } from '../src/fold/parts';
import { bombAt } from '../src/text/bombs';
import { chunkNodes, openNodes } from '../src/text/nodes';
import { Splitter } from '../src/text/splitter';

/** The page's markup of a text that came in these pieces. */
function drawn(pieces: string[]): string {
  const splitter = new Splitter();
  for (const piece of pieces) { splitter.push(piece); splitter.flush(); splitter.open(); }
  splitter.end();
  const host = document.createElement('div');
  host.append(...splitter.chunks.flatMap(chunkNodes));
  return host.innerHTML;
}

const page = (text: string): HTMLElement => {
  const host = document.createElement('div');
  const splitter = new Splitter();
  splitter.push(text);
  splitter.end();
  host.append(...splitter.chunks.flatMap(chunkNodes));
  return host;
};

const LINES = ['# Title', 'text and *more* `code`', '', '- one', '- two', '  - deeper', '  more', '1. first', '2. second', '```rust', 'fn main() {}', '```', '~~~', '> quote',
  '> more', '| a | b |', '|---|---|', '| 1 | 2 |', '---', '===', '    indented', '<div>', '</div>', '[x]: https://example.org', 'see [x]', '[ ] task', '- [x] done', '***', 'a  ',
  '<!-- c', '-->', '\tx', '1) par', '+ plus', '![i](data:image/svg+xml;base64,AA)', '[j](javascript:alert(1))', '   ```', '`````', '  1. x', '> > > deep', '- - - - x',
  '- '.repeat(20), ' '.repeat(50) + 'x', '*'.repeat(30), '&amp; &#60;'];

test('any slicing into deltas gives the page of the whole', () => {
  fc.assert(fc.property(
    fc.array(fc.constantFrom(...LINES), { minLength: 1, maxLength: 24 }), fc.array(fc.nat(400), { maxLength: 14 }), fc.constantFrom('\n', '\r\n'),
    (lines, cuts, end) => {
      const text = lines.join(end);
      const at = [...new Set([0, ...cuts.filter((cut) => cut < text.length), text.length])].sort((a, b) => a - b);
      const pieces = at.slice(1).map((to, i) => text.slice(at[i], to));
      expect(drawn(pieces)).toBe(drawn([text]));
    },
  ), { numRuns: 150, examples: [[['-->', '+ plus', '# Title', ' '.repeat(50) + 'x', '# Title'], [11], '\n']] });
}, 60_000);

test('what is closed is never touched again, and the open part is small', () => {
  const splitter = new Splitter();
  for (const word of 'First paragraph.\n\nSecond one.\n\nThird'.split(/(?= )/)) { splitter.push(word); splitter.flush(); }
  const [first] = splitter.chunks;
  expect(splitter.chunks.map((chunk) => chunk.raw)).toEqual(['First paragraph.', 'Second one.']);
  splitter.push(' is longer.\n\nEnd');
  splitter.flush();
  expect(splitter.chunks[0]).toBe(first);
  expect(splitter.chunks.map((chunk) => chunk.raw)).toEqual(['First paragraph.', 'Second one.', 'Third is longer.']);
  expect(splitter.openLength).toBeLessThan(24);
});

test('links lead out with their host in sight, and nothing else leads anywhere', () => {
  const links = [...page('[docs](https://docs.rs/a) <https://x.org/> [bad](javascript:alert(1)) [data](data:text/html,x) [file](src/a.rs) [tab](java\tscript:x) [ent](&#106;avascript:x)').querySelectorAll('a')];
  expect(links.map((link) => [link.getAttribute('href'), link.rel, link.target])).toEqual([
    ['https://docs.rs/a', 'noopener noreferrer nofollow', '_blank'], ['https://x.org/', 'noopener noreferrer nofollow', '_blank']]);
  expect(page('[docs.rs](https://evil.example/a)').textContent).toBe('docs.rs (evil.example)');
  expect(page('see [the file](src/a.rs)').textContent).toBe('see the file (src/a.rs)');
});

test('markup is text, and an image is only what the record holds', () => {
  const host = page('<img src=x onerror=alert(1)> <b>b</b>\n\n<script>alert(1)</script>\n\n<svg onload=alert(1)>\n\n![a](https://x.org/a.png) ![s](data:image/svg+xml;base64,PHN2Zz4=) ![p](data:image/png;base64,iVBORw0KGgo=)');
  expect([...host.querySelectorAll('img')].map((image) => image.alt)).toEqual(['p']);
  expect(host.querySelector('script, svg, b, iframe')).toBeNull();
  expect(host.textContent).toContain('<script>alert(1)</script>');
});

test('tasks, nested lists, tables and code are what they look like', () => {
  const host = page('- [x] done\n- [ ] open\n  1. deep\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```rust\nfn x() {}\n```\n\n7. seven\n8. eight');
  expect([...host.querySelectorAll('[role=img]')].map((mark) => mark.getAttribute('aria-label'))).toEqual(['done', 'open']);
  expect(host.querySelector('ul ol li')?.textContent).toBe('deep');
  expect(host.querySelector('td.is-right')?.textContent).toBe('2');
  expect(host.querySelector('pre code')?.textContent).toBe('fn x() {}');
  expect(host.querySelector('ol[start="7"]')?.textContent).toBe('seveneight');
});

test('a link that is explained at the end is one in the end', () => {
  expect(page('See [the book][b].\n\nMore.\n\n[b]: https://doc.rust-lang.org/book/').querySelector('a')?.href).toBe('https://doc.rust-lang.org/book/');
});

test('long tables and lists come in parts', () => {
  const host = page(`| n |\n|---|\n${Array.from({ length: 1000 }, (_, i) => `| ${i} |`).join('\n')}`);
  expect(host.querySelectorAll('tbody tr').length).toBe(200);
  host.querySelector('button')?.click();
  expect(host.querySelectorAll('tbody tr').length).toBe(400);
  const splitter = new Splitter();
  splitter.push(Array.from({ length: 50 }, (_, i) => `${i + 1}. item`).join('\n'));
  splitter.end();
  expect(splitter.chunks.map((chunk) => chunk.raw.split('\n').filter(Boolean).length)).toEqual([20, 20, 10]);
  expect(page('1. a\n'.repeat(50)).querySelectorAll('ol[start="21"]').length).toBe(1);
});

/** Milliseconds of the processor that the tests of this file took so far, whatever else the machine does. */
const worked = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };

test('bombs are plain text, at once', () => {
  const bombs = ['>'.repeat(20_000), '- '.repeat(2_000) + 'x', Array.from({ length: 2_000 }, (_, i) => `${'  '.repeat(i)}- x`).join('\n'), '['.repeat(50_000), '*a '.repeat(30_000),
    '`'.repeat(20_000), '![['.repeat(20_000), '<'.repeat(50_000), '_a_'.repeat(20_000), `|${'a|'.repeat(5_000)}\n|${'-|'.repeat(5_000)}\n|${'b|'.repeat(5_000)}`, 'x'.repeat(5_000_000), '\\'.repeat(50_000), '[a](b '.repeat(20_000), '&'.repeat(100_000), '~~a'.repeat(15_000),
    `${'> '.repeat(16)}x\n`.repeat(500), `|${'h|'.repeat(2_000)}\n|${'-|'.repeat(2_000)}\n${`|${'c|'.repeat(2_000)}\n`.repeat(50)}`, `${'*'.repeat(390)}a\n`.repeat(2_000), 'a@'.repeat(9_900), `${'*a*_b_'.repeat(60)}\n`.repeat(400), '[a]: b\n'.repeat(60_000)];
  for (const bomb of bombs) {
    const started = worked();
    const splitter = new Splitter();
    splitter.push(bomb);
    splitter.flush();
    const open = splitter.open();
    if (open !== null) openNodes(open);
    splitter.end();
    const nodes = splitter.chunks.flatMap(chunkNodes);
    expect(nodes.length, bomb.slice(0, 10)).toBeGreaterThan(0);
    expect(worked() - started, bomb.slice(0, 10)).toBeLessThan(1_500);
  }
}, 30_000);

test('a list, a quote and a table that people write are no bombs', () => {
  for (const text of ['> - > - one', `${Array.from({ length: 12 }, (_, i) => `${'  '.repeat(i)}- x`).join('\n')}`, '* * * * * * * * *', `|${'h|'.repeat(10)}\n|${'-|'.repeat(10)}\n${`|${'c|'.repeat(10)}\n`.repeat(1_000)}`]) {
    expect(bombAt(text)).toBe(-1);
    expect(page(text).querySelector('.plain-block')).toBeNull();
  }
  expect(bombAt(`fine\n${'> '.repeat(17)}x`)).toBe(5);
  expect(bombAt(`${' '.repeat(41)}x`)).toBe(0);
  const long = '*a* '.repeat(4_000);
  expect(page(long).textContent?.trim() === long.trim()).toBe(true);
});

test('a text of very many lines is cut in one pass', () => {
  const started = worked();
  expect(partsOf(Array.from({ length: 2_000 }, (_, i) => `${'  '.repeat(i)}- x`).join('\n'))).toHaveLength(1);
  expect(worked() - started).toBeLessThan(1_500);
});
