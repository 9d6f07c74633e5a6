// Owns whether the page is to be sparing with data: the person's choice, or the browser's.
import { choices } from '../settings/choices';

/** Whether less is to be loaded: joined pieces, pictures on a tap. */
export const savesData = (): boolean =>
  choices().saver || (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;
