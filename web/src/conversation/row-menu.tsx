// Owns the menu of a row: everything that its keys do, as words for a pointer or a finger. It is made when it is first wanted.
import Ellipsis from 'lucide-solid/icons/ellipsis';
import { Show, createSignal } from 'solid-js';
import { hintOf } from '../parts/keys';
import { Menu, type MenuGroup } from '../parts/menu';
import { spelledOut } from '../text/hostile';
import { nameOf } from './row';
import type { RowAct } from './row-acts';
import type { Row } from './rows';
import './row-menu.css';

const GROUPS: readonly RowAct['group'][] = ['copy', 'record', 'branch', 'go'];

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
          <Ellipsis size={16} aria-hidden="true" />
        </button>
      }>
        <Menu label={label()} title="More for this row" open={isOpen()} onOpen={setOpen} groups={groups()}><Ellipsis size={16} aria-hidden="true" /></Menu>
      </Show>
    </div>
  );
}
