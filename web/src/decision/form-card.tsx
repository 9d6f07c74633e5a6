// Owns the cards of MCP servers and of dialogs: a form from a schema, a page to visit, or what the agent shows.
import { For, Match, Show, Switch, createMemo, createSignal, createUniqueId } from 'solid-js';
import { useKeys } from '../parts/keys';
import { Markdown } from '../text/markdown';
import { spelledOut } from '../text/hostile';
import { SafeText, safeNodes } from '../text/safe';
import { outsideLink } from '../text/nodes';
import { safeLink } from '../text/ansi';
import { Arguments } from './arguments-body';
import { Reasons } from './command-body';
import { useDeciding, type CardProps } from './deciding';
import { contentOf, fieldsOf, problemOf, type Field, type Value } from './form';
import { Facts, Frame } from './frame';
import { keptStore } from './kept';
import { cardKindOf, questionOf } from '../lobby/request';
import { riskOf } from '../lobby/risk';
import { Told } from '../parts/told';

/** The card of a form, a page or a dialog. */
export default function FormCard(props: CardProps) {
  const deciding = useDeciding(props);
  const kind = cardKindOf(props.approval);
  const fields = createMemo(() => fieldsOf(props.approval.requested_schema, props.approval.property_order));
  const [kept, setKept] = keptStore<{ values: Record<string, Value>; touched: Record<string, boolean>; result: string }>(props.approval.id, { values: {}, touched: {}, result: '{}' });
  const [isTried, setTried] = createSignal(false);
  const valueOf = (field: Field): Value => kept.values[keyOf(field)] ?? field.fallback;
  const problems = () => fields().filter((field) => problemOf(field, valueOf(field)) !== null);
  const risk = createMemo(() => riskOf(props.approval, props.cwd));
  let host: HTMLDivElement | undefined;

  const accept = () => {
    if (kind === 'dialog') {
      const result = readObject(kept.result);
      if (result === null) return setTried(true);
      return void deciding.send({ decision: 'complete', result });
    }
    if (kind === 'visit') return void deciding.send({ decision: 'accept' });
    setTried(true);
    if (problems().length > 0) return void host?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
    void deciding.send({ decision: 'accept', content: contentOf(fields(), valueOf) });
  };
  const decline = () => void deciding.send({ decision: kind === 'dialog' ? 'cancel' : 'decline' });
  const word = { form: 'Send', visit: 'I have been there', dialog: 'Send' }[kind as 'form'];

  useKeys('Decision', [
    { keys: 'a', word, run: deciding.key(accept) },
    { keys: 'd', word: kind === 'dialog' ? 'Cancel' : 'Decline', run: deciding.key(decline) },
    ...(kind === 'dialog' ? [] : [{ keys: 'S', word: 'Skip', run: deciding.key(() => void deciding.send({ decision: 'cancel' })) }]),
    { keys: 'Ctrl Enter', word: 'Send', run: deciding.key(accept) },
    { keys: 'j', word: 'Next decision', run: () => props.onMove?.(1) },
    { keys: 'k', word: 'Decision before', run: () => props.onMove?.(-1) },
  ], { works: () => props.works?.() ?? true });

  return (
    <Frame card={props} deciding={deciding} question={questionOf(props.approval, props.cwd)} onSubmit={accept}
      foot={<>
        <Told><Show when={isTried() && problems().length > 0}><p class="form-problem">{problems().length === 1 ? 'One field needs you.' : `${problems().length} fields need you.`}</p></Show></Told>
        <div class="decision-buttons">
          <button disabled={deciding.isOff()} onClick={deciding.press(decline)}>{kind === 'dialog' ? 'Cancel' : 'Decline'}</button>
          <Show when={kind !== 'dialog'}><button disabled={deciding.isOff()} onClick={deciding.press(() => void deciding.send({ decision: 'cancel' }))}>Skip</button></Show>
          <button class="primary" disabled={deciding.isOff()} onClick={deciding.press(accept)}>{deciding.withUnseen(word)}</button>
        </div>
      </>}>
      <Show when={props.approval.message}>{(message) => <Markdown text={message()} />}</Show>
      <p class="quiet">Asked by <SafeText text={props.approval.display_name ?? props.approval.subject} />. Your answers go to it.</p>
      <Switch>
        <Match when={kind === 'visit'}>
          <Reasons reasons={risk().reasons} />
          <p>{safeLink(props.approval.url ?? '') === null ? <code><SafeText text={props.approval.url ?? ''} /></code> : outsideLink(safeLink(props.approval.url ?? '') ?? '', safeNodes(props.approval.url ?? ''), '')}</p>
        </Match>
        <Match when={kind === 'dialog'}>
          <Arguments input={(props.approval.payload ?? {}) as Record<string, unknown>} deciding={deciding} />
          <label class="edit-first">Result, as JSON<textarea class="code-field" rows={4} value={kept.result} aria-invalid={isTried() && readObject(kept.result) === null} onInput={(event) => setKept('result', event.currentTarget.value)} /></label>
          <Told><Show when={isTried() && readObject(kept.result) === null}><p class="form-problem">This is no JSON object.</p></Show></Told>
        </Match>
        <Match when={true}>
          <div class="form" ref={host}>
            <For each={fields()}>{(field) => (
              <FieldRow field={field} value={valueOf(field)} problem={kept.touched[keyOf(field)] || isTried() ? problemOf(field, valueOf(field)) : null}
                onChange={(value) => setKept('values', keyOf(field), value)} onLeave={() => setKept('touched', keyOf(field), true)} />
            )}</For>
          </div>
        </Match>
      </Switch>
      <Facts card={props} />
    </Frame>
  );
}

