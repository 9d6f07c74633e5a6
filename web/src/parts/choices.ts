// Owns what a person chose for this browser: theme, density, data saver and notices. A choice holds at once and on every
// page of this browser.
import { createEffect, createRoot, createSignal } from 'solid-js';

const NAME = 'trunkline.choices';

/** The choices. */
export interface Choices {
  theme: 'system' | 'light' | 'dark';
  density: 'comfortable' | 'compact';
  /** Less over the network: joined pieces, images and larger results on a tap. */
  saver: boolean;
  /** Notices of the browser while the page is open. */
  notices: boolean;
  /** Whether a notice says what is asked, and not only that something is. */
  noticeContent: boolean;
  sound: boolean;
  /** Notices were offered once. */
  noticesOffered: boolean;
  /** Also when a turn ends, of every session. */
  noticeDone: boolean;
  /** Sessions of which it is told, where it is not told of every one. */
  bells: string[];
  /** No notices between these hours of the day, such as `[22, 7]`. */
  quiet: [number, number] | null;
}

const DEFAULTS: Choices = {
  theme: 'system', density: 'comfortable', saver: false, notices: false, noticeContent: false, sound: false, noticesOffered: false, noticeDone: false, bells: [], quiet: null,
};

function stored(): Choices {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(NAME) ?? '{}') as Partial<Choices>) };
  } catch {
    return DEFAULTS;
  }
}

const [choices, setChoices] = createSignal<Choices>(stored());

export { choices };

/** Changes a choice, here and in the browser's other pages. */
export function choose(change: Partial<Choices>): void {
  const next = { ...choices(), ...change };
  try {
    localStorage.setItem(NAME, JSON.stringify(next));
  } catch { /* the choice lasts as long as the page */ }
  setChoices(next);
}

addEventListener('storage', (event) => { if (event.key === NAME) setChoices(stored()); });

createRoot(() => {
  createEffect(() => {
    const { theme, density } = choices();
    const { dataset } = document.documentElement;
    if (theme === 'system') delete dataset.theme; else dataset.theme = theme;
    dataset.density = density;
  });
});
