// Owns what is known about a session: who else has it open, where it works, its ids, model and mode, labels, options, cost, runs, rules, MCP servers.
import { A } from '@solidjs/router';
import { For, Show, type ParentProps } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { companyWords } from '../live/company';
import type { Conversation } from '../live/store';
import { rest } from '../daemon/daemon';
import type { AttachedClient, Session } from '../daemon/types';
import { modeWord, modelWord } from '../parts/mode-words';
import { ago, count, exact, many, money } from '../parts/time';
import { SafeText } from '../text/safe';
import { McpServers } from './mcp';

/** The facts. */
export function About(props: { conversation: Conversation }) {
  return <Show when={props.conversation.session()}>{(session) => <Facts session={session()} others={props.conversation.others()} />}</Show>;
}

function Facts(props: { session: Session; others: AttachedClient[] }) {
  const params = () => ({ path: { id: props.session.id } });
  const again = () => `${props.session.id} ${props.session.state}`;
  const [runs] = createAsked(again, async () => (await rest.GET('/v1/sessions/{id}/runs', { params: params() }).catch(() => ({ items: [] }))).items);
  const [rules] = createAsked(() => props.session.id, async () => (await rest.GET('/v1/sessions/{id}/rules', { params: params() }).catch(() => ({ items: [] }))).items);
  const options = () => Object.entries(props.session.options as Record<string, unknown>).filter(([, value]) => value !== null && value !== undefined);
  const isRunning = () => ['idle', 'busy', 'waiting'].includes(props.session.state);
  const { usage } = props.session;
  return (
    <div class="about">
      <dl class="facts">
        <Fact word="Also open"><SafeText text={companyWords(props.others) || 'nowhere else'} /></Fact>
        <Fact word="Directory"><code><SafeText text={props.session.cwd} /></code></Fact>
        <Fact word="Model">{modelWord(props.session.model)} <Show when={props.session.model}>{(model) => <code class="faint"><SafeText text={model()} /></code>}</Show></Fact>
        <Fact word="Mode">{modeWord(props.session.permission_mode)}</Fact>
        <Fact word="Cost">{money(props.session.cost_usd)}<Show when={props.session.turns_with_unknown_cost > 0}>
          <span class="faint"> Cost unknown for {many(props.session.turns_with_unknown_cost, 'turn')}, not in the sum</span></Show></Fact>
        <Fact word="Turns"><span class="figures">{count(props.session.turns)}</span></Fact>
        <Fact word="Tokens"><span class="figures">{count(usage.input_tokens)} read, {count(usage.cache_read_input_tokens)} from the cache, {count(usage.cache_creation_input_tokens)} into it, {count(usage.output_tokens)} written</span></Fact>
        <Fact word="Began"><time title={exact(props.session.created_at)}>{exact(props.session.created_at)}</time></Fact>
        <Show when={props.session.parent_id}>{(parent) => <Fact word="Copy of"><Show when={!props.session.parent_deleted} fallback="a session that is deleted"><A href={`/s/${parent()}`}>another session</A></Show></Fact>}</Show>
        <Show when={props.session.tag}>{(tag) => <Fact word="Tag"><SafeText text={tag()} /></Fact>}</Show>
        <For each={Object.entries(props.session.labels)}>{([key, value]) => <Fact word={key}><SafeText text={String(value)} /></Fact>}</For>
        <Fact word="Session"><code>{props.session.id}</code></Fact>
        <Fact word="Conversation"><code>{props.session.cli.session_id}</code></Fact>
        <Fact word="Agent">{props.session.simulated ? 'simulated' : `Claude Code ${props.session.cli.version ?? ''}`}<Show when={props.session.cli.pid}>{(pid) => <span class="faint"> process {pid()}</span>}</Show></Fact>
      </dl>
      <h3>MCP servers</h3>
      <McpServers sessionId={props.session.id} isRunning={isRunning()} />
      <h3>Rules</h3>
      <Show when={(rules()?.length ?? 0) > 0} fallback={<p class="quiet">None of its own.</p>}>
        <ul class="side-rows"><For each={rules()}>{(rule) => (
          <li class="side-row"><span class="chip">{rule.action}</span><code class="side-row-words"><SafeText text={[rule.tool, rule.input === undefined ? '' : JSON.stringify(rule.input), rule.id].filter(Boolean).join(' · ')} /></code></li>
        )}</For></ul>
      </Show>
      <h3>Options</h3>
      <Show when={options().length > 0} fallback={<p class="quiet">All by default.</p>}>
        <dl class="facts"><For each={options()}>{([name, value]) => <Fact word={name.replaceAll('_', ' ')}><code><SafeText text={typeof value === 'string' ? value : JSON.stringify(value)} /></code></Fact>}</For></dl>
      </Show>
      <h3>Runs</h3>
      <ol class="side-rows"><For each={[...(runs() ?? [])].reverse()}>{(run) => (
        <li class="side-row"><span class="side-row-words">
          <span>{run.mode}, <time title={exact(run.started_at)}>{ago(run.started_at)}</time></span>
          <span class="faint">{run.ended_at === null ? 'running' : endOf(run.exit)}<Show when={run.cli_version}>{(version) => <> · {version()}</>}</Show></span>
        </span></li>
      )}</For></ol>
    </div>
  );
}

const endOf = (exit: { code: number | null; signal: number | null; intent: string } | null): string => {
  if (exit === null) return 'ended';
  const how = exit.signal !== null ? `by signal ${exit.signal}` : `with code ${exit.code ?? 'unknown'}`;
  return exit.intent === 'stop' ? 'stopped' : `ended ${how}`;
};

function Fact(props: ParentProps<{ word: string }>) {
  return <div><dt><SafeText text={props.word} /></dt><dd>{props.children}</dd></div>;
}
