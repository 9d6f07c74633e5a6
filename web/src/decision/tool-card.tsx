// Owns the card of a call of a tool: what would happen, its risks, and allow, deny, always allow and edit first.
import { Match, Show, Switch, createMemo, createSignal } from 'solid-js';
import { useKeys } from '../shell/keys';
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
import { cardKindOf, inputOf, questionOf, toolOf } from './request';
import { riskOf } from './risk';

type Mode = 'plain' | 'sure' | 'deny' | 'interrupt' | 'always' | 'edit';

/** The card of a call of a tool. */
export function ToolCard(props: CardProps) {
  const deciding = useDeciding(props);
  const { approval, cwd } = props;
  const kind = cardKindOf(approval);
  const [mode, setMode] = createSignal<Mode>('plain');
  const [changed, setChanged] = createSignal<Record<string, unknown>>();
  const [draft, setDraft] = createSignal<Record<string, unknown> | null>(null);
  const [updates, setUpdates] = createSignal<Update[]>([]);
  const input = () => changed() ?? inputOf(approval);
  const risk = createMemo(() => riskOf(approval, cwd, input()));
  const offered = updatesFor(approval);
  // A call without a description has the command itself in its place.
  const hasDescription = () => kind === 'command' && (approval.description ?? '') !== '' && approval.description !== inputOf(approval).command;
  const isRisky = () => risk().reasons.length > 0;

  const body = () => ({ decision: 'allow' as const, ...(changed() === undefined ? {} : { updated_input: changed() as Record<string, unknown> }) });
  const allow = () => { if (isRisky() && mode() !== 'sure') setMode('sure'); else void deciding.send(body()); };
  const allowAlways = () => { if (updates().length > 0) void deciding.send({ ...body(), updated_permissions: updates() }); };
  const finishEdit = () => {
    const next = draft();
    if (next === null) return;
    setChanged(JSON.stringify(next) === JSON.stringify(inputOf(approval)) ? undefined : next);
    setMode('plain');
  };
  const startEdit = () => { setDraft(structuredClone(input())); setMode('edit'); };

  useKeys('Decision', [
    { keys: 'a', word: 'Allow once', run: deciding.key(() => (mode() === 'always' ? allowAlways() : mode() === 'edit' ? undefined : allow())) },
    { keys: 'd', word: 'Deny…', run: deciding.key(() => setMode('deny')) },
    { keys: 'A', word: 'Always allow…', run: () => { if (offered.length > 0) setMode(mode() === 'always' ? 'plain' : 'always'); } },
    { keys: 'D', word: 'Deny and interrupt', run: deciding.key(() => setMode('interrupt')) },
    { keys: 'e', word: 'Edit first', run: startEdit },
    { keys: 'v', word: 'Show all', run: deciding.showAll },
    { keys: 'j', word: 'Next decision', run: () => props.onMove?.(1) },
    { keys: 'k', word: 'Decision before', run: () => props.onMove?.(-1) },
    { keys: 'Escape', word: 'Back', run: () => { if (mode() === 'plain') return false; setMode('plain'); return undefined; } },
  ], { works: () => props.works?.() ?? true });

  const title = () => (kind === 'change' || kind === 'make' || kind === 'command' ? null : toolOf(approval));
  return (
    <Frame card={props} deciding={deciding} question={questionOf(approval, cwd)} onSubmit={() => { if (mode() === 'edit') finishEdit(); }}
      mark={<Show when={changed() !== undefined}><span class="chip">changed by you</span></Show>}
      foot={<Switch>
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
        <Match when={mode() === 'sure'}>
          <p class="risk-reason" role="status">▲ It {risk().reasons[0]}{risk().reasons.length > 1 ? `, and ${risk().reasons.length - 1} more` : ''}.</p>
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
      </Switch>}>
      <Show when={mode() === 'edit'} fallback={<>
        <Show when={mode() === 'always'}><AlwaysPanel updates={offered} onChange={setUpdates} /></Show>
        <Switch fallback={<><Reasons reasons={risk().reasons} /><Arguments input={input()} deciding={deciding} /></>}>
          <Match when={kind === 'command'}>
            <CommandRows risk={risk()} command={String(input().command)} />
            <Arguments input={input()} deciding={deciding} without={['command', 'description']} />
          </Match>
          <Match when={kind === 'change' || kind === 'make'}><Reasons reasons={risk().reasons} /><ChangeBody card={props} deciding={deciding} input={input()} /></Match>
        </Switch>
        <div class="decision-why quiet">
          <Show when={kind === 'command'}><p>In <code><SafeText text={cwd} /></code></p></Show>
          <Show when={hasDescription()}><p>It says: <SafeText text={approval.description ?? ''} /></p></Show>
          <Show when={title()}>{(name) => <p>Tool <code><SafeText text={name()} /></code></p>}</Show>
        </div>
        <Facts card={props} />
      </>}>
        <EditFirst kind={kind} input={input()} onChange={setDraft} />
      </Show>
      <Show when={mode() === 'plain' || mode() === 'sure'}>
        <div class="decision-more">
          <Show when={offered.length > 0}><button class="plain" onClick={() => setMode('always')}>▸ Always allow…</button></Show>
          <button class="plain" onClick={startEdit}>▸ Edit first</button>
          <Show when={changed() !== undefined}><button class="plain" onClick={() => setChanged(undefined)}>Put back</button></Show>
          <button class="plain" onClick={deciding.press(() => setMode('interrupt'))}>Deny and interrupt…</button>
        </div>
      </Show>
    </Frame>
  );
}
