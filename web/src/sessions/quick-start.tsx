// Owns the short way to a session: where, what, Start. The dialog of a new session has the rest.
import { useNavigate } from '@solidjs/router';
import { Show, createEffect, createSignal, untrack } from 'solid-js';
import { rest, said } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { lobby } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import { DirectoryField, recentDirectories } from './directory';
import { PAGE_OPTIONS } from './launch';
import { Simulated } from './simulated';

/** The form. */
export function QuickStart() {
  const navigate = useNavigate();
  const [cwd, setCwd] = createSignal('');
  const [prompt, setPrompt] = createSignal('');
  const [problem, setProblem] = createSignal('');
  const [isBusy, setBusy] = createSignal(false);
  // The directory of before is likely the one of now.
  createEffect(() => { if (lobby.isThere && untrack(cwd) === '') setCwd(untrack(recentDirectories)[0] ?? ''); });
  const start = async () => {
    setBusy(true);
    setProblem('');
    try {
      const made = await rest.POST('/v1/sessions', { body: { cwd: cwd().trim(), ...(prompt().trim() === '' ? {} : { prompt: prompt() }), options: PAGE_OPTIONS } });
      navigate(`/s/${made.id}`);
    } catch (error) {
      setProblem(said(error).text);
    } finally {
      setBusy(false);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.isComposing) { event.preventDefault(); void start(); }
  };
  return (
    <Show when={canAct()}>
      <form class="quick-start" onSubmit={(event) => { event.preventDefault(); void start(); }} onKeyDown={onKeyDown}>
        <Simulated />
        <DirectoryField value={cwd()} onInput={setCwd} />
        <label class="field">What should it do?
          <textarea rows={3} value={prompt()} onInput={(event) => setPrompt(event.currentTarget.value)} />
        </label>
        <Show when={problem()}>{(text) => <p class="problem" role="alert">{text()}</p>}</Show>
        <div class="form-end"><span class="faint">Ctrl Enter</span><button class="primary" disabled={isBusy() || cwd().trim() === '' || !isLive()} title={isLive() ? '' : 'The daemon does not answer.'}>{isBusy() ? 'Starting…' : 'Start'}</button></div>
      </form>
    </Show>
  );
}
