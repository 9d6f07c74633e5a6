// Owns the card of a plan: read, changed by step or as text, remarked on, and started in the mode that a person chooses.
import { For, Show, createMemo, createSignal } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest } from '../daemon/daemon';
import { useKeys } from '../parts/keys';
import { modesFor } from '../parts/mode-words';
import { spelledOut } from '../text/hostile';
import { Markdown } from '../text/markdown';
import { SafeText } from '../text/safe';
import { useDeciding, type CardProps } from './deciding';
import { Deny } from './deny';
import { Facts, Frame } from './frame';
import { keptStore } from './kept';
import { inputOf } from '../lobby/request';
import { partsOf, planOf, withStep } from './steps';

/** The card of a plan. */
export default function PlanCard(props: CardProps) {
  const given = () => props.approval.plan ?? '';
  const [kept, setKept] = keptStore<{ plan: string; next: string; remarks: Record<string, string> }>(props.approval.id, { plan: given(), next: '', remarks: {} });
  const [mode, setMode] = createSignal<'plain' | 'deny' | 'interrupt' | 'text'>('plain');
  const deciding = useDeciding(props, mode);
  const [open, setOpen] = createSignal<{ step: number; kind: 'edit' | 'remark' }>();
  const parts = createMemo(() => partsOf(kept.plan));
  const isChanged = () => kept.plan !== given();
  const remarks = () => Object.entries(kept.remarks).filter(([, words]) => words.trim() !== '');
  const remarkText = () => remarks().map(([step, words]) => `On “${step.split('\n')[0]?.slice(0, 80)}”: ${words.trim()}`).join('\n');
  const [session] = createAsked(() => rest.GET('/v1/sessions/{id}', { params: { path: { id: props.approval.session_id } } }).catch(() => undefined));
  // A plan that starts in its own mode would only be planned again.
  const nextModes = () => modesFor({ options: session()?.options }).filter(({ mode }) => mode !== 'plan' && mode !== 'dontAsk');
  const startWord = () => (remarks().length === 0 ? 'Start' : `Start without ${remarks().length} ${remarks().length === 1 ? 'remark' : 'remarks'}`);
  const asks = () => (Array.isArray(inputOf(props.approval).allowedPrompts) ? inputOf(props.approval).allowedPrompts as { tool?: string; prompt?: string }[] : []);
  const setPart = (i: number, text: string) => setKept('plan', planOf(parts().with(i, { text, isStep: true })));
  const start = () => void deciding.send({
    decision: 'allow', ...(isChanged() ? { plan: kept.plan } : {}), ...(kept.next === '' ? {} : { next_mode: kept.next as 'default' }),
  });

  useKeys('Decision', [
    { keys: 'a', word: 'Start', run: deciding.key(() => { if (mode() === 'plain') start(); }) },
    { keys: 'd', word: 'Keep planning', run: deciding.key(() => setMode('deny')) },
    { keys: 'D', word: 'Deny and interrupt', run: deciding.key(() => setMode('interrupt')) },
    { keys: 'e', word: 'Edit as text', run: () => setMode('text') },
    { keys: 'v', word: 'Show all', run: deciding.showAll },
    { keys: 'j', word: 'Next decision', run: () => props.onMove?.(1) },
    { keys: 'k', word: 'Decision before', run: () => props.onMove?.(-1) },
    { keys: 'Escape', word: 'Back', inText: true, run: () => {
      // A step that is open closes first, with what was written in it.
      if (open() !== undefined) {
        (document.activeElement as HTMLElement | null)?.blur();
        setOpen(undefined);
        return undefined;
      }
      if (mode() === 'plain') return false;
      setMode('plain');
      return undefined;
    } },
  ], { works: () => props.works?.() ?? true });

  return (
    <Frame card={props} deciding={deciding} question="A plan to review" onSubmit={() => { if (mode() === 'text') setMode('plain'); }}
      mark={<Show when={isChanged()}><span class="chip">changed by you</span></Show>}
      foot={<Show when={mode() === 'plain' || mode() === 'text'} fallback={
        <Deny deciding={deciding} interrupts={mode() === 'interrupt'} word="Keep planning" label="What should the plan do instead?" begin={remarkText()} onBack={() => setMode('plain')} />}>
        <div class="decision-buttons">
          <Show when={mode() === 'text'} fallback={<>
            <button disabled={deciding.isOff()} onClick={deciding.press(() => setMode('deny'))}>Keep planning{remarks().length > 0 ? ` (${remarks().length} ${remarks().length === 1 ? 'remark' : 'remarks'})` : ''}</button>
            <button class="primary" disabled={deciding.isOff()} onClick={deciding.press(start)}>{deciding.withUnseen(startWord())}</button>
          </>}>
            <button onClick={() => { setKept('plan', given()); setMode('plain'); }}>Put back</button>
            <button class="primary" onClick={() => setMode('plain')}>Done</button>
          </Show>
        </div>
      </Show>}>
      <Show when={mode() === 'text'} fallback={<>
        <For each={parts()}>{(part, i) => (
          <Show when={part.isStep} fallback={<Markdown text={part.text} />}>
            <div class="plan-step">
              <Show when={open()?.step === i() && open()?.kind === 'edit'} fallback={<Markdown text={part.text} />}>
                <label class="only-label"><span class="only-heard">This step</span>
                  <textarea rows={Math.max(2, part.text.split('\n').length)} value={part.text} onChange={(event) => { setPart(i(), event.currentTarget.value); setOpen(undefined); }} /></label>
              </Show>
              <span class="plan-step-acts">
                <button class="plain" aria-label={`${open()?.step === i() && open()?.kind === 'edit' ? 'Done with' : 'Edit'} step: ${spelledOut(part.text.slice(0, 40))}`} onClick={() => setOpen(open()?.step === i() ? undefined : { step: i(), kind: 'edit' })}>{open()?.step === i() && open()?.kind === 'edit' ? 'Done' : 'Edit'}</button>
                <button class="plain" aria-label={`Remark on step: ${spelledOut(part.text.slice(0, 40))}`} onClick={() => setOpen({ step: i(), kind: 'remark' })}>Remark</button>
              </span>
              <Show when={(open()?.step === i() && open()?.kind === 'remark') || (kept.remarks[part.text] ?? '') !== ''}>
                <label class="plan-remark">Remark<textarea rows={2} value={kept.remarks[part.text] ?? ''} onInput={(event) => setKept('remarks', part.text, event.currentTarget.value)} /></label>
              </Show>
            </div>
          </Show>
        )}</For>
        <div class="decision-more">
          <button class="plain" onClick={() => setKept('plan', planOf(withStep(parts(), 'A new step')))}>+ Add a step</button>
          <button class="plain" onClick={() => setMode('text')}>▸ Edit as text</button>
          <Show when={isChanged()}><button class="plain" onClick={() => setKept('plan', given())}>Put back</button></Show>
        </div>
        <Show when={asks().length > 0}>
          <p>It asks to be allowed:</p>
          <ul class="plan-asks"><For each={asks()}>{(one) => <li>· <SafeText text={one.prompt ?? ''} /> <span class="quiet">(<SafeText text={one.tool ?? ''} />)</span></li>}</For></ul>
        </Show>
        <label class="plan-mode">Then work in
          <select value={kept.next} onChange={(event) => setKept('next', event.currentTarget.value)}>
            <option value="">the mode before the plan</option>
            <For each={nextModes()}>{(one) => <option value={one.mode} title={one.about} selected={one.mode === kept.next}>{one.word}</option>}</For>
          </select>
        </label>
        <Show when={props.approval.plan_file}>{(path) => <p class="quiet">It is in <code><SafeText text={path()} /></code></p>}</Show>
        <Facts card={props} />
      </>}>
        <label class="edit-first">The plan<textarea class="code-field" rows={16} value={kept.plan} onInput={(event) => setKept('plan', event.currentTarget.value)} /></label>
      </Show>
    </Frame>
  );
}
