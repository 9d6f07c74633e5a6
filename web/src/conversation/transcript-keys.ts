// Owns the keys of the transcript: going from row to row, opening and folding, and what can be done to the row of the moment.
import type { Accessor } from 'solid-js';
import { useKeys, type Binding } from '../parts/keys';
import type { Reading } from './reading';
import { isOpenNow, opens, type RowAct } from './row-acts';
import type { Row } from './rows';
import type { Sticking } from './sticking';
import type { Conversation } from '../live/store';

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

/** Holds the transcript's keys, those of `acts` among them. */
export function useTranscriptKeys(parts: TranscriptParts, acts: readonly RowAct[]): void {
  const { rows, reading, goTo, sticking, conversation } = parts;
  const at = () => rows().findIndex((row) => row.key === reading.current());
  const here = () => rows()[at()] ?? rows().findLast((row) => row.kind !== 'work');
  const step = (by: 1 | -1) => {
    const all = rows();
    const row = all[at() < 0 ? (by > 0 ? 0 : all.length - 1) : at() + by];
    if (row !== undefined) goTo(row.key);
  };
  const toEnd = () => { reading.setCurrent(null); sticking.stick(); };

  useKeys('Transcript', [
    { keys: 'j', word: 'Next row', run: () => step(1) },
    { keys: 'k', word: 'Row before', run: () => step(-1) },
    { keys: 'G', word: 'To the end', run: toEnd },
    { keys: 'End', word: 'To the end', run: toEnd },
    {
      keys: 'g g', word: 'To the beginning', run: () => {
        sticking.release();
        void conversation.loadTo(1).then(() => { const first = rows()[0]; if (first !== undefined) goTo(first.key, 'start'); });
      },
    },
    { keys: 'n', word: 'To the first new one', run: () => { const key = parts.newKey(); if (key === null) return false; goTo(key, 'start'); return; } },
    {
      keys: 'E', word: 'Open or fold all', run: () => {
        const all = rows().filter((row) => opens(row) && row.kind !== 'prompt');
        const isOpen = all.some((row) => row.kind === 'work' ? !row.isOpen : false) || !all.some(isOpenNow);
        for (const row of all) reading.setOpen(row.key, isOpen);
      },
    },
    ...acts.filter((act) => act.needsChoice !== true).map((act) => bound(act, here)),
  ]);
  // The header has these keys too, for the whole conversation: a row that was chosen comes first.
  useKeys('Chosen row', acts.filter((act) => act.needsChoice === true).map((act) => bound(act, () => rows()[at()])), {
    works: () => at() >= 0, isFirst: () => true,
  });
}

function bound(act: RowAct, rowOfTheMoment: () => Row | undefined): Binding {
  return {
    keys: act.keys, word: act.word, run: () => {
      const row = rowOfTheMoment();
      if (row === undefined || !act.fits(row)) return false;
      act.run(row);
      return;
    },
  };
}
