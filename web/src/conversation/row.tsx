// Owns how a row of the transcript is drawn, and what it is called by those who hear it.
import { A } from '@solidjs/router';
import { Match, Show, Switch, createMemo } from 'solid-js';
import { whoOf } from '../lobby/request';
import { clock, exact, many, money, now, once } from '../parts/time';
import { Markdown } from '../text/markdown';
import { SafeText } from '../text/safe';
import { AgentGroup } from './cards/agent';
import { LoadWhole } from './cards/card';
import { Pictures } from './cards/pictures';
import { CallCard } from './cards/tools';
import { lineOfCall, statusWord } from './call-words';
import { useReading } from './reading';
import type { Row, WorkDone } from './rows';
import { useConversation } from '../live/store';

type Of<K extends Row['kind']> = Extract<Row, { kind: K }>;

/** The name of a row. */
export function nameOf(row: Row): string {
  switch (row.kind) {
    case 'prompt': return row.block.isOfTheCli ? 'From the CLI' : 'You';
    case 'text': return 'Answer';
    case 'thinking': return 'Thinking';
    case 'call': { const line = lineOfCall(row.block); return [line.word, statusWord(row.block), ...line.figures].join(', '); }
    case 'group': return many(row.calls.length, 'agent');
    case 'note': return 'Note';
    case 'turn': return row.block.outcome === 'done' ? 'End of the turn' : `End of the turn, ${row.block.outcome}`;
    case 'work': return 'Work';
    case 'new': return 'New from here';
    default: return 'The beginning';
  }
}

/** The row. */
export function RowView(props: { row: Row }) {
  const of = <K extends Row['kind']>(kind: K) => (props.row.kind === kind ? (props.row as Of<K>) : undefined);
  return (
    <Switch>
      <Match when={of('text')}>{(row) => <TextRow row={row()} />}</Match>
      <Match when={of('call')}>{(row) => <CallCard call={row().block} rowKey={row().key} />}</Match>
      <Match when={of('prompt')}>{(row) => <PromptRow row={row()} />}</Match>
      <Match when={of('thinking')}>{(row) => <ThinkingRow row={row()} />}</Match>
      <Match when={of('work')}>{(row) => <WorkRow row={row()} />}</Match>
      <Match when={of('note')}>{(row) => <NoteRow row={row()} />}</Match>
      <Match when={of('turn')}>{(row) => <TurnRow row={row()} />}</Match>
      <Match when={of('group')}>{(row) => <AgentGroup calls={row().calls} rowKey={row().key} />}</Match>
      <Match when={of('new')}>{(row) => <p class="rule is-new"><span>New since <time datetime={row().since} title={exact(row().since)}>{timeOf(row().since)}</time></span></p>}</Match>
      <Match when={of('begin')}>{(row) => <BeginRow row={row()} />}</Match>
    </Switch>
  );
}

/** The beginning. A fork leads to its parent from here. */
function BeginRow(props: { row: Of<'begin'> }) {
  const conversation = useConversation();
  return (
    <p class="rule"><span>
      <Show when={conversation.session()?.parent_id} fallback="It began here, ">{(parent) => <>It began here as a copy of <Show when={!conversation.session()?.parent_deleted} fallback="a session that is deleted"><A href={`/s/${parent()}`}>another session</A></Show>, </>}</Show>
      <time datetime={props.row.since} title={exact(props.row.since)}>{dayOf(props.row.since)}</time>
    </span></p>
  );
}

const times = once(() => new Intl.DateTimeFormat(undefined, { timeStyle: 'short' }));
const days = once(() => new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'long', hour: '2-digit', minute: '2-digit' }));
const timeOf = (at: string): string => times().format(Date.parse(at));
const dayOf = (at: string): string => days().format(Date.parse(at));

function TextRow(props: { row: Of<'text'> }) {
  const part = () => props.row.block.parts[props.row.part];
  const isOpen = () => props.row.block.isOpen && part()?.isClosed === false;
  return (
    <div class="answer" classList={{ 'is-fault': props.row.block.fault !== null, 'is-local': props.row.block.isLocalCommand }}>
      <Show when={props.row.block.fault !== null && props.row.part === 0}><p class="quiet small">The API failed: {props.row.block.fault!.replaceAll('_', ' ')}</p></Show>
      <Show when={props.row.block.lacksBeginning && props.row.part === 0}><p class="quiet small">… its beginning is being loaded</p></Show>
      <Markdown text={part()?.text ?? ''} isOpen={isOpen()} />
      <Show when={props.row.block.isCut && props.row.part === props.row.block.parts.length - 1}><span class="chip">cut off here</span></Show>
    </div>
  );
}

const STATES: Record<string, string> = { sending: 'is being sent', sent: 'was sent', queued: 'waits', cancelled: 'taken back' };
/** A prompt with more lines than that is cut until it is opened. */
const PROMPT_LINES = 12;

function PromptRow(props: { row: Of<'prompt'> }) {
  const conversation = useConversation();
  const reading = useReading();
  const block = () => props.row.block;
  const lines = createMemo(() => block().text.split('\n'));
  const isLong = () => lines().length > PROMPT_LINES || block().text.length > 2_000;
  const isOpen = () => !isLong() || reading.isOpen(props.row.key, false);
  const shown = () => (isOpen() ? block().text : lines().slice(0, PROMPT_LINES).join('\n').slice(0, 2_000));
  return (
    <div class="prompt" classList={{ 'is-of-the-cli': block().isOfTheCli }}>
      <p class="prompt-head"><span>{block().isOfTheCli ? 'From the CLI' : 'You'}</span> <time class="faint" datetime={block().at} title={exact(block().at)}>{timeOf(block().at)}</time>
        <Show when={STATES[block().state]}>{(word) => <span class="faint"> · {word()}</span>}</Show>
      </p>
      <div class="prompt-text"><SafeText text={shown()} code /></div>
      <Show when={isLong()}>
        <button class="plain more" onClick={() => reading.setOpen(props.row.key, !isOpen())}>{isOpen() ? 'Less' : `▾ ${many(Math.max(1, lines().length - PROMPT_LINES), 'more line')}`}</button>
      </Show>
      <Pictures pictures={block().pictures} />
      <Show when={block().leftOutBytes}>{(bytes) => <LoadWhole seq={block().seq} bytes={bytes()} id={conversation.id} load={(seq) => conversation.loadWhole(seq)} />}</Show>
    </div>
  );
}

