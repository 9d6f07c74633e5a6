// Owns the MCP servers of a session: how each is, on and off, and connecting again.
import { For, Match, Show, Switch } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { attempt } from '../lobby/acts';
import { rest, said } from '../daemon/daemon';
import { canAct } from '../daemon/role';
import { entryOf } from '../fold/raw';
import { BusyButton } from '../parts/busy';
import { Loading } from '../parts/loading';
import { many } from '../parts/time';
import { SafeText } from '../text/safe';

interface Server { name?: string | null; status?: string | null; error?: string | null; scope?: string | null; transport?: string | null; tools?: unknown[] | null }

const WORDS: Record<string, [shape: string, word: string]> = {
  connected: ['○', 'connected'], failed: ['▲', 'failed'], 'needs-auth': ['◆', 'needs a sign-in'], pending: ['◔', 'connecting'], disabled: ['□', 'off'],
};

/** The list. It is asked for when it is looked at. */
export function McpServers(props: { sessionId: string; isRunning: boolean }) {
  const [servers, { refetch }] = createAsked(
    () => (props.isRunning && canAct() ? props.sessionId : undefined),
    async (id) => {
      const payload = (await rest.GET('/v1/sessions/{id}/mcp', { params: { path: { id } } })).response as { mcpServers?: (Server | null)[] | null } | null;
      return (payload?.mcpServers ?? []).filter((one): one is Server => one?.name != null);
    },
  );
  const path = (server: Server) => ({ path: { id: props.sessionId, server: server.name ?? '' } });
  const turn = async (server: Server, enabled: boolean) => {
    await attempt(rest.PUT('/v1/sessions/{id}/mcp/{server}', { params: path(server), body: { enabled } }));
    await refetch();
  };
  const reconnect = async (server: Server) => {
    await attempt(rest.POST('/v1/sessions/{id}/mcp/{server}/reconnect', { params: path(server) }));
    await refetch();
  };
  const words = (server: Server): [string, string] => entryOf(WORDS, server.status ?? '') ?? ['○', server.status ?? ''];
  return (
    <Show when={servers.error === undefined ? servers() : undefined} fallback={
      <Switch fallback={<Loading>Asking the agent…</Loading>}>
        <Match when={!props.isRunning}><p class="quiet">They are known while the session runs.</p></Match>
        <Match when={!canAct()}><p class="quiet">A login that only looks is not told of them.</p></Match>
        <Match when={servers.error as unknown}>{(error) => <p class="problem">The servers could not be read: {said(error()).text} <button type="button" onClick={() => void refetch()}>Try again</button></p>}</Match>
      </Switch>
    }>
      <Show when={(servers()?.length ?? 0) > 0} fallback={<p class="quiet">It uses none.</p>}>
        <ul class="side-rows">
          <For each={servers()}>{(server) => (
            <li class="side-row">
              <span class="plan-shape" aria-hidden="true">{words(server)[0]}</span>
              <span class="side-row-words">
                <span class="one-line"><SafeText text={server.name ?? ''} /> <span class="faint">{words(server)[1]}</span></span>
                <span class="faint">{[server.transport, server.scope, many(server.tools?.length ?? 0, 'tool')].filter(Boolean).join(' · ')}</span>
                <Show when={server.error}>{(error) => <span class="mcp-error"><SafeText text={error()} /></span>}</Show>
              </span>
              <Show when={server.status === 'disabled'} fallback={
                <>
                  <BusyButton class="plain" busyWord="Connecting…" run={() => reconnect(server)}>Connect again</BusyButton>
                  <BusyButton class="plain" busyWord="Turning off…" run={() => turn(server, false)}>Turn off</BusyButton>
                </>
              }><BusyButton class="plain" busyWord="Turning on…" run={() => turn(server, true)}>Turn on</BusyButton></Show>
            </li>
          )}</For>
        </ul>
      </Show>
    </Show>
  );
}
