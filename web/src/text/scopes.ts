// Owns the kinds of words that colours tell apart in code, and the walk over highlight.js's own tree: no markup is made.

/** A stretch of code of one kind; `null` is plain. */
export interface Scoped { text: string; kind: Kind | null }
export type Kind = 'keyword' | 'string' | 'number' | 'comment' | 'name';

interface Tree { scope?: string; children: (string | Tree)[] }

const KINDS: Record<string, Kind> = {
  keyword: 'keyword', built_in: 'keyword', literal: 'number', number: 'number', string: 'string', regexp: 'string', char: 'string',
  'char.escape': 'string', symbol: 'string', link: 'string', comment: 'comment', doctag: 'comment', meta: 'comment', quote: 'comment', title: 'name',
  type: 'name', attr: 'name', attribute: 'name', name: 'name', tag: 'keyword', selector: 'name', variable: 'name', property: 'name',
  section: 'name', bullet: 'keyword', code: 'string', 'selector-tag': 'keyword', 'selector-class': 'name', 'selector-id': 'name',
};

const kindOf = (scope: string | undefined, outer: Kind | null): Kind | null =>
  scope === undefined ? outer : KINDS[scope] ?? KINDS[scope.split('.')[0] ?? ''] ?? outer;

/** The stretches of a tree of highlight.js. */
export function stretchesOf(root: Tree): Scoped[] {
  const all: Scoped[] = [];
  const walk = (tree: Tree, outer: Kind | null): void => {
    const kind = kindOf(tree.scope, outer);
    for (const child of tree.children) {
      if (typeof child !== 'string') walk(child, kind);
      else if (all.at(-1)?.kind === kind) (all.at(-1) as Scoped).text += child;
      else all.push({ text: child, kind });
    }
  };
  walk(root, null);
  return all;
}

/** Stretches cut into lines. */
export function byLine(stretches: Scoped[]): Scoped[][] {
  const lines: Scoped[][] = [[]];
  for (const { text, kind } of stretches) {
    for (const [i, part] of text.split('\n').entries()) {
      if (i > 0) lines.push([]);
      if (part !== '') lines.at(-1)?.push({ text: part, kind });
    }
  }
  return lines;
}
