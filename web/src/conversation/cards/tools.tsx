// Owns the bodies of cards, by kind: what a tool was called with, and what came of it.
import { A } from '@solidjs/router';
import { For, Match, Show, Switch, createMemo, createSignal } from 'solid-js';
import type { CallBlock } from '../../fold/model';
import { inputOf } from '../../fold/partial-json';
import { entryOf, list, raw, str } from '../../fold/raw';
import { codeBlock } from '../../text/code-block';
import { Diff } from '../../text/diff-view';
import { languageOfPath } from '../../text/languages';
import { Markdown } from '../../text/markdown';
import { Output } from '../../text/output';
import { safeLink } from '../../text/ansi';
import { outsideLink } from '../../text/nodes';
import { SafeText, safeNodes } from '../../text/safe';
import { many } from '../../parts/time';
import { TaskOutput, addressOf } from '../../side/tasks';
import { kindOf, outputOf, sidesOf, titlesOf } from '../call-words';
import { useConversation } from '../../live/store';
import { Pictures } from './pictures';
import { AgentCard } from './agent';
import { Card } from './card';

/** The card of a call, by its kind. */
export function CallCard(props: { call: CallBlock; rowKey: string }) {
  const kind = createMemo(() => kindOf(props.call));
  return (
    <Switch fallback={<Card call={props.call} rowKey={props.rowKey}><Arguments input={inputOf(props.call)} /><ResultText call={props.call} /></Card>}>
      <Match when={kind() === 'agent'}><AgentCard call={props.call} rowKey={props.rowKey} /></Match>
      <Match when={kind() === 'command'}><Command call={props.call} rowKey={props.rowKey} /></Match>
      <Match when={kind() === 'edit' || kind() === 'write'}><Change call={props.call} rowKey={props.rowKey} /></Match>
      <Match when={kind() === 'read'}>
        <Card call={props.call} rowKey={props.rowKey}><Path text={str(inputOf(props.call).file_path)} /><FileText call={props.call} /></Card>
      </Match>
      <Match when={kind() === 'search'}>
        <Card call={props.call} rowKey={props.rowKey}>
          <Arguments input={inputOf(props.call)} />
          <Show when={props.call.result?.text}>{(text) => <Output text={text()} last={10} name="Hits" />}</Show>
        </Card>
      </Match>
      <Match when={kind() === 'fetch' || kind() === 'websearch'}>
        <Card call={props.call} rowKey={props.rowKey}>
          <Arguments input={inputOf(props.call)} />
          <Show when={titlesOf(props.call).length > 0} fallback={<Show when={props.call.result?.text}>{(text) => <Markdown text={text()} />}</Show>}>
            <Titles titles={titlesOf(props.call)} />
          </Show>
        </Card>
      </Match>
      <Match when={kind() === 'todo'}><Card call={props.call} rowKey={props.rowKey} neverByItself><Todos call={props.call} /></Card></Match>
      <Match when={kind() === 'plan'}>
        <Card call={props.call} rowKey={props.rowKey}><Markdown text={str(inputOf(props.call).plan)} /><Allowed call={props.call} /><FailureText call={props.call} /></Card>
      </Match>
      <Match when={kind() === 'question'}><Card call={props.call} rowKey={props.rowKey}><Answers call={props.call} /></Card></Match>
    </Switch>
  );
}

/** A command up to this length fits into the line of its card, also on a phone. */
const SHORT = 12;

function Command(props: { call: CallBlock; rowKey: string }) {
  const conversation = useConversation();
  const output = createMemo(() => outputOf(props.call));
  const last = () => (props.call.status === 'failed' ? 12 : 20);
  // A short command is whole in the card's line.
  const isShort = () => { const command = str(inputOf(props.call).command); return command.length <= SHORT && !command.includes('\n'); };
  return (
    <Card call={props.call} rowKey={props.rowKey} whileRunning>
      <Show when={!isShort()}><pre class="command" tabIndex={0} role="group" aria-label="Command"><SafeText text={str(inputOf(props.call).command)} code /></pre></Show>
      <Show when={str(inputOf(props.call).description)}>{(text) => <p class="quiet small"><SafeText text={text()} /></p>}</Show>
      <Show when={output() !== ''} fallback={<Show when={props.call.status === 'done' && props.call.result?.leftOutBytes == null}><p class="quiet small">{props.call.result === null ? 'The CLI does not pass on what it printed.' : 'It printed nothing.'}</p></Show>}>
        <Output text={output()} last={last()} />
      </Show>
      <Show when={props.call.isInBackground ? props.call.taskId : null}>{(taskId) => (
        <>
          <TaskOutput sessionId={conversation.id} taskId={taskId()} isOver={conversation.folded().tasks.get(taskId())?.endedAt != null} name="Output of the task" last={8} />
          <A class="open-agent" href={addressOf(conversation.id, taskId())}>Open this task</A>
        </>
      )}</Show>
      <Pictures pictures={props.call.result?.pictures ?? []} />
    </Card>
  );
}

