// Owns the menu of everything else that can be done to a conversation, and its keys.
import { useNavigate } from '@solidjs/router';
import Ellipsis from 'lucide-solid/icons/ellipsis';
import { BUSY_WORDS, attempt, fork, isDoing, park, resume, stop } from '../lobby/acts';
import { useBeside } from '../lobby/beside';
import { rest, said, ticket } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import type { Session } from '../daemon/types';
import { markUnread, remove as removeSessions } from '../sessions/actions';
import { hasBell, turnBell } from '../parts/bell';
import { hintOf, useKeys } from '../parts/keys';
import { Menu, type MenuGroup } from '../parts/menu';
import { saveFrom } from '../parts/save';
import { openSide } from '../parts/side';
import { toast } from '../parts/toasts';
import { showPanel, type PanelName } from '../side/panels';
import type { Conversation } from '../live/store';

/** The menu. */
export function HeaderMore(props: { conversation: Conversation; session: Session; rename: () => void }) {
  const navigate = useNavigate();
  const id = () => props.session.id;
  const isRunning = () => ['starting', 'idle', 'busy', 'waiting'].includes(props.session.state);
  const isAtRest = () => ['stopped', 'failed', 'parked'].includes(props.session.state);

  const forkHere = async () => {
    const made = await fork(id());
    if (made !== undefined) navigate(`/s/${made.id}`);
  };
  const toBackground = () => attempt(rest.POST('/v1/sessions/{id}/tasks/background', { params: { path: { id: id() } }, body: {} }));
  const raw = () => navigate(`/s/${id()}/r/${Math.max(1, props.conversation.folded().lastSeq)}/raw`);
  const copyLink = async () => {
    try {
      await navigator.clipboard.writeText(new URL(`/s/${id()}`, location.origin).href);
      toast('The link is copied.');
    } catch {
      toast('This browser did not let the page copy.', { isProblem: true });
    }
  };
  // The browser writes the file while the daemon sends it: the page never holds the conversation. A link carries no key of a login.
  const exportAs = async (format: 'markdown' | 'json') => {
    const path = `/v1/sessions/${id()}/export`;
    try {
      saveFrom(`${path}?format=${format}&ticket=${await ticket(path)}`);
      toast('The browser saves the whole conversation.');
    } catch (error) {
      toast(said(error).text, { isProblem: true });
    }
  };
  const remove = () => {
    removeSessions([id()]);
    navigate('/');
  };
  const split = useBeside();
  const panel = (name: PanelName) => () => { showPanel(name); openSide(); };

  useKeys('Conversation', [
    { keys: 'F', word: 'Fork', run: () => { if (!canAct()) return false; void forkHere(); return; } },
    { keys: 'b', word: 'Rewind', run: () => { if (!canAct()) return false; props.conversation.openLayer({ kind: 'rewind' }); return; } },
    { keys: 'B', word: 'To background', run: () => { if (!canAct() || props.session.state !== 'busy') return false; void toBackground(); return; } },
    { keys: 'P', word: 'Plan', run: panel('plan') },
    { keys: 'C', word: 'Changes', run: panel('changes') },
    { keys: 'T', word: 'Tasks', run: panel('tasks') },
  ]);

  const slow = (act: keyof typeof BUSY_WORDS, about?: string) => (isDoing(act, id()) ? { about: BUSY_WORDS[act], isOff: true } : { about });
  const groups = (): MenuGroup[] => [
    { items: [
      { word: 'Plan', keys: hintOf('Plan', 'P'), run: panel('plan') },
      { word: 'Changes', keys: hintOf('Changes', 'C'), run: panel('changes') },
      { word: 'Agents', run: panel('agents') },
      { word: 'Tasks', keys: hintOf('Tasks', 'T'), run: panel('tasks') },
      { word: 'Context', run: panel('context') },
      { word: 'About', run: panel('about') },
    ] },
    { items: [
      ...(split.canSplit() ? [{ word: split.beside() === undefined ? 'Split' : 'No split', keys: hintOf('Split', '\\'), about: 'Another session beside this one', run: split.toggle }] : []),
      { word: 'Find', keys: hintOf('Find', 'Ctrl f'), run: () => props.conversation.openLayer({ kind: 'find' }) },
      { word: 'Tell me when it is done', about: 'A notice of this browser at the end of each turn', ...(hasBell(id()) ? { isChosen: true } : {}), run: () => void turnBell(id()) },
      { word: 'Copy link', run: () => void copyLink() },
      { word: 'Raw records', keys: hintOf('Raw record', 'w'), run: raw },
      { word: 'Export as Markdown', run: () => void exportAs('markdown') },
      { word: 'Export as JSON', run: () => void exportAs('json') },
    ] },
    { items: canAct() ? [
      { word: 'Rename', keys: hintOf('Rename', 'r'), run: props.rename },
      ...(!props.session.unread && props.session.turns > 0 ? [{ word: 'Mark as unread', about: 'Until it is opened again', run: () => void markUnread([id()]) }] : []),
      { word: 'Fork', keys: hintOf('Fork', 'F'), ...slow('fork', 'A copy that goes on by itself'), run: () => void forkHere() },
      { word: 'Rewind files…', keys: hintOf('Rewind', 'b'), isOff: !isRunning(), run: () => props.conversation.openLayer({ kind: 'rewind' }) },
      ...(props.session.state === 'busy' ? [{ word: 'To background', keys: hintOf('To background', 'B'), about: 'What runs now goes on beside the conversation', run: () => void toBackground() }] : []),
    ] : [] },
    { items: canAct() ? [
      ...(isAtRest() ? [{ word: 'Resume', ...slow('resume'), run: () => void resume(id()) }] : []),
      ...(props.session.state === 'idle' ? [{ word: 'Park', ...slow('park', 'Ends its process; the next message starts it'), run: () => void park(id()) }] : []),
      ...(isRunning() || props.session.state === 'parked' ? [{ word: 'Stop', ...slow('stop', 'Ends its process; it can be resumed'), run: () => void stop(id()) }] : []),
      { word: 'Delete', isDangerous: true, run: remove },
    ] : [] },
  ];
  return <Menu label="More for this conversation" groups={groups()}><Ellipsis size={20} aria-hidden="true" /></Menu>;
}
