// Owns the short way to a session: where, what, Start. The dialog of a new session has the rest, and goes on with what is written here.
import { useNavigate } from '@solidjs/router';
import { Show, createEffect, createSignal, untrack } from 'solid-js';
import { rest } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { lobby } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import { Told } from '../parts/told';
import { DirectoryField, recentDirectories } from './directory';
import { PAGE_OPTIONS } from './launch';
import { EMPTY, keepDraft, keptDraft, problemsOf, requestKeys, type Problems } from './new-draft';
import { Simulated } from './simulated';

/** The form. */
export function QuickStart() {
  const navigate = useNavigate();
  const kept = { ...EMPTY, ...keptDraft() };
  // A directory without words is no draft: it would hold against the one that is used now.
  const [cwd, setCwd] = createSignal(kept.prompt.trim() === '' ? '' : kept.cwd);
  const [prompt, setPrompt] = createSignal(kept.prompt);
  const [problems, setProblems] = createSignal<Problems>({});
  const [isBusy, setBusy] = createSignal(false);
  const keyFor = requestKeys();
  // The directory of before is likely the one of now.
  createEffect(() => { if (lobby.isThere && untrack(cwd) === '') setCwd(untrack(recentDirectories)[0] ?? ''); });
  const keep = () => keepDraft({ ...EMPTY, ...keptDraft(), cwd: cwd(), prompt: prompt() });
  const start = async () => {
    if (isBusy() || cwd().trim() === '' || !isLive()) return;
    setBusy(true);
    setProblems({});
    const body = { cwd: cwd().trim(), ...(prompt().trim() === '' ? {} : { prompt: prompt() }), options: PAGE_OPTIONS };
    try {
      const made = await rest.POST('/v1/sessions', { params: { header: { 'Idempotency-Key': keyFor(body) } }, body });
      keepDraft(null);
      navigate(`/s/${made.id}`);
    } catch (error) {
      setProblems(problemsOf(error));
    } finally {
      setBusy(false);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.isComposing) { event.preventDefault(); void start(); }
  };
  const otherProblem = () => Object.entries(problems()).find(([field]) => field !== 'cwd')?.[1];
  return (
    <Show when={canAct()}>
      <form class="quick-start" onSubmit={(event) => { event.preventDefault(); void start(); }} onKeyDown={onKeyDown}>
        <Simulated />
        <DirectoryField value={cwd()} onInput={(value) => { setCwd(value); keep(); }} {...(problems().cwd ? { problem: problems().cwd } : {})} />
        <label class="field">What should it do?
          <textarea rows={3} value={prompt()} onInput={(event) => { setPrompt(event.currentTarget.value); keep(); }} />
        </label>
        <Told><Show when={otherProblem()}>{(text) => <p class="problem">{text()}</p>}</Show></Told>
        <div class="form-end"><span class="faint">Ctrl Enter</span><button class="primary" disabled={isBusy() || cwd().trim() === '' || !isLive()} title={isLive() ? '' : 'The daemon does not answer.'}>{isBusy() ? 'Starting…' : 'Start'}</button></div>
      </form>
    </Show>
  );
}