/** The name under which a field's value is kept. Its own name may be one that every object has. */
const keyOf = (field: Field): string => `field ${field.name}`;

function readObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value as Record<string, unknown> : null;
  } catch {
    return null;
  }
}

function FieldRow(props: { field: Field; value: Value; problem: string | null; onChange: (value: Value) => void; onLeave: () => void }) {
  const { field } = props;
  const id = createUniqueId();
  const shared = { id, get 'aria-invalid'() { return props.problem !== null; }, 'aria-describedby': `${id}-about`, 'aria-required': field.isRequired };
  const text = () => String(props.value);
  return (
    <div class="form-field">
      <Show when={field.kind === 'yes-no'} fallback={<>
        <label for={id}><SafeText text={field.title} /><Show when={field.isRequired}><span class="quiet"> (needed)</span></Show></label>
        <Switch fallback={<input {...shared} type={field.input} inputmode={field.kind === 'number' || field.kind === 'integer' ? 'decimal' : undefined} value={text()}
          onInput={(event) => props.onChange(event.currentTarget.value)} onBlur={() => props.onLeave()} />}>
          <Match when={field.kind === 'long'}><textarea {...shared} rows={4} value={text()} onInput={(event) => props.onChange(event.currentTarget.value)} onBlur={() => props.onLeave()} /></Match>
          <Match when={field.kind === 'choice'}>
            <select {...shared} value={text()} onChange={(event) => props.onChange(event.currentTarget.value)} onBlur={() => props.onLeave()}>
              <option value="">Choose…</option>
              <For each={field.choices}>{(one) => <option value={one.value}>{spelledOut(one.title)}</option>}</For>
            </select>
          </Match>
          <Match when={field.kind === 'choices'}>
            <div role="group" aria-label={spelledOut(field.title)} id={id}>
              <For each={field.choices}>{(one) => (
                <label class="tick"><input type="checkbox" checked={Array.isArray(props.value) && props.value.includes(one.value)} onChange={(event) => {
                  const now = Array.isArray(props.value) ? props.value : [];
                  props.onChange(event.currentTarget.checked ? [...now, one.value] : now.filter((other) => other !== one.value));
                  props.onLeave();
                }} /> <SafeText text={one.title} /></label>
              )}</For>
            </div>
          </Match>
        </Switch>
      </>}>
        <label class="tick"><input {...shared} type="checkbox" checked={props.value === true} onChange={(event) => props.onChange(event.currentTarget.checked)} /> <SafeText text={field.title} /></label>
      </Show>
      <p id={`${id}-about`} class="quiet"><SafeText text={field.description} /><Show when={field.pattern}>{(pattern) => <> Its form: <code><SafeText text={pattern()} code /></code></>}</Show><Show when={props.problem}>{(words) => <span class="form-problem"> {words()}</span>}</Show></p>
    </div>
  );
}