function Change(props: { call: CallBlock; rowKey: string }) {
  const sides = createMemo(() => sidesOf(props.call));
  const path = () => str(inputOf(props.call).file_path) || str(inputOf(props.call).notebook_path);
  const most = () => (props.call.status === 'asked' ? 400 : props.call.name === 'Write' ? 30 : 60);
  return (
    <Card call={props.call} rowKey={props.rowKey}>
      <Path text={path()} />
      <Show when={props.call.partialJson === ''} fallback={<Output text={sides().after} last={8} name="What is being written" />}>
        <Diff before={sides().before} after={sides().after} path={path()} most={most()} firstLine={sides().firstLine} />
      </Show>
      <FailureText call={props.call} />
    </Card>
  );
}

/** Why it failed, in the tool's words. */
function FailureText(props: { call: CallBlock }) {
  const text = () => (props.call.status === 'failed' || props.call.status === 'denied' ? props.call.result?.text ?? '' : '');
  return <Show when={text() !== ''}><Output text={text()} last={12} name="Failure" /></Show>;
}

function Path(props: { text: string }) {
  return <p class="path"><SafeText text={props.text} /></p>;
}

function FileText(props: { call: CallBlock }) {
  const file = () => raw(raw(props.call.result?.typed).file);
  const text = () => (typeof file().content === 'string' ? str(file().content) : props.call.result?.text ?? '');
  return (
    <>
      <Show when={text() !== ''}>{codeBlock(text(), languageOfPath(str(inputOf(props.call).file_path)) ?? '')}</Show>
      <Pictures pictures={props.call.result?.pictures ?? []} />
    </>
  );
}

/** Titles of a search that are shown at first. */
const TITLES = 10;

/** The pages that a search found. */
function Titles(props: { titles: ReturnType<typeof titlesOf> }) {
  const [showsAll, setShowsAll] = createSignal(false);
  const shown = () => (showsAll() ? props.titles : props.titles.slice(0, TITLES));
  return (
    <>
      <ul class="bullets"><For each={shown()}>{({ title, url }) => (
        <li><Show when={safeLink(url)} fallback={<SafeText text={title} />}>{(href) => outsideLink(href(), safeNodes(title || url), '')}</Show></li>
      )}</For></ul>
      <Show when={props.titles.length > shown().length}>
        <button type="button" class="plain more" onClick={() => setShowsAll(true)}>▾ {many(props.titles.length - shown().length, 'more page')}</button>
      </Show>
    </>
  );
}

/** The arguments of a call as a table. */
export function Arguments(props: { input: Record<string, unknown> }) {
  return (
    <table class="call-arguments">
      <tbody>
        <For each={Object.entries(props.input)}>{([name, value]) => (
          <tr>
            <th scope="row"><SafeText text={name} /></th>
            <td><SafeText text={typeof value === 'string' ? value : JSON.stringify(value, null, 2)} code /></td>
          </tr>
        )}</For>
      </tbody>
    </table>
  );
}

function ResultText(props: { call: CallBlock }) {
  return (
    <>
      <Show when={props.call.result?.text}>{(text) => <Output text={text()} name="Result" />}</Show>
      <Pictures pictures={props.call.result?.pictures ?? []} />
    </>
  );
}

const MARKS: Record<string, [string, string]> = { completed: ['✓', 'done'], in_progress: ['≡', 'being done'], pending: ['○', 'to do'] };

function Todos(props: { call: CallBlock }) {
  return (
    <ul class="todos">
      <For each={list(inputOf(props.call).todos).map(raw)}>{(todo) => {
        const [mark, word] = entryOf(MARKS, str(todo.status)) ?? MARKS.pending!;
        return <li classList={{ quiet: todo.status === 'completed' }}><span class="call-shape" role="img" aria-label={word}>{mark}</span><span><SafeText text={str(todo.content)} /></span></li>;
      }}</For>
    </ul>
  );
}

/** The permissions that a plan asks for. */
function Allowed(props: { call: CallBlock }) {
  const prompts = () => list(inputOf(props.call).allowedPrompts).map(raw);
  return (
    <Show when={prompts().length > 0}>
      <p class="quiet small">It asks to be allowed:</p>
      <ul class="bullets"><For each={prompts()}>{(one) => <li><SafeText text={`${str(one.tool)}: ${str(one.prompt)}`} /></li>}</For></ul>
    </Show>
  );
}

function Answers(props: { call: CallBlock }) {
  const answers = () => raw(raw(props.call.result?.typed).answers);
  return (
    <dl class="answers">
      <For each={list(inputOf(props.call).questions).map(raw)}>{(question) => (
        <>
          <dt><SafeText text={str(question.question)} /></dt>
          <dd><Show when={str(answers()[str(question.question)])} fallback={<span class="quiet">{props.call.result === null ? 'Not answered yet' : 'Not answered'}</span>}>{(text) => <SafeText text={text()} />}</Show></dd>
        </>
      )}</For>
    </dl>
  );
}
