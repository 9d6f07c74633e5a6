// Owns the choice of "Always allow": each rule in words and as it is written, and how long it holds.
import { For, Show, createSignal } from 'solid-js';
import { SafeText } from '../text/safe';
import { SCOPES, chosenFirst, inScope, isWide, updateWords, type Scope, type Update } from './always';

/** The rules that can be allowed for good. `onChange` hears those that are chosen, as they are sent. */
export function AlwaysPanel(props: { updates: Update[]; onChange: (updates: Update[]) => void }) {
  const [chosen, setChosen] = createSignal(chosenFirst(props.updates));
  const [scope, setScope] = createSignal<Scope>('session');
  const tell = () => props.onChange(inScope(props.updates.filter((_, i) => chosen()[i]), scope()));
  tell();
  const hasRules = () => props.updates.some((update) => update.type === 'addRules');
  return (
    <fieldset class="always">
      <legend>Always allow</legend>
      <For each={props.updates}>{(update, i) => (
        <label class="tick">
          <input type="checkbox" checked={chosen()[i()]} onChange={(event) => { setChosen(chosen().with(i(), event.currentTarget.checked)); tell(); }} />
          <span><SafeText text={updateWords(update).words} /> <code class="faint"><SafeText text={updateWords(update).rule} /></code>
            <Show when={isWide(update)}><span class="risk-reason">▲ This is very wide: nothing of it will be asked again.</span></Show></span>
        </label>
      )}</For>
      <Show when={hasRules()} fallback={<p class="quiet">It holds until this session ends.</p>}>
        <label class="always-scope">How long
          <select value={scope()} onChange={(event) => { setScope(event.currentTarget.value as Scope); tell(); }}>
            <For each={SCOPES}>{(one) => <option value={one.scope}>{one.words}</option>}</For>
          </select>
        </label>
      </Show>
    </fieldset>
  );
}
