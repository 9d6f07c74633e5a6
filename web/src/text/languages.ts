// Owns which languages code is coloured in. Each is loaded when the first code of it is seen.
import type { LanguageFn } from 'highlight.js';

type Load = () => Promise<{ default: LanguageFn }>;

const LOADS: Record<string, Load> = {
  bash: () => import('highlight.js/lib/languages/bash'),
  c: () => import('highlight.js/lib/languages/c'),
  cpp: () => import('highlight.js/lib/languages/cpp'),
  csharp: () => import('highlight.js/lib/languages/csharp'),
  css: () => import('highlight.js/lib/languages/css'),
  diff: () => import('highlight.js/lib/languages/diff'),
  dockerfile: () => import('highlight.js/lib/languages/dockerfile'),
  go: () => import('highlight.js/lib/languages/go'),
  ini: () => import('highlight.js/lib/languages/ini'),
  java: () => import('highlight.js/lib/languages/java'),
  javascript: () => import('highlight.js/lib/languages/javascript'),
  json: () => import('highlight.js/lib/languages/json'),
  kotlin: () => import('highlight.js/lib/languages/kotlin'),
  lua: () => import('highlight.js/lib/languages/lua'),
  makefile: () => import('highlight.js/lib/languages/makefile'),
  markdown: () => import('highlight.js/lib/languages/markdown'),
  php: () => import('highlight.js/lib/languages/php'),
  python: () => import('highlight.js/lib/languages/python'),
  ruby: () => import('highlight.js/lib/languages/ruby'),
  rust: () => import('highlight.js/lib/languages/rust'),
  sql: () => import('highlight.js/lib/languages/sql'),
  swift: () => import('highlight.js/lib/languages/swift'),
  typescript: () => import('highlight.js/lib/languages/typescript'),
  xml: () => import('highlight.js/lib/languages/xml'),
  yaml: () => import('highlight.js/lib/languages/yaml'),
};

const OTHER_NAMES: Record<string, string> = {
  sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', h: 'c', cc: 'cpp', hpp: 'cpp', 'c++': 'cpp', cs: 'csharp', scss: 'css', patch: 'diff',
  docker: 'dockerfile', golang: 'go', toml: 'ini', conf: 'ini', js: 'javascript', mjs: 'javascript', cjs: 'javascript', jsx: 'javascript',
  jsonc: 'json', json5: 'json', ndjson: 'json', kt: 'kotlin', mk: 'makefile', make: 'makefile', md: 'markdown', mdx: 'markdown', py: 'python',
  rb: 'ruby', rs: 'rust', ts: 'typescript', mts: 'typescript', tsx: 'typescript', html: 'xml', svg: 'xml', vue: 'xml', yml: 'yaml',
};

/** How to load a language by any of its names; `undefined`: it stays plain. */
export function languageOf(name: string): { name: string; load: Load } | undefined {
  const lower = name.toLowerCase().replace(/^[{.]+|[},:].*$/g, '');
  const known = OTHER_NAMES[lower] ?? lower;
  const load = Object.hasOwn(LOADS, known) ? LOADS[known] : undefined;
  return load === undefined ? undefined : { name: known, load };
}

/** The language of a file, by its name; empty: none is known. */
export function languageOfPath(path: string): string {
  const file = path.split('/').at(-1)?.toLowerCase() ?? '';
  if (/^(?:dockerfile|makefile)/.test(file)) return file.split('.')[0] ?? '';
  return languageOf(file.split('.').at(-1) ?? '')?.name ?? '';
}
