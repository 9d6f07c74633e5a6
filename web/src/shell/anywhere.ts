// Owns the keys that work on every page, and what they do. Each is a button too: in the bar, behind More, or in the palette.
import { useLocation, useNavigate } from '@solidjs/router';
import { createEffect, createSignal } from 'solid-js';
import { sessions } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import { nextNeeding } from '../lobby/order';
import { choices, choose, type Choices } from '../parts/choices';
import { placesNow, useKeys, type Binding, type Place } from '../parts/keys';
import { toast } from '../parts/toasts';

/** A layer over the page that belongs to no address. */
export type OpenLayer = 'palette' | 'keys' | 'log' | null;

const [layer, setLayer] = createSignal<OpenLayer>(null);

/** The places whose keys worked when the palette or `?` was asked for. */
const [placesHere, setPlacesHere] = createSignal<Place[]>([]);

export { layer, placesHere, setLayer };

const THEMES: readonly Choices['theme'][] = ['system', 'light', 'dark'];

/** Goes on to the next theme, and says which one it is. */
function changeTheme(): void {
  const next = THEMES[(THEMES.indexOf(choices().theme) + 1) % THEMES.length] ?? 'system';
  choose({ theme: next });
  toast(`Theme: ${next}`);
}

/** Everything that can be done anywhere. */
export function useAnywhere(): Binding[] {
  const navigate = useNavigate();
  const location = useLocation();
  let here = '';
  let last = '/';
  createEffect(() => {
    const now = location.pathname + location.search;
    if (now === here) return;
    if (here !== '') last = here;
    here = now;
  });
  const goNext = () => {
    const next = nextNeeding(sessions(), /^\/s\/([^/]+)/.exec(location.pathname)?.[1]);
    if (next === undefined) toast('Nothing needs you.');
    else navigate(`/s/${next.id}`);
  };
  const bindings: Binding[] = [
    { keys: 'Ctrl k', word: 'Palette', inText: true, run: () => { setPlacesHere(placesNow()); setLayer('palette'); } },
    { keys: 'g s', word: 'Sessions', run: () => navigate('/') },
    { keys: 'g n', word: 'Needs you', run: () => navigate('/needs') },
    { keys: 'g u', word: 'Usage', run: () => navigate('/usage') },
    { keys: 'g h', word: 'Health', run: () => navigate('/health') },
    { keys: 'g w', word: 'Watch', run: () => navigate('/watch') },
    { keys: 'g ,', word: 'Settings', run: () => navigate('/settings/look') },
    { keys: 'g l', word: 'Messages of this page', run: () => { setLayer('log'); } },
    { keys: 'c', word: 'New session', run: () => { if (!canAct()) return false; navigate('/new'); return; } },
    { keys: '.', word: 'Next that needs you', run: goNext },
    { keys: ',', word: 'Last place', run: () => navigate(last) },
    { keys: 't', word: 'Theme', run: changeTheme },
    { keys: '?', word: 'Keys', run: () => { setPlacesHere(placesNow()); setLayer('keys'); } },
  ];
  useKeys('Anywhere', bindings);
  return bindings;
}
