// Owns the sections of the side panel: which of them are open, and their counts.
import ChevronRight from 'lucide-solid/icons/chevron-right';
import { For, Show, createEffect, createMemo, createSignal, on, type JSX } from 'solid-js';
import { Dynamic } from 'solid-js/web';
import type { Conversation } from '../live/store';
import { About } from './about';
import { Agents, agentCalls } from './agents';
import { calm } from './calm';
import { ChangesSection, changedFiles } from './changes-section';
import { Context } from './context';
import { PANELS, PANEL_WORDS, panel, type PanelName } from './panels';
import { Plan } from './plan';
import { Tasks, runningTasks } from './tasks';
import './side.css';

const SECTIONS: Record<PanelName, (props: { conversation: Conversation }) => JSX.Element> = {
  plan: Plan, changes: ChangesSection, agents: Agents, tasks: Tasks, context: Context, about: About,
};

/** All sections, one below the other. */
export default function Sections(props: { conversation: Conversation }) {
  const [open, setOpen] = createSignal<ReadonlySet<PanelName>>(new Set<PanelName>(['plan', panel()]));
  const folded = calm(() => props.conversation.folded());
  const heads = new Map<PanelName, HTMLElement>();
  createEffect(on(panel, (name) => {
    setOpen((all) => new Set([...all, name]));
    queueMicrotask(() => { heads.get(name)?.scrollIntoView({ block: 'start' }); heads.get(name)?.focus(); });
  }, { defer: true }));
  const toggle = (name: PanelName) => setOpen((all) => {
    const next = new Set(all);
    if (!next.delete(name)) next.add(name);
    return next;
  });
  const counts = createMemo((): Partial<Record<PanelName, string>> => {
    const now = folded();
    const done = now.todos.filter((todo) => todo.status === 'completed').length;
    const files = changedFiles(now).size;
    const agents = agentCalls(now).length;
    const tasks = runningTasks(now).length;
    return {
      plan: now.todos.length > 0 ? `${done}/${now.todos.length}` : '',
      changes: files > 0 ? `${files}${props.conversation.hasOlder() ? '+' : ''}` : '',
      agents: agents > 0 ? String(agents) : '',
      tasks: tasks > 0 ? String(tasks) : '',
    };
  });
  return (
    <div class="sections">
      <For each={PANELS}>{(name) => (
        <section class="side-section" aria-label={PANEL_WORDS[name]}>
          <h2>
            <button type="button" class="plain side-head" aria-expanded={open().has(name)} ref={(node) => heads.set(name, node)} onClick={() => toggle(name)}>
              <ChevronRight size={16} aria-hidden="true" class="side-turn" />
              {PANEL_WORDS[name]} <span class="faint figures">{counts()[name]}</span>
            </button>
          </h2>
          <Show when={open().has(name)}><div class="side-in"><Dynamic component={SECTIONS[name]} conversation={props.conversation} /></div></Show>
        </section>
      )}</For>
    </div>
  );
}
