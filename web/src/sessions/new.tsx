// Owns the dialog of a new session: where, what, with which model, mode, tools, servers, budget and labels; also resume and fork.
import { useNavigate, useSearchParams } from '@solidjs/router';
import { For, Show, createEffect, createUniqueId, untrack, type JSX } from 'solid-js';
import { createStore } from 'solid-js/store';
import { rest } from '../daemon/daemon';
import { isLive } from '../daemon/link';
import { lobby, sessions } from '../lobby/lobby';
import { canAct } from '../daemon/role';
import { Layer } from '../parts/layer';
import { MODES, effortWord } from '../parts/mode-words';
import { spelledOut } from '../text/hostile';
import { DirectoryField, recentDirectories } from './directory';
import { EFFORTS, EMPTY, keepDraft, keptDraft, problemsOf, requestKeys, requestOf, type Draft, type Problems } from './new-draft';
import { Simulated } from './simulated';
import { titleOf } from '../lobby/words';
import { Told } from '../parts/told';

const FORKABLE = 50;

/** The dialog. */
export default function NewSession() {
  const navigate = useNavigate();
  const [query] = useSearchParams<{ cwd?: string; from?: string }>();
  const [draft, setDraft] = createStore<Draft>({ ...EMPTY, ...keptDraft(), servers: [], ...(query.cwd ? { cwd: query.cwd } : {}), from: query.from ?? 'new' });
  const [state, setState] = createStore<{ problems: Problems; isBusy: boolean }>({ problems: {}, isBusy: false });
  // A page that was opened here knows no session yet.
  createEffect(() => { if (lobby.isThere && untrack(() => draft.cwd) === '') setDraft('cwd', untrack(recentDirectories)[0] ?? ''); });
  createEffect(() => keepDraft({ ...draft }));
  const models = () => [...new Set(sessions().flatMap((one) => (one.model && !one.simulated ? [one.model] : [])))].sort();
  const parent = () => (draft.from === 'new' || draft.from === 'resume' ? undefined : lobby.byId[draft.from]);
  const isFork = () => draft.from !== 'new' && draft.from !== 'resume';
  const close = () => { if (history.length > 1) navigate(-1); else navigate('/'); };
  const keyFor = requestKeys();
  const send = async (): Promise<string | undefined> => {
    if (isFork()) {
      const body = { ...(draft.prompt.trim() === '' ? {} : { prompt: draft.prompt }), ...(draft.title.trim() === '' ? {} : { title: draft.title.trim() }) };
      const params = { path: { id: draft.from }, header: { 'Idempotency-Key': keyFor(body) } };
      return (await rest.POST('/v1/sessions/{id}/fork', { params, body })).id;
    }
    const made = requestOf(draft);
    if ('problems' in made) {
      setState('problems', made.problems);
      return undefined;
    }
    return (await rest.POST('/v1/sessions', { params: { header: { 'Idempotency-Key': keyFor(made.request) } }, body: made.request })).id;
  };
  const start = async () => {
    if (state.isBusy) return;
    setState({ isBusy: true, problems: {} });
    setState('problems', { cwd: undefined, budget: undefined, labels: undefined, servers: undefined, conversation: undefined, form: undefined } as unknown as Problems);
    try {
      const id = await send();
      if (id === undefined) return;
      keepDraft(null);
      navigate(`/s/${id}`, { replace: true });
    } catch (error) {
      setState('problems', problemsOf(error));
    } finally {
      setState('isBusy', false);
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.isComposing) { event.preventDefault(); void start(); }
  };
  const text = (name: keyof Draft) => ({ value: draft[name] as string, onInput: (event: { currentTarget: { value: string } }) => setDraft(name as 'title', event.currentTarget.value) });
  const inDetails = () => (['allowed', 'disallowed', 'budget', 'labels', 'servers', 'tag', 'title', 'effort'] as const).some((name) => state.problems[name] !== undefined);
  let details: HTMLDetailsElement | undefined;
  createEffect(() => { if (inDetails() && details !== undefined) details.open = true; });
  return (
    <Layer title="New session" onClose={close} hasAddress>
      <Show when={canAct()} fallback={<p>This login only watches.</p>}>
        <form class="new-session" novalidate onSubmit={(event) => { event.preventDefault(); void start(); }} onKeyDown={onKeyDown}>
          <Simulated />
          <Show when={!isFork()}>
            <DirectoryField value={draft.cwd} onInput={(cwd) => setDraft('cwd', cwd)} {...(state.problems.cwd ? { problem: state.problems.cwd } : {})} />
          </Show>
          <Field word="What should it do?" problem={state.problems.prompt}>{(id) => <textarea id={id} rows={4} autofocus {...text('prompt')} />}</Field>
          <Show when={!isFork()}>
            <div class="form-pair">
              <Field word="Model" problem={state.problems.model}>{(id) => (
                <>
                  <input id={id} list="models" placeholder="Default" autocomplete="off" spellcheck={false} {...text('model')} />
                  <datalist id="models"><For each={['opus', 'sonnet', 'haiku', ...models()]}>{(one) => <option value={one} />}</For></datalist>
                </>
              )}</Field>
              <Field word="Permissions" problem={state.problems.mode}>{(id) => (
                <select id={id} value={draft.mode} onChange={(event) => setDraft('mode', event.currentTarget.value)}>
                  <option value="">Default</option><For each={MODES}>{(one) => <option value={one.mode} title={one.about} selected={one.mode === draft.mode}>{one.word}</option>}</For>
                </select>
              )}</Field>
            </div>
          </Show>
          <Field word="From">{(id) => (
            <select id={id} value={draft.from} onChange={(event) => setDraft('from', event.currentTarget.value)}>
              <option value="new">A new conversation</option>
              <option value="resume" selected={draft.from === 'resume'}>One that was begun in a terminal</option>
              <optgroup label="Fork of">
                <Show when={parent()}>{(one) => <option value={one().id} selected>{spelledOut(titleOf(one()))}</option>}</Show>
                <For each={sessions().filter((one) => one.turns > 0 && one.id !== parent()?.id).slice(0, FORKABLE)}>{(one) => <option value={one.id}>{spelledOut(titleOf(one).slice(0, 60))}</option>}</For>
              </optgroup>
            </select>
          )}</Field>
          <Show when={draft.from === 'resume'}>
            <Field word="The CLI's id of the conversation" problem={state.problems.conversation}>{(id) => <input id={id} class="code-input" spellcheck={false} autocomplete="off" {...text('conversation')} />}</Field>
          </Show>
          <details class="new-more" ref={details}>
            <summary>{isFork() ? 'Name' : 'Tools, MCP, budget, labels'}</summary>
            <Field word="Name" problem={state.problems.title}>{(id) => <input id={id} {...text('title')} />}</Field>
            <Show when={!isFork()}>
              <div class="form-pair">
                <Field word="Tag" problem={state.problems.tag}>{(id) => <input id={id} {...text('tag')} />}</Field>
                <Field word="Budget, US dollars" problem={state.problems.budget}>{(id) => <input id={id} inputmode="decimal" placeholder="No limit" {...text('budget')} />}</Field>
                <Field word="Effort" problem={state.problems.effort}>{(id) => (
                  <select id={id} value={draft.effort} onChange={(event) => setDraft('effort', event.currentTarget.value)}>
                    <option value="">Default</option><For each={EFFORTS}>{(one) => <option value={one} selected={one === draft.effort}>{effortWord(one)}</option>}</For>
                  </select>
                )}</Field>
              </div>
              <div class="form-pair">
                <Field word="Run without asking, one a line" problem={state.problems.allowed}>{(id) => <textarea id={id} class="code-input" rows={3} placeholder="Bash(git *)" spellcheck={false} {...text('allowed')} />}</Field>
                <Field word="Never run, one a line" problem={state.problems.disallowed}>{(id) => <textarea id={id} class="code-input" rows={3} placeholder="WebFetch" spellcheck={false} {...text('disallowed')} />}</Field>
              </div>
              <Field word="Labels, one a line" problem={state.problems.labels}>{(id) => <textarea id={id} class="code-input" rows={2} placeholder="team=tools" spellcheck={false} {...text('labels')} />}</Field>
              <fieldset class="new-servers">
                <legend>MCP servers</legend>
                <For each={draft.servers}>{(server, at) => (
                  <div class="new-server">
                    <input aria-label={`Name of server ${at() + 1}`} placeholder="name" value={server.name} onInput={(event) => setDraft('servers', at(), 'name', event.currentTarget.value)} />
                    <textarea aria-label={`Configuration of server ${at() + 1}, as JSON`} class="code-input" rows={3} spellcheck={false} placeholder={'{"command": "my-server", "args": []}'} value={server.json} onInput={(event) => setDraft('servers', at(), 'json', event.currentTarget.value)} />
                    <button type="button" onClick={() => setDraft('servers', (all) => all.filter((_, other) => other !== at()))}>Remove</button>
                  </div>
                )}</For>
                <button type="button" onClick={() => setDraft('servers', draft.servers.length, { name: '', json: '' })}>Add a server</button>
                <Told><Show when={state.problems.servers}>{(problem) => <p class="field-problem">{problem()}</p>}</Show></Told>
              </fieldset>
            </Show>
          </details>
          <Told><Show when={state.problems.form}>{(problem) => <p class="problem">{problem()}</p>}</Show></Told>
          <div class="form-end new-end"><span class="faint">Ctrl Enter</span><button class="primary" disabled={state.isBusy || !isLive()}>{state.isBusy ? 'Starting…' : 'Start'}</button></div>
        </form>
      </Show>
    </Layer>
  );
}

function Field(props: { word: string; problem?: string | undefined; children: (id: string) => JSX.Element }) {
  const id = createUniqueId();
  return (
    <div class="field">
      <label for={id}>{props.word}</label>
      {props.children(id)}
      <Told><Show when={props.problem}>{(problem) => <p class="field-problem">{problem()}</p>}</Show></Told>
    </div>
  );
}
