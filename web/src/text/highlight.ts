// Owns the page's side of the worker that colours code and compares files. Without it text stays plain, and nothing waits.
import { scriptUrl } from '../trusted-types';
import { languageOf } from './languages';
import { safeNodes } from './safe';
import { byLine, type Scoped } from './scopes';
import type { Done, Job } from './worker';
import workerAddress from './worker?worker&url';

const MOST_COLOURED = 100_000;
/** A block that stands so long gets its colours. */
const COLOURED_AFTER_MS = 50;
const LONGEST_LINE = 4_000;

let worker: Worker | null | undefined;
let nextId = 0;
const waiting = new Map<number, (result: Done['result']) => void>();

function start(): Worker | null {
  try {
    const made = new Worker(scriptUrl(workerAddress), { type: 'module' });
    made.onmessage = ({ data }: MessageEvent<Done>) => {
      waiting.get(data.id)?.(data.result);
      waiting.delete(data.id);
    };
    made.onerror = () => {
      worker = null;
      for (const give of waiting.values()) give(null);
      waiting.clear();
    };
    return made;
  } catch {
    return null;
  }
}

type Work = Job extends infer One ? (One extends Job ? Omit<One, 'id'> : never) : never;

/** Has the worker do something; `null`: there is no worker, or it could not. */
export function inWorker(work: Work): Promise<Done['result']> {
  worker ??= start();
  const to = worker;
  if (to === null) return Promise.resolve(null);
  const id = ++nextId;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    to.postMessage({ ...work, id });
  });
}

const isColourable = (text: string, language: string): boolean =>
  language !== '' && text.length <= MOST_COLOURED && languageOf(language) !== undefined && !text.split('\n').some((line) => line.length > LONGEST_LINE);

const asNode = ({ text, kind }: Scoped): Node[] => {
  const nodes = safeNodes(text, 'code');
  if (kind === null) return nodes;
  const span = document.createElement('span');
  span.className = `code-${kind}`;
  span.append(...nodes);
  return [span];
};

/** Colours an element that shows a text, unless it shows another one by then. `join`: how the nodes of its lines stand in it, where each is by itself. */
export function highlightInto(code: HTMLElement, text: string, language: string, join: ((lines: Node[][]) => Node[]) | null): void {
  if (!isColourable(text, language)) return;
  const first = code.firstChild;
  setTimeout(() => {
    // In a flood a block may have passed by already.
    if (!code.isConnected || code.firstChild !== first) return;
    void inWorker({ kind: 'highlight', text, language }).then((result) => {
      if (result === null || code.firstChild !== first) return;
      const stretches = result as Scoped[];
      code.replaceChildren(...(join === null ? stretches.flatMap(asNode) : join(byLine(stretches).map((line) => line.flatMap(asNode)))));
    });
  }, COLOURED_AFTER_MS);
}

/** The lines of a text in their stretches; `null`: they stay plain. */
export async function highlightLines(text: string, language: string): Promise<Scoped[][] | null> {
  if (!isColourable(text, language)) return null;
  const result = await inWorker({ kind: 'highlight', text, language });
  return result === null ? null : byLine(result as Scoped[]);
}
