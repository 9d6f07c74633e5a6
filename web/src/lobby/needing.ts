// Owns how many sessions wait for a person, for the badge, the title and the icon.
import { createMemo, createRoot } from 'solid-js';
import { sessions } from './lobby';
import { isCounted } from './order';

/** How many sessions need a person, by ranks 1 to 3. */
export const needing = createRoot(() => createMemo(() => sessions().filter(isCounted).length));
