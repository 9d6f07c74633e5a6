// Owns the work on text that would hold up the page: colours of code, and the comparison of long files.
import hljs from 'highlight.js/lib/core';
import { compare, type DiffRow } from './diff';
import { languageOf } from './languages';
import { stretchesOf, type Scoped } from './scopes';

/** A piece of work. */
export type Job = { id: number } & ({ kind: 'highlight'; text: string; language: string } | { kind: 'diff'; before: string; after: string });
/** The outcome; `null`: it is shown plain. */
export type Done = { id: number; result: Scoped[] | DiffRow[] | null };

async function highlight(text: string, language: string): Promise<Scoped[] | null> {
  const known = languageOf(language);
  if (known === undefined) return null;
  if (hljs.getLanguage(known.name) === undefined) hljs.registerLanguage(known.name, (await known.load()).default);
  const { _emitter } = hljs.highlight(text, { language: known.name, ignoreIllegals: true });
  return stretchesOf((_emitter as unknown as { rootNode: Parameters<typeof stretchesOf>[0] }).rootNode);
}

addEventListener('message', (event: MessageEvent<Job>) => {
  const job = event.data;
  const work = job.kind === 'highlight' ? highlight(job.text, job.language) : Promise.resolve(compare(job.before, job.after));
  work.catch(() => null).then((result) => postMessage({ id: job.id, result } satisfies Done));
});
