// Owns the card of a call of a tool: what would happen, its risks, and allow, deny, always allow and edit first.
import { Match, Show, Switch, createMemo, createSignal } from 'solid-js';
import { canAct } from '../daemon/role';
import { useKeys } from '../parts/keys';
import { SafeText } from '../text/safe';
import { AlwaysPanel } from './always-panel';
import { updatesFor, type Update } from './always';
import { Arguments } from './arguments-body';
import { ChangeBody } from './change-body';
import { CommandRows, Reasons } from './command-body';
import { useDeciding, type CardProps } from './deciding';
import { Deny } from './deny';
import { EditFirst } from './edit-first';
import { Facts, Frame } from './frame';
import { cardKindOf, inputOf, pathOf, questionOf, toolOf, type CardKind } from '../lobby/request';
import { riskOf } from '../lobby/risk';
import { Told } from '../parts/told';

type Mode = 'plain' | 'sure' | 'deny' | 'interrupt' | 'always' | 'always-sure' | 'edit';

/** The arguments that a card draws in its own way; all others stand in rows. */
function drawnOf(kind: CardKind, input: Record<string, unknown>, path: string | null): string[] {
  const paths = ['file_path', 'notebook_path'].filter((name) => path !== null && input[name] === path);
  if (kind === 'command') return typeof input.description === 'string' ? ['command', 'description'] : ['command'];
  if (kind === 'make') return [...paths, 'content'];
  if (kind !== 'change') return [];
  return [...paths, ...(Array.isArray(input.edits) ? ['edits'] : ['old_string', input.new_string === undefined ? 'new_source' : 'new_string'])];
}

