// Owns the menu of a row: everything that its keys do, as words for a pointer or a finger. It is made when it is first wanted.
import { Show, createSignal } from 'solid-js';
import { hintOf } from '../parts/keys';
import { Menu, type MenuGroup } from '../parts/menu';
import { spelledOut } from '../text/hostile';
import { nameOf } from './row';
import type { RowAct } from './row-acts';
import type { Row } from './rows';
import './row-menu.css';

const GROUPS: readonly RowAct['group'][] = ['copy', 'record', 'branch', 'go'];

/** Three dots. Each row has them, so that they are one element that is copied, and no component. */
const Dots = () => (
  <svg width="16" height="16" viewBox="0 0 24 24" fill="currentColor" aria-hidden="true"><circle cx="5" cy="12" r="2" /><circle cx="12" cy="12" r="2" /><circle cx="19" cy="12" r="2" /></svg>
);

/** The button with its menu. Tab comes to that of the row of the moment. */
export function RowMenu(props: { row: Row; acts: readonly RowAct[]; isCurrent: boolean }) {
  const [isWanted, setWanted] = createSignal(false);
  const [isOpen, setOpen] = createSignal(false);
  const label = () => `More for this row: ${spelledOut(nameOf(props.row))}`;
  const groups = (): MenuGroup[] => GROUPS.map((group) => ({
    items: props.acts.filter((act) => act.group === group && act.fits(props.row)).map((act) => ({
      word: act.word, about: act.about?.(props.row), keys: hintOf(act.word, act.keys), run: () => act.run(props.row),
    })),
  }));
  const want = () => {
    setWanted(true);
    queueMicrotask(() => setOpen(true));
  };
  return (
    <div class="row-menu">
      <Show when={isWanted()} fallback={
        <button type="button" class="plain menu-button" tabIndex={props.isCurrent ? 0 : -1} aria-haspopup="menu" aria-label={label()} title="More for this row" onClick={want}>
          <Dots />
        </button>
      }>
        <Menu label={label()} title="More for this row" open={isOpen()} onOpen={setOpen} groups={groups()}><Dots /></Menu>
      </Show>
    </div>
  );
}
