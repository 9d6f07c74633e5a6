// Owns the list of sessions.
import { A } from '@solidjs/router';
import { For } from 'solid-js';
import { sessions } from '../daemon/lobby';
import { StateShape, shownAs } from '../shell/state';
import { arrange } from './order';

/** All sessions in the order of attention. */
export function SessionList() {
  return (
    <div class="session-list">
      <For each={arrange(sessions())}>{(group) => (
        <section>
          <h2>{group.word} {group.size}</h2>
          <ul><For each={group.projects.flatMap((project) => project.rows)}>{(one) => (
            <li><StateShape shown={shownAs(one)} /> <A href={`/s/${one.id}`}>{one.title ?? one.last_prompt ?? one.cwd}</A></li>
          )}</For></ul>
        </section>
      )}</For>
    </div>
  );
}
