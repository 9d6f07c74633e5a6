// Owns how the palette finds things: the letters of each word in their order, close together, at beginnings first.

/** How well a text matches a query: higher is better, `null` is not at all. */
export function score(query: string, text: string): number | null {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
  let sum = 0;
  for (const word of words) {
    const best = scoreOfWord(word, text.toLowerCase());
    if (best === null) return null;
    sum += best;
  }
  return sum - text.length / 1000;
}

const isStart = (text: string, at: number): boolean => at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1] ?? '');

function scoreOfWord(word: string, text: string): number | null {
  // A word that is there as it stands is better than letters that are apart.
  for (let at = text.indexOf(word), found: number | null = null; ; at = text.indexOf(word, at + 1)) {
    if (at < 0) {
      if (found !== null) return found;
      break;
    }
    found = Math.max(found ?? 0, 20 + word.length + (isStart(text, at) ? 10 : 0) + (at === 0 ? 5 : 0));
  }
  let points = 0;
  let from = 0;
  let before = -2;
  for (const letter of word) {
    const at = text.indexOf(letter, from);
    if (at < 0) return null;
    points += at === before + 1 ? 2 : isStart(text, at) ? 1.5 : 0;
    points -= Math.min(at - from, 10) / 10;
    before = at;
    from = at + 1;
  }
  return points;
}

/** The items that match, best first; equal ones stay in their order. */
export function bestOf<Item>(query: string, items: readonly Item[], textOf: (item: Item) => string, most: number): Item[] {
  if (query.trim() === '') return items.slice(0, most);
  return items.flatMap((item, at) => { const points = score(query, textOf(item)); return points === null ? [] : [{ item, at, points }]; })
    .sort((a, b) => b.points - a.points || a.at - b.at).slice(0, most).map(({ item }) => item);
}
