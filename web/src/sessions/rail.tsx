// Owns the rail of middle widths: one shape for each session, in the order of attention.
import { A } from '@solidjs/router';
import { For, createMemo } from 'solid-js';
import { sessions } from '../daemon/lobby';
import { StateShape, shownAs, wordOf } from '../shell/state';
import { arrange } from './order';
import { titleOf } from './words';

/** The most shapes of the rail; the list has the others. */
const MOST = 60;

/** The rail. */
export function Rail() {
  const rows = createMemo(() => arrange(sessions()).flatMap((group) => group.projects.flatMap((project) => project.rows)).slice(0, MOST));
  return (
    <ul class="rail" aria-label="Sessions">
      <For each={rows()}>{(one) => (
        <li><A href={`/s/${one.id}`} class="rail-entry" aria-label={`${titleOf(one)}, ${wordOf(shownAs(one))}`} title={titleOf(one)}>
          <StateShape shown={shownAs(one)} /><span class="rail-word one-line" aria-hidden="true">{titleOf(one)}</span>
        </A></li>
      )}</For>
    </ul>
  );
}
