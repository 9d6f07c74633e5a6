// Owns how many sessions wait for a person, for the badge, the title and the icon.
import { createMemo, createRoot } from 'solid-js';
import { sessions } from './lobby';

/** How many sessions need a person, by ranks 1 to 3. */
export const needing = createRoot(() => createMemo(() => sessions().filter((one) => one.attention != null && one.attention.rank <= 3).length));
