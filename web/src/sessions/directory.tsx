// Owns the field for a directory: recent ones at once, others completed inside the allowed roots.
import { For, Show, createMemo, createSignal, createUniqueId, onCleanup } from 'solid-js';
import { rest } from '../daemon/daemon';
import { sessions } from '../lobby/lobby';
import { SafeText } from '../text/safe';
import { place } from '../lobby/words';
import { Told } from '../parts/told';

const RECENT = 6;
const PAUSE_MS = 80;

/** Directories of the newest sessions. */
export const recentDirectories = (): string[] => [...new Set([...sessions()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1)).map((one) => one.cwd))].slice(0, RECENT);

/** The field. Tab completes, arrows choose. */
export function DirectoryField(props: { value: string; onInput: (value: string) => void; problem?: string }) {
  const id = createUniqueId();
  const [found, setFound] = createSignal<{ of: string; items: string[] }>({ of: '', items: [] });
  const [isOpen, setOpen] = createSignal(false);
  const [chosen, setChosen] = createSignal(-1);
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const look = (prefix: string) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      rest.GET('/v1/directories', { params: { query: { prefix, limit: 20 } } })
        .then(({ items }) => { if (props.value === prefix) setFound({ of: prefix, items }); })
        .catch(() => setFound({ of: prefix, items: [] }));
    }, PAUSE_MS);
  };
  const recent = createMemo(recentDirectories);
  const offers = createMemo(() => {
    const near = recent().filter((one) => props.value === '' || (one.includes(props.value) && one !== props.value));
    const there = found().items.filter((one) => one !== props.value && !near.includes(one));
    return [...near.map((path) => ({ path, isRecent: true })), ...there.map((path) => ({ path, isRecent: false }))].slice(0, 20);
  });
  const take = (path: string, goesOn: boolean) => {
    const value = goesOn ? `${path.replace(/\/+$/, '')}/` : path;
    props.onInput(value);
    setChosen(-1);
    setOpen(goesOn);
    queueMicrotask(() => look(value));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = offers();
    const at = all[chosen()] ?? (event.key === 'Tab' ? all.find((one) => one.path.startsWith(props.value)) : undefined);
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      if (all.length === 0) return;
      setOpen(true);
      setChosen((chosen() + (event.key === 'ArrowDown' ? 1 : all.length + (chosen() < 0 ? 1 : 0) - 1)) % all.length);
    } else if (event.key === 'Escape' && isOpen()) {
      event.stopPropagation();
      setOpen(false);
    } else if (event.key === 'Tab' && !event.shiftKey && isOpen() && props.value !== '' && at !== undefined) {
      take(at.path, true);
    } else if (event.key === 'Enter' && isOpen() && chosen() >= 0 && at !== undefined) {
      take(at.path, false);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <div class="field">
      <label for={id}>Where</label>
      <div class="directory">
        <input id={id} class="code-input" role="combobox" autocomplete="off" autocapitalize="off" spellcheck={false} placeholder="/home/…" required
          aria-expanded={isOpen() && offers().length > 0} aria-controls={`${id}-list`} aria-autocomplete="list" aria-invalid={props.problem !== undefined && props.problem !== ''}
          aria-activedescendant={chosen() >= 0 ? `${id}-${chosen()}` : undefined} aria-describedby={props.problem ? `${id}-problem` : undefined}
          value={props.value} onKeyDown={onKeyDown}
          onFocus={() => { setOpen(true); look(props.value); }} onBlur={() => setOpen(false)}
          onInput={(event) => { props.onInput(event.currentTarget.value); setChosen(-1); setOpen(true); look(event.currentTarget.value); }} />
        <ul id={`${id}-list`} class="directory-list" role="listbox" aria-label="Directories" hidden={!isOpen() || offers().length === 0}>
          <For each={offers()}>{(one, at) => (
            <li id={`${id}-${at()}`} role="option" aria-selected={chosen() === at()} class="directory-offer" classList={{ 'is-chosen': chosen() === at() }}
              onPointerDown={(event) => { event.preventDefault(); take(one.path, false); }}>
              <code class="one-line"><SafeText text={place(one.path)} /></code><Show when={one.isRecent}><span class="faint">recent</span></Show>
            </li>
          )}</For>
        </ul>
      </div>
      <Told><Show when={props.problem}>{(text) => <p id={`${id}-problem`} class="field-problem">{text()}</p>}</Show></Told>
    </div>
  );
}
