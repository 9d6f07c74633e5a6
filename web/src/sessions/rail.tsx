// Owns the rail of middle widths: one shape for each session, in the order of attention.
import { A } from '@solidjs/router';
import { For, createMemo } from 'solid-js';
import { sessions } from '../lobby/lobby';
import { StateShape, shownAs, wordOf } from '../lobby/state';
import { spelledOut } from '../text/hostile';
import { SafeText } from '../text/safe';
import { arrange } from '../lobby/order';
import { titleOf } from '../lobby/words';

/** The most shapes of the rail; the list has the others. */
const MOST = 60;

/** The rail. */
export function Rail() {
  const rows = createMemo(() => arrange(sessions()).flatMap((group) => group.projects.flatMap((project) => project.rows)).slice(0, MOST));
  return (
    <ul class="rail" aria-label="Sessions">
      <For each={rows()}>{(one) => (
        <li><A href={`/s/${one.id}`} class="rail-entry" aria-label={`${spelledOut(titleOf(one))}, ${wordOf(shownAs(one))}`} title={spelledOut(titleOf(one))}>
          <StateShape shown={shownAs(one)} /><span class="rail-word one-line" aria-hidden="true"><SafeText text={titleOf(one)} /></span>
        </A></li>
      )}</For>
    </ul>
  );
}
