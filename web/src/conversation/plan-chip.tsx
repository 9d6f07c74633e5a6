// Owns the line in the header of a conversation that says how far the agent is with its plan: `Plan 3/7: Run the tests`.
import { Show, createMemo } from 'solid-js';
import type { Todo } from '../fold/model';
import { titleWith } from '../parts/keys';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';

/** The line in two parts: how far it is, and what is done now; `null` without a plan. */
export function planWords(todos: readonly Todo[]): { far: string; now: string } | null {
  if (todos.length === 0) return null;
  const current = todos.find((todo) => todo.status === 'in_progress');
  const now = current === undefined ? '' : current.doing || current.text;
  return { far: `Plan ${todos.filter((todo) => todo.status === 'completed').length}/${todos.length}`, now };
}

/** The line; nothing while there is no plan. It opens the plan. */
export function PlanChip(props: { todos: readonly Todo[]; open: () => void }) {
  const words = createMemo(() => planWords(props.todos), undefined, { equals: (a, b) => a?.far === b?.far && a?.now === b?.now });
  return (
    <Show when={words()}>{(said) => (
      <button type="button" class="plain plan-chip" title={titleWith(spelledOut([said().far, said().now].filter(Boolean).join(': ')), 'Plan', 'P')} onClick={() => props.open()}>
        <span class="figures">{said().far}</span><Show when={said().now}><span class="plan-chip-now one-line faint"><SafeText text={said().now} /></span></Show>
      </button>
    )}</Show>
  );
}
