// Owns whether the page is to be sparing with data, by the person's choice or the browser's, and what it leaves out then.
import { choices } from '../parts/choices';

/** Whether less is to be loaded. */
export const savesData = (): boolean =>
  choices().saver || (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;

/** The words in the place of an agent's steps that are left out, with who wants it so; `undefined` where none are. */
export const stepsLeftOut = (): string | undefined =>
  !savesData() ? undefined : choices().saver
    ? 'The data saver leaves out the steps of agents. It is turned off in the settings.'
    : 'The browser saves data, so the steps of agents are left out.';

/** Pieces that come within one frame of the page are one: a flood would otherwise be parsed piece by piece, and no frame be drawn. */
const FRAME_MS = 16;
/** The requests to the daemon for an open conversation. `stub_above`: a larger record comes on request alone. */
export interface Share { stub_above: number; coalesce: number; without?: string }

const WHOLE: Share = { stub_above: 65_536, coalesce: FRAME_MS };
/** Pieces of a text are joined, larger results come on a tap, and neither steps of sub-agents come nor lines that change nothing on the page. */
const SPARING: Share = { stub_above: 16_384, coalesce: 250, without: 'cli.subagents,cli.tool_progress,cli.transcript_mirror,cli.keep_alive' };

/** The share of a conversation that is loaded unasked. */
export const shareOf = (isSparing: boolean): Share => (isSparing ? SPARING : WHOLE);
