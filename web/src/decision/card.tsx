// Owns which card a request gets, the loading of the whole of it, and the line that is left when it was decided.
import { Match, Show, Suspense, Switch, lazy } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { said } from '../daemon/daemon';
import type { Approval, ApprovalSummary } from '../daemon/types';
import { Loading } from '../parts/loading';
import { ago } from '../parts/time';
import { SafeText } from '../text/safe';
import type { CardProps } from './deciding';
import { wholeOf } from '../lobby/pending';
import { cardKindOf, endOf, lineOf } from '../lobby/request';
import { Told } from '../parts/told';
import { ToolCard } from './tool-card';

const QuestionCard = lazy(() => import('./question-card'));
const FormCard = lazy(() => import('./form-card'));
const PlanCard = lazy(() => import('./plan-card'));

/** The card of a request that waits. */
export function DecisionCard(props: CardProps) {
  const kind = cardKindOf(props.approval);
  return (
    <Switch fallback={<ToolCard {...props} />}>
      <Match when={kind === 'question'}><Suspense fallback={<Loading>Loading the questions…</Loading>}><QuestionCard {...props} /></Suspense></Match>
      <Match when={kind === 'plan'}><Suspense fallback={<Loading>Loading the plan…</Loading>}><PlanCard {...props} /></Suspense></Match>
      <Match when={kind === 'form' || kind === 'visit' || kind === 'dialog'}><Suspense fallback={<Loading>Loading its form…</Loading>}><FormCard {...props} /></Suspense></Match>
    </Switch>
  );
}

/** The card of a request of which only its summary is known: the whole is loaded first. */
export function LoadedCard(props: Omit<CardProps, 'approval'> & { sessionId: string; summary: ApprovalSummary }) {
  const [whole, { refetch }] = createAsked(() => [props.sessionId, props.summary.id] as const, ([session, id]) => wholeOf(session, id));
  return (
    <Show when={whole.error !== undefined ? undefined : whole()} keyed fallback={
      <section class="decision" aria-label="A decision">
        <div class="decision-body">
          <Show when={whole.error === undefined}><Loading>Loading all of what it asks…</Loading></Show>
          <Told><Show when={whole.error !== undefined}>
            <p class="problem">It could not be loaded: {said(whole.error).text} Nothing was decided. <button class="plain" onClick={() => void refetch()}>Try again</button></p>
          </Show></Told>
        </div>
      </section>}>
      {(approval) => <DecisionCard {...props} approval={approval.deadline === props.summary.deadline ? approval : { ...approval, deadline: props.summary.deadline }} />}
    </Show>
  );
}

/** The line that is left of a card: who decided, and what. */
export function DecidedLine(props: { approval: Approval; cwd: string; isMine: boolean }) {
  const line = () => lineOf(props.approval, props.cwd);
  return (
    <p class="decided">
      <strong><SafeText text={props.isMine && props.approval.state !== 'withdrawn' ? endOf(props.approval).replace(/ by .*/, ' by you') : endOf(props.approval)} /></strong>
      <Show when={props.approval.resolution}>{(resolution) => <span class="quiet">, {ago(resolution().at) === 'now' ? 'just now' : `${ago(resolution().at)} ago`}</span>}</Show>
      <span class="one-line quiet"> {line().word} <code><SafeText text={line().text.slice(0, 200)} /></code></span>
    </p>
  );
}