/** The card of a call of a tool. */
export function ToolCard(props: CardProps) {
  const { approval, cwd } = props;
  const kind = cardKindOf(approval);
  const [mode, setMode] = createSignal<Mode>('plain');
  const [changed, setChanged] = createSignal<Record<string, unknown>>();
  const [draft, setDraft] = createSignal<Record<string, unknown> | null>(null);
  const [updates, setUpdates] = createSignal<Update[]>([]);
  const input = () => changed() ?? inputOf(approval);
  const risk = createMemo(() => riskOf(approval, cwd, input()));
  const deciding = useDeciding(props, mode);
  // The rules are about the call as the agent made it.
  const offered = () => (canAct() && changed() === undefined ? updatesFor(approval) : []);
  const isRisky = () => risk().reasons.length > 0;

  const body = () => ({ decision: 'allow' as const, ...(changed() === undefined ? {} : { updated_input: changed() as Record<string, unknown> }) });
  const allow = () => { if (isRisky() && mode() !== 'sure') setMode('sure'); else void deciding.send(body()); };
  const allowAlways = () => {
    if (updates().length === 0) return;
    if (isRisky() && mode() !== 'always-sure') setMode('always-sure');
    else void deciding.send({ ...body(), updated_permissions: updates() });
  };
  const isAlways = () => mode() === 'always' || mode() === 'always-sure';
  const finishEdit = () => {
    const next = draft();
    if (next === null) return;
    setChanged(JSON.stringify(next) === JSON.stringify(inputOf(approval)) ? undefined : next);
    setMode('plain');
  };
  const startEdit = () => { if (canAct()) { setDraft(structuredClone(input())); setMode('edit'); } };
  const putBack = () => { setChanged(undefined); setMode('plain'); };

  useKeys('Decision', [
    { keys: 'a', word: 'Allow once', run: deciding.key(() => (isAlways() ? allowAlways() : mode() === 'edit' ? undefined : allow())) },
    { keys: 'd', word: 'Deny…', run: deciding.key(() => setMode('deny')) },
    { keys: 'A', word: 'Always allow…', run: () => { if (offered().length > 0) setMode(isAlways() ? 'plain' : 'always'); } },
    { keys: 'D', word: 'Deny and interrupt', run: deciding.key(() => setMode('interrupt')) },
    { keys: 'e', word: 'Edit first', run: startEdit },
    { keys: 'v', word: 'Show all', run: deciding.showAll },
    { keys: 'j', word: 'Next decision', run: () => props.onMove?.(1) },
    { keys: 'k', word: 'Decision before', run: () => props.onMove?.(-1) },
    { keys: 'Escape', word: 'Back', run: () => { if (mode() === 'plain') return false; setMode('plain'); return undefined; } },
  ], { works: () => props.works?.() ?? true });

  const drawn = () => drawnOf(kind, input(), pathOf(approval));
  const says = () => (kind === 'command' && typeof input().description === 'string' ? input().description as string : '');
  const reason = () => <p class="risk-reason">▲ It {risk().reasons[0]}{risk().reasons.length > 1 ? `, and ${risk().reasons.length - 1} more` : ''}.</p>;
  return (
    <Frame card={props} deciding={deciding} question={questionOf(approval, cwd)} onSubmit={() => { if (mode() === 'edit') finishEdit(); }}
      mark={<Show when={changed() !== undefined}><span class="chip">changed by you</span></Show>}
      foot={<><Told><Show when={mode() === 'sure' || mode() === 'always-sure'}>{reason()}</Show></Told><Switch>
        <Match when={mode() === 'deny' || mode() === 'interrupt'}><Deny deciding={deciding} interrupts={mode() === 'interrupt'} onBack={() => setMode('plain')} /></Match>
        <Match when={mode() === 'edit'}>
          <div class="decision-buttons"><button onClick={() => setMode('plain')}>Back</button><button class="primary" disabled={draft() === null} onClick={finishEdit}>Done</button></div>
        </Match>
        <Match when={mode() === 'always'}>
          <div class="decision-buttons">
            <button onClick={() => setMode('plain')}>Back</button>
            <button class="primary" disabled={deciding.isOff() || updates().length === 0} onClick={deciding.press(allowAlways)}>{deciding.withUnseen('Always allow')}</button>
          </div>
        </Match>
        <Match when={mode() === 'always-sure'}>
          <div class="decision-buttons">
            <button onClick={() => setMode('always')}>Back</button>
            <button class="danger" disabled={deciding.isOff() || updates().length === 0} onClick={deciding.press(allowAlways)}>{deciding.withUnseen(kind === 'command' ? 'Run it, and never ask again' : 'Do it, and never ask again')}</button>
          </div>
        </Match>
        <Match when={mode() === 'sure'}>
          <div class="decision-buttons">
            <button onClick={() => setMode('plain')}>Back</button>
            <button class="danger" disabled={deciding.isOff()} onClick={deciding.press(allow)}>{deciding.withUnseen(kind === 'command' ? 'Run it' : 'Do it')}</button>
          </div>
        </Match>
        <Match when={true}>
          <div class="decision-buttons">
            <button disabled={deciding.isOff()} onClick={deciding.press(() => setMode('deny'))}>Deny…</button>
            <button class="primary" disabled={deciding.isOff()} onClick={deciding.press(allow)}>{deciding.withUnseen('Allow once')}</button>
          </div>
        </Match>
      </Switch></>}>
      <Show when={mode() === 'edit'} fallback={<>
        <Show when={isAlways()}><AlwaysPanel updates={offered()} onChange={setUpdates} /></Show>
        <Switch fallback={<><Reasons reasons={risk().reasons} /><Arguments input={input()} deciding={deciding} /></>}>
          <Match when={kind === 'command'}>
            <CommandRows risk={risk()} command={String(input().command)} />
            <Arguments input={input()} deciding={deciding} without={drawn()} />
          </Match>
          <Match when={kind === 'change' || kind === 'make'}>
            <Reasons reasons={risk().reasons} />
            <ChangeBody card={props} deciding={deciding} input={input()} />
            <Arguments input={input()} deciding={deciding} without={drawn()} />
          </Match>
        </Switch>
        <div class="decision-why quiet">
          <Show when={kind === 'command'}><p>In <code><SafeText text={cwd} /></code></p></Show>
          <Show when={says()}>{(words) => <p>It says: <SafeText text={words()} /></p>}</Show>
          <p>Tool <code><SafeText text={toolOf(approval)} /></code></p>
        </div>
        <Facts card={props} />
      </>}>
        <EditFirst kind={kind} input={input()} onChange={setDraft} />
      </Show>
      <Show when={canAct() && (mode() === 'plain' || mode() === 'sure')}>
        <div class="decision-more">
          <Show when={offered().length > 0}><button class="plain" onClick={() => setMode('always')}>▸ Always allow…</button></Show>
          <button class="plain" onClick={startEdit}>▸ Edit first</button>
          <Show when={changed() !== undefined}><button class="plain" onClick={putBack}>Put back</button></Show>
          <button class="plain" onClick={deciding.press(() => setMode('interrupt'))}>Deny and interrupt…</button>
        </div>
      </Show>
    </Frame>
  );
}
