// Owns the session that stands beside the open one on a very wide page: it is in the address (`?beside=`), so Back closes it.
import { useLocation, useNavigate } from '@solidjs/router';
import { createMemo } from 'solid-js';
import { layout } from '../parts/layout';
import { toast } from '../parts/toasts';
import { sessions } from './lobby';
import { arrange } from './order';

/** The session that is meant when none is named: of the others the first in the order of attention. */
export const otherThan = (open: string, all = sessions()): string | undefined =>
  arrange(all).flatMap((group) => group.projects.flatMap((project) => project.rows)).find((one) => one.id !== open)?.id;

/** The session beside, and the way to change it. */
export function useBeside() {
  const location = useLocation();
  const navigate = useNavigate();
  const open = () => /^\/s\/([^/]+)/.exec(location.pathname)?.[1];
  const canSplit = () => open() !== undefined && layout() === 'very-wide';
  const beside = createMemo(() => {
    const id = new URLSearchParams(location.search).get('beside') ?? '';
    return canSplit() && id !== '' && id !== open() ? id : undefined;
  });
  const show = (id: string | null) => {
    const query = new URLSearchParams(location.search);
    if (id === null) query.delete('beside'); else query.set('beside', id);
    const search = query.toString();
    navigate(`${location.pathname}${search === '' ? '' : `?${search}`}`, { scroll: false });
  };
  return {
    beside,
    /** Whether the page is wide enough, and has a session open. */
    canSplit,
    /** Puts a session beside the open one; `null`: none any more. */
    show,
    /** Splits the page, or makes it whole. */
    toggle: () => {
      if (beside() !== undefined) return show(null);
      const other = otherThan(open() ?? '');
      if (other === undefined) toast('There is no other session.'); else show(other);
    },
  };
}