function ThinkingRow(props: { row: Of<'thinking'> }) {
  const reading = useReading();
  const block = () => props.row.block;
  const isOpen = () => reading.isOpen(props.row.key, false);
  // The end is enough: a long thought is not cut into lines for each of its pieces.
  const lastLine = () => block().text.slice(-2_000).trimEnd().split('\n').at(-1)?.slice(-160) ?? '';
  const word = () => (block().ms === null ? 'Thought' : `Thought ${block().ms! < 1000 ? 'briefly' : `${Math.round(block().ms! / 1000)} s`}`);
  return (
    <div class="call thinking" classList={{ 'is-open': isOpen() }}>
      <button class="call-line" aria-expanded={isOpen()} onClick={() => reading.setOpen(props.row.key, !isOpen())} disabled={block().text === ''}>
        <span class="call-shape" aria-hidden="true">{block().isOpen ? '≡' : '…'}</span>
        <Show when={block().isOpen} fallback={<span class="call-verb quiet">{word()}</span>}>
          <span class="call-verb quiet">Thinking</span>
          <span class="call-subject one-line quiet"><SafeText text={lastLine()} /></span>
          <span class="call-figures figures">{clock(now() - Date.parse(block().at))}</span>
        </Show>
      </button>
      <Show when={isOpen()}><div class="call-body quiet"><Markdown text={block().text} isOpen={block().isOpen} /></div></Show>
    </div>
  );
}

/** The work of a turn, in one line of figures. */
export function workWords(work: WorkDone): string {
  const words = [many(work.steps, 'step')];
  if (work.files > 0) words.push(`${many(work.files, 'file')} changed`);
  if (work.failed > 0) words.push(`${work.failed} failed`);
  if (work.ms !== null) words.push(clock(work.ms));
  if (work.costUsd !== null && work.costUsd > 0) words.push(money(work.costUsd));
  return words.join(' · ');
}

function WorkRow(props: { row: Of<'work'> }) {
  const reading = useReading();
  const current = () => (props.row.work.since === null ? null : props.row.work.current);
  return (
    <button class="work-line" aria-expanded={props.row.isOpen} onClick={() => reading.setOpen(props.row.key, !props.row.isOpen)}>
      <span aria-hidden="true">{props.row.isOpen ? '▾' : '▸'}</span>
      <span class="figures">{workWords(props.row.work)}</span>
      <Show when={props.row.work.since}>{(since) => <span class="figures">· {clock(now() - Date.parse(since()))}</span>}</Show>
      <Show when={!props.row.isOpen && current()}>{(call) => <span class="one-line quiet"><SafeText text={`${lineOfCall(call()).verb} ${lineOfCall(call()).subject}`.trim()} /></span>}</Show>
    </button>
  );
}

function NoteRow(props: { row: Of<'note'> }) {
  const conversation = useConversation();
  const reading = useReading();
  const block = () => props.row.block;
  const hasMore = () => block().detail !== '' && block().detail !== block().text;
  const isOpen = () => hasMore() && reading.isOpen(props.row.key, block().tone === 'error');
  const text = () => (block().endedBy === '' ? block().text : `${block().text} by ${whoOf(block().endedBy)}`);
  return (
    <div class="note" classList={{ [`is-${block().tone}`]: true }}>
      <Show when={hasMore()} fallback={<p class="note-line"><span><SafeText text={text()} /></span></p>}>
        <button class="note-line" aria-expanded={isOpen()} onClick={() => reading.setOpen(props.row.key, !isOpen())}>
          <span aria-hidden="true">{isOpen() ? '▾' : '▸'}</span><span class="one-line"><SafeText text={text()} /></span>
        </button>
      </Show>
      <Show when={block().leftOutBytes}>{(bytes) => <LoadWhole seq={block().seq} bytes={bytes()} id={conversation.id} load={(seq) => conversation.loadWhole(seq)} />}</Show>
      <Show when={isOpen()}>
        <pre class="note-detail" tabIndex={0} role="group" aria-label="More"><SafeText text={block().detail.slice(0, 20_000)} code /></pre>
        <A class="small" href={`/s/${conversation.id}/r/${block().seq}/raw`}>raw</A>
      </Show>
    </div>
  );
}

function TurnRow(props: { row: Of<'turn'> }) {
  const block = () => props.row.block;
  const figures = () => [...(block().ms === null ? [] : [clock(block().ms!)]), ...(block().costUsd ? [money(block().costUsd!)] : [])].join(' · ');
  return (
    <div class="turn-end" classList={{ [`is-${block().outcome}`]: true }}>
      <Show when={block().text !== ''}><Markdown text={block().text} /></Show>
      <p><span aria-hidden="true">{block().outcome === 'failed' ? '▲ ' : block().outcome === 'interrupted' ? '□ ' : ''}</span>
        <SafeText text={block().reason || 'Done'} /> <span class="figures faint">{figures()}</span>
      </p>
    </div>
  );
}
