// Owns what is said where new sessions are made and no agent CLI was found: the simulated agent takes its part.
import { Show } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest } from '../daemon/daemon';

/** The sentence. */
export const NOT_FOUND = 'No Claude Code was found on the daemon\'s machine: the simulated agent answers. It calls no model and changes nothing.';

/** Says so when it is so. */
export function Simulated() {
  const [ready] = createAsked(() => rest.GET('/readyz'));
  return <Show when={ready()?.cli?.simulated === true}><p class="quiet">{NOT_FOUND}</p></Show>;
}
