// Owns the plan of a conversation: the agent's to-do list, as it is now.
import { For, Show } from 'solid-js';
import type { Conversation } from '../live/store';
import type { Todo } from '../fold/model';
import { SafeText } from '../text/safe';
import { calm } from './calm';

const SHAPES: Record<Todo['status'], [shape: string, word: string]> = {
  completed: ['✓', 'Done'], in_progress: ['≡', 'At work'], pending: ['○', 'To do'],
};

/** The list. */
export function Plan(props: { conversation: Conversation }) {
  const folded = calm(() => props.conversation.folded());
  return (
    <Show when={folded().todos.length > 0} fallback={<p class="quiet">It made no plan{props.conversation.hasOlder() ? ' in what is loaded' : ''}.</p>}>
      <ol class="plan">
        <For each={folded().todos}>{(todo) => (
          <li class={`is-${todo.status}`}>
            <span class="plan-shape" role="img" aria-label={SHAPES[todo.status][1]}>{SHAPES[todo.status][0]}</span>
            <span><SafeText text={todo.status === 'in_progress' && todo.doing !== '' ? todo.doing : todo.text} /></span>
          </li>
        )}</For>
      </ol>
    </Show>
  );
}
