// Owns how a change of a file is shown before it is written: the file as it is, against the file as it would be.
import { For, Match, Show, Switch, createMemo } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest } from '../daemon/daemon';
import { Loading } from '../parts/loading';
import { Diff, DiffCounts } from '../text/diff-view';
import type { CardProps, Deciding } from './deciding';
import { pathOf, toolOf } from '../lobby/request';

/** A replacement in a file. */
interface Replacement { old: string; fresh: string; everywhere: boolean }

/** The replacements of an edit. */
export function replacementsOf(input: Record<string, unknown>): Replacement[] {
  const one = (from: Record<string, unknown>): Replacement => ({ old: String(from.old_string ?? ''), fresh: String(from.new_string ?? from.new_source ?? ''), everywhere: from.replace_all === true });
  return Array.isArray(input.edits) ? input.edits.map((edit) => one(edit as Record<string, unknown>)) : [one(input)];
}

/** A text with all replacements made; `null`: one of them is about words that are not in it. */
export function replaced(before: string, replacements: Replacement[]): string | null {
  let text = before;
  for (const { old, fresh, everywhere } of replacements) {
    if (old === '') { text = text === '' ? fresh : text; continue; }
    if (!text.includes(old)) return null;
    const at = text.indexOf(old);
    text = everywhere ? text.split(old).join(fresh) : text.slice(0, at) + fresh + text.slice(at + old.length);
  }
  return text;
}

const MOST = 400;

/** A change of a file. */
export function ChangeBody(props: { card: CardProps; deciding: Deciding; input: Record<string, unknown> }) {
  const { id, session_id: sessionId } = props.card.approval;
  const [file] = createAsked(() => rest.GET('/v1/sessions/{id}/approvals/{approval_id}/file', { params: { path: { id: sessionId, approval_id: id } } }).catch(() => null));
  const isWrite = () => toolOf(props.card.approval) === 'Write';
  const before = () => (file()?.exists === false ? '' : file()?.truncated === true ? null : file()?.content ?? null);
  const after = createMemo(() => {
    const known = before();
    if (isWrite()) return String(props.input.content ?? '');
    if (known === null || props.input.new_source !== undefined) return null;
    return replaced(known, replacementsOf(props.input));
  });
  const path = () => pathOf(props.card.approval) ?? '';
  const diff = (old: string, fresh: string, firstLine: number | null) => (
    <Diff before={old} after={fresh} path={path()} most={MOST} firstLine={firstLine} showsAll={props.deciding.showsAll()} onHidden={props.deciding.setHidden} />
  );
  return (
    <Show when={!file.loading} fallback={<Loading>Reading the file…</Loading>}>
      <Switch>
        <Match when={before() !== null && after() !== null}>
          <Show when={isWrite() && file()?.exists === true}><p class="quiet">This file exists. The change to it: <DiffCounts before={before() ?? ''} after={after() ?? ''} /></p></Show>
          <Show when={file()?.exists === false}><p class="quiet">A new file of {lines(after() ?? '')}.</p></Show>
          {diff(before() ?? '', after() ?? '', 1)}
        </Match>
        <Match when={isWrite()}>
          <p class="quiet">{file() == null ? 'The file as it is now cannot be shown here.' : 'The file as it is now is no text, or is too large to be shown.'} It would hold {lines(after() ?? '')}:</p>
          {diff('', after() ?? '', 1)}
        </Match>
        <Match when={true}>
          <p class="quiet">{before() === null ? 'The file as it is now cannot be shown here. It replaces:' : 'The file does not hold the words that are to be replaced. It was to replace:'}</p>
          <For each={replacementsOf(props.input)}>{(one) => diff(one.old, one.fresh, null)}</For>
        </Match>
      </Switch>
    </Show>
  );
}

const lines = (text: string): string => {
  const n = text === '' ? 0 : text.replace(/\n$/, '').split('\n').length;
  return `${n.toLocaleString()} ${n === 1 ? 'line' : 'lines'}`;
};
