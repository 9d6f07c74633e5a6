import { render } from 'solid-js/web';
import { expect, test } from 'vitest';
import { Pictures } from '../src/conversation/cards/pictures';
import { pixelsOf } from '../src/conversation/cards/pixels';

const base64 = (...bytes: (number | string)[]): string =>
  btoa(bytes.map((one) => (typeof one === 'string' ? one : String.fromCharCode(one))).join(''));
const be32 = (n: number) => [n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255];
const be16 = (n: number) => [n >> 8, n & 255];
const le16 = (n: number) => [n & 255, n >> 8];
const le24 = (n: number) => [n & 255, (n >> 8) & 255, n >> 16];

const png = (width: number, height: number) => base64(0x89, 'PNG\r\n\x1a\n', ...be32(13), 'IHDR', ...be32(width), ...be32(height), 8, 6, 0, 0, 0);
const jpeg = (width: number, height: number, exif = 40_000) =>
  base64(0xff, 0xd8, 0xff, 0xe1, ...be16(exif), 'x'.repeat(exif - 2), 0xff, 0xc4, ...be16(4), 0, 0, 0xff, 0xc2, ...be16(17), 8, ...be16(height), ...be16(width), 3, 0, 0);
const riff = (kind: string, ...rest: number[]) => base64('RIFF', 0, 0, 0, 0, 'WEBP', kind, 0, 0, 0, 0, ...rest, 0, 0, 0);
const lossless = (4000 - 1) | ((3000 - 1) << 14);

test.each([
  ['PNG', png(4000, 3000), 12_000_000],
  ['a PNG of a size that no memory holds', png(100_000, 100_000), 10_000_000_000],
  ['JPEG behind a large part', jpeg(4000, 3000), 12_000_000],
  ['GIF', base64('GIF89a', ...le16(640), ...le16(480), 0), 307_200],
  ['WebP', riff('VP8X', 0, 0, 0, 0, ...le24(3999), ...le24(2999)), 12_000_000],
  ['WebP with loss', riff('VP8 ', 0, 0, 0, 0x9d, 0x01, 0x2a, ...le16(4000), ...le16(3000)), 12_000_000],
  ['WebP without loss', riff('VP8L', 0x2f, ...le16(lossless & 0xffff), ...le16(lossless >>> 16)), 12_000_000],
  ['bytes of another kind', base64('no picture, but words that are long enough'), null],
  ['a cut picture', png(4000, 3000).slice(0, 12), null],
  ['no base64', '!!!!', null],
  ['nothing', '', null],
])('the pixels of %s', (_, data, pixels) => {
  expect(pixelsOf(data)).toBe(pixels);
});

test('a picture over 8 megapixels is drawn on a press alone, and one with fewer at once, however many bytes it has', () => {
  const place = document.body.appendChild(document.createElement('div'));
  const large = png(4000, 2001);
  const heavy = `${png(4000, 2000).slice(0, 32)}${'A'.repeat(8_000_000)}`;
  const end = render(() => <Pictures pictures={[{ mediaType: 'image/png', base64: large }, { mediaType: 'image/png', base64: heavy }]} />, place);
  expect([...place.querySelectorAll('img')].map((image) => image.alt)).toEqual(['Picture 2']);
  const button = place.querySelector('button')!;
  expect(button.textContent).toContain('8.1 megapixels');
  button.click();
  expect([...place.querySelectorAll('img')].map((image) => image.alt)).toEqual(['Picture 1', 'Picture 2']);
  end();
});
