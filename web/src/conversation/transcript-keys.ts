// Owns the keys of the transcript: going from row to row, opening and folding, and copying.
import { useNavigate } from '@solidjs/router';
import type { Accessor } from 'solid-js';
import { useKeys } from '../shell/keys';
import { toast } from '../shell/toasts';
import { copyText } from '../text/copy';
import { textOf } from './plain';
import type { Reading } from './reading';
import type { Row } from './rows';
import type { Sticking } from './sticking';
import type { Conversation } from './store';

/** The things that the keys act on. */
export interface TranscriptParts {
  rows: Accessor<Row[]>;
  reading: Reading;
  goTo(key: string, align?: 'auto' | 'start' | 'center'): void;
  sticking: Sticking;
  /** The row at which the new begins; `null`: nothing is new. */
  newKey(): string | null;
  conversation: Conversation;
}

const OPENS = new Set<Row['kind']>(['call', 'thinking', 'note', 'work', 'group', 'prompt']);

/** Holds the transcript's keys. */
export function useTranscriptKeys(parts: TranscriptParts): void {
  const { rows, reading, goTo, sticking, conversation } = parts;
  const navigate = useNavigate();
  const at = () => rows().findIndex((row) => row.key === reading.current());
  const here = () => rows()[at()] ?? rows().findLast((row) => row.kind !== 'work');

  /** Goes to the next row of a kind, forwards or backwards from the current one. */
  const step = (by: 1 | -1, isWanted: (row: Row) => boolean) => {
    const all = rows();
    const from = at() < 0 ? (by > 0 ? -1 : all.length) : at();
    for (let index = from + by; index >= 0 && index < all.length; index += by) {
      if (isWanted(all[index]!)) { goTo(all[index]!.key); return; }
    }
  };
  const isOpenNow = (row: Row): boolean => {
    if (row.kind === 'work') return row.isOpen;
    const line = document.querySelector(`[data-key="${CSS.escape(row.key)}"] [aria-expanded]`);
    return line?.getAttribute('aria-expanded') === 'true';
  };
  const copy = async (asMarkdown: boolean) => {
    const row = here();
    if (row === undefined) return;
    toast(await copyText(textOf(row, asMarkdown)) ? (asMarkdown ? 'Copied as Markdown' : 'Copied') : 'The browser did not let it be copied', {});
  };
  const link = (row: Row, isRaw: boolean) => `/s/${conversation.id}/r/${row.seq}${isRaw ? '/raw' : ''}`;
  const isTurn = (row: Row) => row.kind === 'work' || row.kind === 'turn';

  useKeys('Transcript', [
    { keys: 'j', word: 'Next row', run: () => step(1, () => true) },
    { keys: 'k', word: 'Row before', run: () => step(-1, () => true) },
    { keys: 'J', word: 'Next prompt', run: () => step(1, (row) => row.kind === 'prompt') },
    { keys: 'K', word: 'Prompt before', run: () => step(-1, (row) => row.kind === 'prompt') },
    { keys: ']', word: 'Next turn', run: () => step(1, isTurn) },
    { keys: '[', word: 'Turn before', run: () => step(-1, isTurn) },
    { keys: 'G', word: 'To the end', run: () => { reading.setCurrent(null); sticking.stick(); } },
    { keys: 'End', word: 'To the end', run: () => { reading.setCurrent(null); sticking.stick(); } },
    {
      keys: 'g g', word: 'To the beginning', run: () => {
        sticking.release();
        void conversation.loadTo(1).then(() => { const first = rows()[0]; if (first !== undefined) goTo(first.key, 'start'); });
      },
    },
    { keys: 'n', word: 'To the first new one', run: () => { const key = parts.newKey(); if (key === null) return false; goTo(key, 'start'); } },
    { keys: 'e', word: 'Open or fold', run: () => { const row = here(); if (row !== undefined && OPENS.has(row.kind)) reading.setOpen(row.key, !isOpenNow(row)); } },
    {
      keys: 'E', word: 'Open or fold all', run: () => {
        const all = rows().filter((row) => OPENS.has(row.kind) && row.kind !== 'prompt');
        const isOpen = all.some((row) => row.kind === 'work' ? !row.isOpen : false) || !all.some(isOpenNow);
        for (const row of all) reading.setOpen(row.key, isOpen);
      },
    },
    { keys: 'y', word: 'Copy', run: () => void copy(false) },
    { keys: 'Y', word: 'Copy as Markdown', run: () => void copy(true) },
    {
      keys: 'L', word: 'Copy a link', run: () => {
        const row = here();
        if (row === undefined) return;
        void copyText(location.origin + link(row, false)).then((isCopied) => toast(isCopied ? 'The link is copied' : 'The browser did not let it be copied'));
      },
    },
    { keys: 'w', word: 'Raw record', run: () => { const row = here(); if (row !== undefined) navigate(link(row, true)); } },
    { keys: 'W', word: 'Wrap long lines', run: () => reading.toggleWraps() },
  ]);
}
