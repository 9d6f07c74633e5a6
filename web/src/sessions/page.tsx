// Owns the page of all sessions.
import { A } from '@solidjs/router';
import { For } from 'solid-js';
import { sessions } from '../daemon/lobby';
import { StateShape, shownAs } from '../shell/state';

/** All sessions. */
export function SessionsPage() {
  return (
    <div class="page">
      <h1>Sessions</h1>
      <A href="/new">New</A>
      <ul><For each={sessions()}>{(one) => <li><StateShape shown={shownAs(one)} /> <A href={`/s/${one.id}`}>{one.title ?? one.last_prompt ?? one.cwd}</A></li>}</For></ul>
    </div>
  );
}
