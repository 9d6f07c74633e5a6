// Owns what can be done to a row of the transcript: each act with its word and its key, for the keys and for the row's menu.
import { useNavigate } from '@solidjs/router';
import { putIntoBox } from '../composer/draft';
import { attempt, fork } from '../lobby/acts';
import { rest } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import { toast } from '../parts/toasts';
import { copyText } from '../text/copy';
import { textOf } from './plain';
import type { Row } from './rows';
import type { Conversation } from '../live/store';
import type { TranscriptParts } from './transcript-keys';

/** Something that can be done to a row. */
export interface RowAct {
  keys: string;
  word: string;
  /** Its purpose, for this row. */
  about?: (row: Row) => string | undefined;
  /** Acts of one group stand together in the menu. */
  group: 'copy' | 'record' | 'branch' | 'go';
  fits: (row: Row) => boolean;
  run: (row: Row) => void;
  /** The key acts on a row that the reader has chosen, and on no other. */
  needsChoice?: boolean;
}

const OPENS = new Set<Row['kind']>(['call', 'thinking', 'note', 'work', 'group', 'prompt']);
const SAYS = new Set<Row['kind']>(['prompt', 'text', 'thinking', 'call', 'group', 'note', 'turn']);
const isTurn = (row: Row): boolean => row.kind === 'work' || row.kind === 'turn';
const isPrompt = (row: Row): boolean => row.kind === 'prompt';

/** The last record of what a row shows. */
const endOf = (row: Row): number => (row.kind === 'call' ? row.block.result?.seq ?? row.seq : row.seq);

/** Whether a row is open, as it is drawn. */
export function isOpenNow(row: Row): boolean {
  if (row.kind === 'work') return row.isOpen;
  const line = document.querySelector(`[data-key="${CSS.escape(row.key)}"] [aria-expanded]:not([aria-haspopup])`);
  return line?.getAttribute('aria-expanded') === 'true';
}

/** Whether a row opens and folds. */
export const opens = (row: Row): boolean => OPENS.has(row.kind);

/** The newest message that begins before a record, and that a fork can begin at. */
async function messageBefore(id: string, seq: number): Promise<string | undefined> {
  const query = { order: 'desc' as const, before: seq, limit: 20 };
  const page = await attempt(rest.GET('/v1/sessions/{id}/messages', { params: { path: { id }, query } }));
  if (page === undefined) return undefined;
  const found = page.items.find((one) => one.uuid != null && one.parent_tool_use_id == null)?.uuid ?? undefined;
  if (found === undefined) toast('No message comes before this one.');
  return found;
}

/** Forks after what a row shows, or before a prompt, whose text is then in the fork's box. */
async function forkAt(conversation: Conversation, row: Row, go: (path: string) => void): Promise<void> {
  const at = await messageBefore(conversation.id, row.kind === 'prompt' ? row.seq : endOf(row) + 1);
  const made = at === undefined ? undefined : await fork(conversation.id, at);
  if (made === undefined) return;
  if (row.kind === 'prompt') putIntoBox(made.id, row.block.text);
  go(`/s/${made.id}`);
}

/** The acts, in the order of the menu. */
export function createRowActs(parts: TranscriptParts): RowAct[] {
  const { rows, reading, goTo, conversation } = parts;
  const navigate = useNavigate();
  const says = (row: Row) => SAYS.has(row.kind);
  const isKept = (row: Row) => says(row) && row.seq > 0;
  const address = (row: Row) => `/s/${conversation.id}/r/${row.seq}`;
  const copy = async (text: string, done: string) => {
    toast(await copyText(text) ? done : 'The browser did not let it be copied');
  };
  const step = (by: 1 | -1, isWanted: (row: Row) => boolean) => (row: Row) => {
    const all = rows();
    for (let index = all.findIndex((one) => one.key === row.key) + by; index >= 0 && index < all.length; index += by) {
      if (isWanted(all[index]!)) { goTo(all[index]!.key); return; }
    }
  };
  return [
    { group: 'copy', keys: 'y', word: 'Copy', fits: says, run: (row) => void copy(textOf(row, false), 'Copied') },
    { group: 'copy', keys: 'Y', word: 'Copy as Markdown', fits: says, run: (row) => void copy(textOf(row, true), 'Copied as Markdown') },
    { group: 'record', keys: 'e', word: 'Open or fold', fits: opens, run: (row) => reading.setOpen(row.key, !isOpenNow(row)) },
    { group: 'record', keys: 'L', word: 'Copy a link', fits: isKept, run: (row) => void copy(location.origin + address(row), 'The link is copied') },
    { group: 'record', keys: 'w', word: 'Raw record', fits: isKept, run: (row) => navigate(`${address(row)}/raw`) },
    { group: 'record', keys: 'W', word: 'Wrap long lines', fits: () => true, run: () => reading.toggleWraps() },
    {
      group: 'branch', keys: 'F', word: 'Fork here', needsChoice: true, fits: (row) => canAct() && isKept(row) && row.kind !== 'note',
      about: (row) => (row.kind === 'prompt' ? 'A copy that ends before this message, with it in the box' : 'A copy of all up to here'),
      run: (row) => void forkAt(conversation, row, navigate),
    },
    {
      group: 'branch', keys: 'b', word: 'Rewind files to here', needsChoice: true, about: () => 'First you see which files change',
      fits: (row) => canAct() && row.kind === 'prompt' && row.seq > 0 && row.block.uuid !== null && !row.block.isOfTheCli,
      run: (row) => { if (row.kind === 'prompt') conversation.openLayer({ kind: 'rewind', prompt: row.block }); },
    },
    { group: 'go', keys: 'K', word: 'Prompt before', fits: () => true, run: step(-1, isPrompt) },
    { group: 'go', keys: 'J', word: 'Next prompt', fits: () => true, run: step(1, isPrompt) },
    { group: 'go', keys: '[', word: 'Turn before', fits: () => true, run: step(-1, isTurn) },
    { group: 'go', keys: ']', word: 'Next turn', fits: () => true, run: step(1, isTurn) },
  ];
}
