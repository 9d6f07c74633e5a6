// Owns how a browser signs in: by the address that `trunkline open` opens, or by pasting the token.
import { useNavigate } from '@solidjs/router';
import { Show, createSignal, onMount } from 'solid-js';
import { said } from '../daemon/daemon';
import { hasLoginEnded, signIn } from '../daemon/login';
import { Told } from '../parts/told';

/** Takes the ticket behind `#`, posts it once, and takes it out of the history. */
export function OpenLink() {
  const navigate = useNavigate();
  const [problem, setProblem] = createSignal<string>();
  onMount(async () => {
    const ticket = location.hash.slice(1);
    history.replaceState(null, '', '/open');
    if (ticket === '') return navigate('/', { replace: true });
    try {
      await signIn({ ticket });
      navigate('/', { replace: true });
    } catch (error) {
      setProblem(said(error).text);
    }
  });
  return (
    <Show when={problem()} fallback={<main class="page"><p>Signing in…</p></main>}>
      {(text) => <Login problem={`This address does not work any more: ${text()}`} />}
    </Show>
  );
}

/** Asks for a login. */
export function Login(props: { problem?: string }) {
  const [token, setToken] = createSignal('');
  const [problem, setProblem] = createSignal(props.problem);
  const [isBusy, setBusy] = createSignal(false);
  const navigate = useNavigate();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn({ token: token().trim() });
      setToken('');
      if (location.pathname === '/open' || location.pathname === '/login') navigate('/', { replace: true });
    } catch (error) {
      setProblem(said(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="page login">
      <Show when={hasLoginEnded()} fallback={<h1>This browser is not signed in.</h1>}>
        <h1>This login was ended.</h1>
        <p>Somebody ended it, or it was not used for 30 days. Your drafts are kept: sign in again, and you are back on this page.</p>
      </Show>
      <p>On the machine: <code>trunkline open</code>, and for a phone <code>trunkline open --qr</code>.</p>
      <form onSubmit={(event) => void submit(event)}>
        <label for="token">Or paste its token</label>
        <div class="with-button">
          <input id="token" type="password" autocomplete="off" spellcheck={false} value={token()} onInput={(event) => setToken(event.currentTarget.value)} />
          <button class="primary" disabled={isBusy() || token().trim() === ''}>Go in</button>
        </div>
      </form>
      <Told><Show when={problem()}>{(text) => <p class="problem">{text()}</p>}</Show></Told>
    </main>
  );
}
