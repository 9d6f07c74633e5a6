// Owns how wide the page is, as a name, and that a soft keyboard covers nothing.
import { createSignal } from 'solid-js';

/** Narrow: one pane, a bar below. Middle: the list as a rail. Wide: list and page. Very wide: list, page and side panel. */
export type Layout = 'narrow' | 'middle' | 'wide' | 'very-wide';

const MIDDLE = matchMedia('(min-width: 600px)');
const WIDE = matchMedia('(min-width: 1024px)');
const VERY_WIDE = matchMedia('(min-width: 1600px)');

const measured = (): Layout => {
  if (VERY_WIDE.matches) return 'very-wide';
  if (WIDE.matches) return 'wide';
  return MIDDLE.matches ? 'middle' : 'narrow';
};

const [layout, setLayout] = createSignal<Layout>(measured());
for (const query of [MIDDLE, WIDE, VERY_WIDE]) query.addEventListener('change', () => setLayout(measured()));

export { layout };

/** Whether the list of sessions stays beside the page. */
export const hasList = (): boolean => layout() === 'wide' || layout() === 'very-wide';

/** Some browsers lay a soft keyboard over the page: the frame then takes the height that is left. */
function fitKeyboard(): void {
  const seen = window.visualViewport;
  if (seen == null) return;
  const covered = seen.scale === 1 && window.innerHeight - seen.height > 80;
  if (covered) document.documentElement.style.setProperty('--seen-height', `${seen.height}px`);
  else document.documentElement.style.removeProperty('--seen-height');
}
window.visualViewport?.addEventListener('resize', fitKeyboard);
