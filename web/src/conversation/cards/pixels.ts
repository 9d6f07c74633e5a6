// Owns how many pixels a picture has, as its first bytes say: a picture that is too large is not drawn to find it out.

/** Only so many parts of a JPEG are looked through for its size. */
const MOST_PARTS = 200;

/** The pixels of a picture; `null`: its bytes do not tell. */
export function pixelsOf(base64: string): number | null {
  const at = (index: number): number => {
    const group = Math.floor(index / 3) * 4;
    return atob(base64.slice(group, group + 4)).charCodeAt(index % 3);
  };
  const big = (index: number): number => at(index) * 256 + at(index + 1);
  const little = (index: number): number => at(index) + at(index + 1) * 256;
  const word = (index: number): string => String.fromCharCode(at(index), at(index + 1), at(index + 2), at(index + 3));
  let pixels: number | null = null;
  try {
    if (word(1).startsWith('PNG')) pixels = (big(16) * 65_536 + big(18)) * (big(20) * 65_536 + big(22));
    else if (word(0) === 'GIF8') pixels = little(6) * little(8);
    else if (word(0) === 'RIFF' && word(8) === 'WEBP') pixels = webp(word(12), at, little);
    else if (big(0) === 0xff_d8) pixels = jpeg(at, big);
  } catch {
    return null;
  }
  return pixels === null || Number.isNaN(pixels) ? null : pixels;
}

function webp(kind: string, at: (index: number) => number, little: (index: number) => number): number | null {
  switch (kind) {
    case 'VP8X': return (little(24) + at(26) * 65_536 + 1) * (little(27) + at(29) * 65_536 + 1);
    case 'VP8 ': return (little(26) & 0x3f_ff) * (little(28) & 0x3f_ff);
    case 'VP8L': return ((little(21) & 0x3f_ff) + 1) * ((((little(22) >> 6) | (at(24) << 10)) & 0x3f_ff) + 1);
    default: return null;
  }
}

/** The size is in the frame's header, behind parts of any length. */
function jpeg(at: (index: number) => number, big: (index: number) => number): number | null {
  let place = 2;
  for (let part = 0; part < MOST_PARTS && at(place) === 0xff; part += 1) {
    const kind = at(place + 1);
    if (kind === 0xff) { place += 1; continue; }
    if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind)) return big(place + 5) * big(place + 7);
    place += 2 + big(place + 2);
  }
  return null;
}
