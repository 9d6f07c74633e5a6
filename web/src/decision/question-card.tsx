// Owns the card of questions: one step each, options by click or number, an answer of one's own, a remark, and all sent at once.
import { For, Show, createMemo, createSignal } from 'solid-js';
import { produce } from 'solid-js/store';
import { useKeys } from '../parts/keys';
import { spelledOut } from '../text/hostile';
import { Markdown } from '../text/markdown';
import { SafeText } from '../text/safe';
import { useDeciding, type CardProps } from './deciding';
import { Deny } from './deny';
import { Facts, Frame } from './frame';
import { keptStore } from './kept';
import { answersOf, isAnswered, questionsOf, type Given } from './questions';

/** The card of questions. */
export default function QuestionCard(props: CardProps) {
  const questions = createMemo(() => questionsOf(props.approval));
  const [kept, setKept] = keptStore<{ at: number; given: Given[] }>(props.approval.id, { at: 0, given: questionsOf(props.approval).map(() => ({ labels: [], isOther: false, other: '', note: '', isSkipped: false })) });
  const [mode, setMode] = createSignal<'plain' | 'deny' | 'interrupt'>('plain');
  const [hasRemark, setRemark] = createSignal(false);
  const deciding = useDeciding(props, () => `${mode()} ${kept.at}`);
  let host: HTMLDivElement | undefined;
  const at = () => Math.min(kept.at, questions().length - 1);
  const question = () => questions()[at()];
  const given = (): Given => kept.given[at()] ?? { labels: [], isOther: false, other: '', note: '', isSkipped: false };
  const isLast = () => at() === questions().length - 1;
  const isDone = () => questions().every((_, i) => kept.given[i] !== undefined && isAnswered(kept.given[i] as Given));
  const set = (change: (one: Given) => void) => setKept('given', at(), produce((one) => { one.isSkipped = false; change(one); }));

  const choose = (label: string) => set((one) => {
    if (question()?.isMany) one.labels = one.labels.includes(label) ? one.labels.filter((other) => other !== label) : [...one.labels, label];
    else { one.labels = [label]; one.isOther = false; }
  });
  const chooseOther = (focuses: boolean) => {
    set((one) => { one.isOther = question()?.isMany ? !one.isOther : true; if (!question()?.isMany) one.labels = []; });
    if (focuses && given().isOther) host?.querySelector<HTMLElement>('.other-answer')?.focus();
  };
  const pick = (n: number) => {
    const option = question()?.options[n - 1];
    if (option !== undefined) choose(option.label); else if (n === (question()?.options.length ?? 0) + 1) chooseOther(true);
  };
  const move = (by: 1 | -1) => { setRemark(false); setKept('at', Math.max(0, Math.min(questions().length - 1, at() + by))); };
  const skip = () => { setKept('given', at(), (one) => ({ ...one, isSkipped: true, labels: [], isOther: false })); if (!isLast()) move(1); };
  const send = () => void deciding.send({ decision: 'answer', ...answersOf(questions(), kept.given) });
  const next = () => { if (!isLast()) move(1); else if (isDone()) send(); };
  const count = () => kept.given.filter((one) => isAnswered(one) && !one.isSkipped).length;
  const sendWord = () => (questions().length === 1 ? (given().isSkipped ? 'Send without an answer' : 'Send the answer') : `Send ${count()} ${count() === 1 ? 'answer' : 'answers'}`);

  useKeys('Decision', [
    ...Array.from({ length: 9 }, (_, i) => ({ keys: String(i + 1), word: `Choose ${i + 1}`, run: deciding.key(() => pick(i + 1)) })),
    { keys: 'm', word: 'Remark', run: () => { setRemark(true); queueMicrotask(() => host?.querySelector<HTMLElement>('.remark')?.focus()); } },
    { keys: 'S', word: 'Skip', run: deciding.key(skip) },
    { keys: 'Ctrl Enter', word: 'Send', run: deciding.key(next) },
    { keys: 'd', word: 'Deny…', run: deciding.key(() => setMode('deny')) },
    { keys: 'D', word: 'Deny and interrupt', run: deciding.key(() => setMode('interrupt')) },
    { keys: 'j', word: 'Next decision', run: () => props.onMove?.(1) },
    { keys: 'k', word: 'Decision before', run: () => props.onMove?.(-1) },
  ], { works: () => props.works?.() ?? true });

  return (
    <Frame card={props} deciding={deciding} question={question()?.text ?? 'A question'} onSubmit={next}
      mark={<Show when={questions().length > 1}><span>Question {at() + 1} of {questions().length}</span></Show>}
      foot={<Show when={mode() === 'plain'} fallback={<Deny deciding={deciding} interrupts={mode() === 'interrupt'} word="Don’t answer" onBack={() => setMode('plain')} />}>
        <div class="decision-buttons">
          <Show when={at() > 0} fallback={<button disabled={deciding.isOff()} onClick={deciding.press(() => setMode('deny'))}>Don’t answer…</button>}><button onClick={() => move(-1)}>Back</button></Show>
          <button onClick={deciding.press(skip)}>Skip</button>
          <Show when={isLast()} fallback={<button class="primary" onClick={() => move(1)}>Next</button>}>
            <button class="primary" disabled={deciding.isOff() || !isDone()} onClick={deciding.press(send)}>{deciding.withUnseen(sendWord())}</button>
          </Show>
        </div>
      </Show>}>
      <div class="question" ref={host}>
        <Show when={question()?.isMany}><p class="quiet">Several may be chosen.</p></Show>
        <div role={question()?.isMany ? 'group' : 'radiogroup'} aria-label={spelledOut(question()?.text ?? '')} class="options">
          <For each={question()?.options}>{(option, i) => (
            <label class="tick">
              <input type={question()?.isMany ? 'checkbox' : 'radio'} name={`answer-${props.approval.id}-${at()}`} checked={given().labels.includes(option.label)} onChange={() => choose(option.label)} />
              <span><kbd class="faint">{i() < 9 ? i() + 1 : ''}</kbd> <strong><SafeText text={option.label} /></strong> <span class="quiet"><SafeText text={option.description} /></span>
                <Show when={option.preview !== '' && given().labels.includes(option.label)}><Markdown text={option.preview} /></Show></span>
            </label>
          )}</For>
          <div class="tick">
            <input type={question()?.isMany ? 'checkbox' : 'radio'} name={`answer-${props.approval.id}-${at()}`} checked={given().isOther} onChange={() => chooseOther(true)} aria-label="Something else" />
            <span class="other"><kbd class="faint">{(question()?.options.length ?? 0) < 9 ? (question()?.options.length ?? 0) + 1 : ''}</kbd>
              <input type="text" class="other-answer" placeholder="Something else" aria-label="Something else, in your words" value={given().other}
                onInput={(event) => { const text = event.currentTarget.value; set((one) => { one.other = text; one.isOther = text !== ''; if (text !== '' && !question()?.isMany) one.labels = []; }); }} /></span>
          </div>
        </div>
        <Show when={hasRemark() || given().note !== ''} fallback={<button class="plain" onClick={() => { setRemark(true); queueMicrotask(() => host?.querySelector<HTMLElement>('.remark')?.focus()); }}>▸ Remark</button>}>
          <label>Remark<textarea class="remark" rows={2} value={given().note} onInput={(event) => { const text = event.currentTarget.value; setKept('given', at(), 'note', text); }} /></label>
        </Show>
        <Show when={given().isSkipped}><p class="chip">skipped</p></Show>
      </div>
      <Facts card={props} />
    </Frame>
  );
}
