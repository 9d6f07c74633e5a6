// Owns the character references of Markdown, such as `&amp;` and `&#169;`: each becomes its character, which is text and no markup.

const NAMED: Record<string, string> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…', mdash: '—',
  ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', bull: '•', middot: '·', times: '×', deg: '°', larr: '←',
  rarr: '→', uarr: '↑', darr: '↓', le: '≤', ge: '≥', ne: '≠', euro: '€', check: '✓',
};

/** A text with its character references resolved. */
export function resolved(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (whole, decimal?: string, hexadecimal?: string, name?: string) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name] as string : whole;
    const code = decimal !== undefined ? Number(decimal) : parseInt(hexadecimal ?? '', 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\ufffd';
  });
}
