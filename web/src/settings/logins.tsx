// Owns the browsers that were let in: each can be sent out, this one too.
import { For, Show, createSignal } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { signOutHere } from './sign-out';
import { Loading } from '../parts/loading';
import { toast } from '../parts/toasts';
import { ago, exact } from '../parts/time';
import { Told } from '../parts/told';

/** The part "Logins". */
export function Logins() {
  const [loaded, { refetch }] = createAsked(() => rest.GET('/v1/logins'));
  const [busy, setBusy] = createSignal<string>();
  const end = async (id: string, isCurrent: boolean) => {
    setBusy(id);
    try {
      if (isCurrent) return await signOutHere();
      await rest.DELETE('/v1/logins/{login_id}', { params: { path: { login_id: id } } });
      toast('That browser is signed out.');
      await refetch();
    } catch (error) {
      toast(`It is still signed in: ${said(error).text}`, { isProblem: true });
    } finally {
      setBusy(undefined);
    }
  };
  return (
    <div class="choices">
      <p class="quiet">These browsers are signed in. A login ends 30 days after its last use, or when you end it here or by <code>trunkline logins revoke</code>.</p>
      <Told><Show when={loaded.error as unknown}>{(error) => <p class="problem">The logins could not be read: {said(error()).text} <button type="button" onClick={() => void refetch()}>Try again</button></p>}</Show></Told>
      <Show when={!loaded.error}>
        <ul class="health-list"><For each={loaded()?.items} fallback={<li><Show when={loaded.loading} fallback="No browser is signed in."><Loading>Reading…</Loading></Show></li>}>{(login) => (
          <li>
            <span class="key-word">{login.name ?? 'A browser'} {login.is_current && <strong>(this one)</strong>} <span class="chip">{login.role}</span>
              <span class="advice">used <time title={exact(login.last_used_at)}>{ago(login.last_used_at)}</time>, since <time title={exact(login.created_at)}>{ago(login.created_at)}</time>, until {exact(login.expires_at)}</span></span>
            <button class="danger" disabled={busy() !== undefined} onClick={() => void end(login.id, login.is_current)}>{busy() === login.id ? 'Ending…' : login.is_current ? 'Sign out' : 'End'}</button>
          </li>
        )}</For></ul>
      </Show>
    </div>
  );
}
