// Owns the editing of a call before it is allowed: the command, the text of the file, or the arguments.
import { For, Match, Show, Switch, createSignal, onMount } from 'solid-js';
import type { CardKind } from '../lobby/request';
import { Told } from '../parts/told';

type Input = Record<string, unknown>;

/** The fields for what is asked about. `onChange` hears the input as it would be; `null`: it cannot be sent as it is. */
export function EditFirst(props: { kind: CardKind; input: Input; onChange: (input: Input | null) => void }) {
  const [draft, setDraft] = createSignal<Input>(structuredClone(props.input));
  const [problem, setProblem] = createSignal<string>();
  let host: HTMLDivElement | undefined;
  onMount(() => host?.querySelector('textarea')?.focus());
  const change = (next: Input) => { setDraft(next); setProblem(undefined); props.onChange(next); };
  const changeJson = (text: string) => {
    try {
      const next: unknown = JSON.parse(text);
      if (next === null || typeof next !== 'object' || Array.isArray(next)) throw new SyntaxError('The arguments must be an object.');
      change(next as Input);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      props.onChange(null);
    }
  };
  const edits = (): Input[] => (Array.isArray(draft().edits) ? draft().edits as Input[] : []);
  const isSimpleEdit = () => props.kind === 'change' && typeof draft().new_string === 'string';
  return (
    <div class="edit-first" ref={host}>
      <Switch fallback={<Area label="Arguments, as JSON" value={JSON.stringify(props.input, null, 2)} onInput={changeJson} />}>
        <Match when={props.kind === 'command'}><Area label="Command" value={String(props.input.command)} onInput={(command) => change({ ...draft(), command })} /></Match>
        <Match when={props.kind === 'make'}><Area label="Text of the file" value={String(props.input.content)} onInput={(content) => change({ ...draft(), content })} /></Match>
        <Match when={isSimpleEdit()}><Area label="The new words" value={String(props.input.new_string)} onInput={(new_string) => change({ ...draft(), new_string })} /></Match>
        <Match when={props.kind === 'change' && edits().length > 0}>
          <For each={props.input.edits as Input[]}>{(edit, i) => (
            <Area label={`The new words, place ${i() + 1}`} value={String(edit.new_string)} onInput={(new_string) => change({ ...draft(), edits: edits().with(i(), { ...edits()[i()], new_string }) })} />
          )}</For>
        </Match>
      </Switch>
      <Told><Show when={problem()}>{(words) => <p class="problem">This cannot be read: {words()}</p>}</Show></Told>
    </div>
  );
}

function Area(props: { label: string; value: string; onInput: (text: string) => void }) {
  return (
    <label>{props.label}
      <textarea class="code-field" spellcheck={false} rows={Math.min(16, Math.max(3, props.value.split('\n').length + 1))} value={props.value} onInput={(event) => props.onInput(event.currentTarget.value)} />
    </label>
  );
}
