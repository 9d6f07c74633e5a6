/** Owns a client of one session: records in their order, each once, and answers by callbacks, over a socket that comes back. */
/// <reference lib="esnext.disposable" preserve="true" />
import type { components } from './api.js';
import { Backlog } from './backlog.js';
import type { Session } from './client.js';
import { asPlaceRefused, ClosedError, HistoryDiffersError, TrunklineError, UnreachableError } from './errors.js';
import type { CliRequest, ErrorFrame, Frame, JsonRpc, PendingRequest, SnapshotFrame } from './frames.js';
import { respond, type McpServer } from './mcp.js';
import { cli, note, type JournalRecord } from './records.js';
import { pause } from './rest.js';
import { open, type Socket } from './socket.js';
import type { Approval, Decision } from './types.js';
import { newUuid } from './uuid.js';

type LaunchOptions = components['schemas']['LaunchOptions'];
type Awaitable<T> = T | Promise<T>;

/** The context that a callback about an approval is given. */
export interface ApprovalContext {
  /** Aborted when somebody else decided, or the CLI asks no longer. */
  signal: AbortSignal;
}

/** The context that a hook is given. */
export interface HookContext {
  /** Aborted when the answer is no longer wanted. */
  signal: AbortSignal;
  /** The call of a tool that it is about. */
  toolUseId: string | undefined;
}

/** Something that the CLI asks before or after what it does. */
export interface Hook {
  /** The event, as the CLI names it: `PreToolUse`, `UserPromptSubmit`, `Stop`, … */
  event: string;
  /** Which of its occurrences, such as a tool's name or `Edit|Write`. Default: all. */
  matcher?: string;
  /** How long the CLI waits for the answer. Default: 60 s. */
  timeoutMs?: number;
  /** Answers: a hook output, as the CLI takes it. Nothing is no opinion. */
  call(input: Record<string, unknown>, context: HookContext): Awaitable<Record<string, unknown> | undefined | void>;
}

/** How a session is followed. */
export interface AttachOptions {
  /** The records after this number come first. Default: only new ones come. */
  after?: number;
  /** The time of that record, as {@link Attachment.ts} had it: a session whose record is another one is refused. */
  afterTs?: string;
  /** How this program names itself, so that it can come back after it was started again. Default: a name of its own. */
  clientId?: string;
  /** Decides what the agent asks. Without a decision the approval waits for somebody else. */
  onApproval?: (approval: Approval, context: ApprovalContext) => Awaitable<Decision | undefined | void>;
  /** Hooks that this program answers. */
  hooks?: Hook[];
  /** MCP servers that run in this program, by their names. */
  mcpServers?: Record<string, McpServer>;
  /** Sees every frame that is no record, such as the news that records are missing, and why. */
  onFrame?: (frame: Frame) => void;
  /** Told when the socket is there (`true`) and when it is lost. */
  onConnection?: (isThere: boolean) => void;
  /** Told what a callback threw, and what of its answers was not taken. Default: `console.error`. */
  onError?: (error: unknown) => void;
}

/** The pause before the first try to come back, and the longest one. */
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/** A socket that says nothing for so long, with pings, is dead. */
const PING_MS = 20_000;
/** After these closes nothing is better the next time. */
const FINAL_CLOSES = new Set([1002, 1003, 1009, 1011, 4400, 4401, 4403, 4410]);
/** Somebody else was first, or the CLI asks no longer. */
const LATE = new Set<string>(['already_decided', 'approval_not_pending', 'approval_not_found', 'request_not_pending', 'request_not_owned']);
/** No process is there to be told of hooks; the next one will be. */
const NO_PROCESS = new Set<string>(['session_not_live', 'session_stopping', 'session_ended', 'request_cancelled']);

/**
 * A client of one session. Iterate over it for the records; callbacks are served whether or not somebody does.
 * Leaving a loop does not end it: {@link Attachment.close} does.
 */
export class Attachment implements AsyncIterableIterator<JournalRecord>, AsyncDisposable {
  /** The name under which it is attached. */
  readonly clientId: string;
  private readonly backlog: Backlog;
  private readonly hooksById = new Map<string, Hook>();
  /** The work that callbacks are busy with: by request id, and approvals by theirs. */
  private readonly busy = new Map<string, AbortController>();
  private readonly offered = new Map<string, AbortController>();
  /** Answers that are not in the journal yet, by request id. */
  private readonly answers = new Map<string, string>();
  private readonly initial: { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void };
  private socket: Socket | undefined;
  /** The last record that came, and the last one that is history of this connection. */
  private cursor: number | undefined;
  /** The time of that record, by which the daemon knows that its history is the one that this client has. */
  private cursorTs: string | undefined;
  private headSeq = Infinity;
  private registration: { id: string; request: object } | undefined;
  private returnAfterMs: number | undefined;
  private isClosed = false;
  /** Aborted at the end, so that no pause and no request outlives it. */
  private readonly leaving = new AbortController();
  private lastFrameAt = 0;

  /** @internal */
  constructor(
    /** The session. */
    readonly session: Session,
    private readonly options: AttachOptions,
  ) {
    this.clientId = options.clientId ?? Attachment.newClientId();
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(this.clientId)) throw new TypeError(`${this.clientId} is no name of a client`);
    this.cursor = options.after;
    this.cursorTs = options.afterTs;
    this.backlog = new Backlog((after, afterTs) => this.page(after, afterTs));
    this.initial = withResolvers();
    this.initial.promise.catch(() => undefined);
    void this.run();
  }

  /** A name that no other client has. */
  static newClientId(): string {
    return `ts-${newUuid()}`;
  }

  /** Waits until it is attached and the CLI knows its hooks and servers. */
  ready(): Promise<void> {
    return this.initial.promise;
  }

  /** The number of the last record that the loop was given: `after` for the next time. */
  get seq(): number | undefined {
    return this.backlog.given;
  }

  /** The time of that record: `afterTs` for the next time. Nothing where it did not come itself, such as before the first one. */
  get ts(): string | undefined {
    return this.backlog.givenTs;
  }

  /** The next record; waits for it. */
  async next(): Promise<IteratorResult<JournalRecord, undefined>> {
    const record = await this.backlog.next();
    return record ? { value: record, done: false } : { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Leaves the session, which goes on. The loop ends. */
  close(): void {
    this.end(undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  private end(error: unknown): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.leaving.abort();
    this.socket?.close();
    for (const controller of [...this.busy.values(), ...this.offered.values()]) controller.abort();
    this.backlog.end(error);
    this.initial.reject(error ?? new ClosedError(1000, 'closed by this program'));
  }

  /** A page of the journal. A daemon that is away is waited for, as the socket does. */
  private async page(after: number, afterTs: string | undefined): Promise<{ records: JournalRecord[]; after: number }> {
    const { trunkline, id } = this.session;
    const { signal } = this.leaving;
    for (;;) {
      try {
        const init = { params: { path: { id }, query: { ...placeOf(after, afterTs), limit: 500 } }, signal };
        const page = await trunkline.rest.GET('/v1/sessions/{id}/events', init);
        return { records: page.items as unknown as JournalRecord[], after: page.next_after };
      } catch (error) {
        const mayPass = error instanceof UnreachableError || (error instanceof TrunklineError && error.retryable);
        if (!mayPass || signal.aborted) throw asPlaceRefused(error, afterTs !== undefined);
        await pause(FIRST_PAUSE_MS, signal);
      }
    }
  }

  /** Calls what only listens. */
  private tell<T>(listener: ((news: T) => void) | undefined, news: T): void {
    try {
      listener?.(news);
    } catch (error) {
      this.report(error);
    }
  }

  private report(error: unknown): void {
    if (this.options.onError) this.options.onError(error);
    else console.error('trunkline:', error);
  }

  // Connections.

  private async run(): Promise<void> {
    for (let failures = 0, tries = 0; !this.isClosed; tries += 1) {
      try {
        // A daemon that comes back may be elsewhere.
        if (await this.connection(tries > 0)) failures = 0;
      } catch (error) {
        this.end(error);
        return;
      }
      if (this.isClosed) return;
      const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
      failures += 1;
      // Some of it by chance, so that clients do not come back all at once.
      await pause(this.returnAfterMs ?? longest * (0.5 + Math.random() / 2), this.leaving.signal);
      this.returnAfterMs = undefined;
    }
  }

  /** One connection, from its beginning to its end; whether it came about. Throws what is final. */
  private async connection(isAgain: boolean): Promise<boolean> {
    const { trunkline, id } = this.session;
    const path = `/v1/sessions/${id}/ws`;
    const query = new URLSearchParams({ client_id: this.clientId });
    for (const [name, value] of Object.entries(placeOf(this.cursor, this.cursorTs))) query.set(name, String(value));
    this.headSeq = Infinity;
    let hasCome = false;
    let timer: ReturnType<typeof setInterval> | undefined;
    try {
      const { url, token } = await trunkline.place(isAgain);
      const credential = trunkline.ticket ? await this.ticket(trunkline.ticket, path) : token && `bearer.${token}`;
      if (this.isClosed || (trunkline.ticket && !credential)) return false;
      const protocols = credential ? ['trunkline.v1', credential] : ['trunkline.v1'];
      const socket = await open(`${url.replace(/^http/, 'ws')}${path}?${query}`, protocols);
      this.socket = socket;
      if (this.isClosed) socket.close();
      this.lastFrameAt = Date.now();
      timer = setInterval(() => this.ping(), PING_MS);
      const ended = await socket.each((text) => {
        // A frame in a socket that is being left comes again.
        if (this.isClosed || this.socket !== socket) return;
        this.lastFrameAt = Date.now();
        if (!hasCome) this.tell(this.options.onConnection, true);
        hasCome = true;
        this.onFrame(JSON.parse(text) as Frame | JournalRecord, text.length);
      });
      if (FINAL_CLOSES.has(ended.code)) throw new ClosedError(ended.code, ended.reason);
      if (!hasCome && !this.isClosed) await this.refused();
    } finally {
      clearInterval(timer);
      this.socket = undefined;
      if (hasCome) this.tell(this.options.onConnection, false);
    }
    return hasCome;
  }

  /** A page is not told why an upgrade was refused: a route that is refused for the same reasons says it. */
  private async refused(): Promise<void> {
    const { trunkline, id } = this.session;
    const query: { after?: number; after_ts?: string; limit: number; ticket?: string } = { ...placeOf(this.cursor, this.cursorTs), limit: 1 };
    try {
      // A program that has tickets alone shows one here too, where it gets one for this path.
      const { token } = await trunkline.place(false);
      const ticket = token === undefined ? await trunkline.ticket?.(`/v1/sessions/${id}/events`).catch(() => undefined) : undefined;
      if (ticket !== undefined) query.ticket = ticket;
      await trunkline.rest.GET('/v1/sessions/{id}/events', { params: { path: { id }, query }, signal: this.leaving.signal });
    } catch (error) {
      // Without a ticket the route does not know such a program.
      const isUnknown = trunkline.ticket && error instanceof TrunklineError && error.status === 401;
      if (isFinal(error) && !isUnknown) throw asPlaceRefused(error, this.cursorTs !== undefined);
    }
  }

  /** A ticket as a sub-protocol; nothing while none is to be had, such as when the daemon is away. */
  private async ticket(fresh: (path: string) => Promise<string>, path: string): Promise<string | undefined> {
    try {
      return `ticket.${await fresh(path)}`;
    } catch (error) {
      if (isFinal(error)) throw error;
      if (!(error instanceof UnreachableError)) this.report(error);
      return undefined;
    }
  }

  private ping(): void {
    if (Date.now() - this.lastFrameAt > 2 * PING_MS) this.socket?.close();
    else this.write({ type: 'trunkline.ping', id: 0 });
  }

  private write(line: object): void {
    this.socket?.send(JSON.stringify(line));
  }

  // The words of the daemon.

  private onFrame(frame: Frame | JournalRecord, characters: number): void {
    if (!('type' in frame)) {
      this.onRecord(frame, characters);
      return;
    }
    switch (frame.type) {
      case 'trunkline.snapshot': this.onSnapshot(frame); break;
      case 'trunkline.gap':
        this.cursor = frame.last_seq;
        this.cursorTs = undefined;
        this.backlog.skip(frame.last_seq);
        break;
      case 'trunkline.shutdown': this.returnAfterMs = frame.reconnect_after_ms; break;
      case 'trunkline.ack': if (frame.request_id) this.answers.delete(frame.request_id); break;
      case 'trunkline.error': this.onRefusal(frame); break;
      case 'control_response': this.onResponse(frame.response); break;
      default: break;
    }
    this.tell(this.options.onFrame, frame);
  }

  private onSnapshot(snapshot: SnapshotFrame): void {
    this.cursor ??= snapshot.after;
    this.backlog.begin(this.cursor, this.cursorTs);
    this.headSeq = snapshot.head_seq;
    this.register(snapshot.session.options);
    // Anything that is not open any more was taken back, or answered by others, while this client was away.
    const requests = new Set(snapshot.pending_requests.map((it) => it.request_id));
    if (snapshot.waiting_requests === 0) this.forget((id) => !requests.has(id));
    for (const [id, line] of this.answers) {
      if (requests.has(id)) this.socket?.send(line);
      else if (snapshot.waiting_requests === 0) this.answers.delete(id);
    }
    for (const request of snapshot.pending_requests) void this.onPending(request);
    const approvals = new Set(snapshot.pending_approvals.map((it) => it.id));
    for (const [id, controller] of this.offered) {
      if (approvals.has(id) || snapshot.session.waiting_approvals > 0) continue;
      controller.abort();
      this.offered.delete(id);
    }
    for (const approval of snapshot.pending_approvals) void this.offer(approval.id);
  }

  private onRecord(record: JournalRecord, characters: number): void {
    const { cursor } = this;
    if (cursor !== undefined && record.seq <= cursor) return;
    // A record is missing on the way: it is asked for again.
    if (cursor !== undefined && record.seq !== cursor + 1) {
      this.socket?.close();
      return;
    }
    this.cursor = record.seq;
    this.cursorTs = record.ts;
    this.backlog.push(record, characters);
    // The open requests of the history are in the snapshot.
    if (record.seq <= this.headSeq) return;
    const request = cli(record, 'control_request');
    if (request) this.onRequest(request.request_id, request.request as CliRequest);
    const cancelled = cli(record, 'control_cancel_request');
    if (cancelled) this.forget((id) => id === cancelled.request_id);
    const approval = note(record, 'approval');
    if (approval) void this.offer(approval.approval_id);
    const decision = note(record, 'decision');
    if (decision) {
      this.offered.get(decision.approval_id)?.abort();
      this.offered.delete(decision.approval_id);
    }
    if (note(record, 'run_exited') || note(record, 'run_lost')) this.forget(() => true);
    if (note(record, 'run_started')) this.sendRegistration();
  }

  private onRefusal(frame: ErrorFrame): void {
    const error = TrunklineError.from(frame);
    if (error instanceof HistoryDiffersError) {
      this.end(error);
      return;
    }
    if (frame.request_id !== undefined && frame.request_id === this.registration?.id) {
      if (NO_PROCESS.has(frame.code)) this.initial.resolve();
      else this.failRegistration(error);
      return;
    }
    if (frame.request_id) this.answers.delete(frame.request_id);
    if (!LATE.has(frame.code)) this.report(error);
  }

  private onResponse(response: { subtype: string; request_id: string; error?: string }): void {
    if (response.request_id !== this.registration?.id) return;
    if (response.subtype === 'success') this.initial.resolve();
    else this.failRegistration(new Error(`the CLI refused the registration: ${response.error ?? ''}`));
  }

  private failRegistration(error: unknown): void {
    this.initial.reject(error);
    this.report(error);
  }

  // Hooks and servers.

  /** Tells the CLI of the hooks and servers that the session was not made with. */
  private register(launch: LaunchOptions): void {
    const ours = launch.hooks?.map((hook) => (isOurs(hook.target, this.clientId) ? hook : undefined)) ?? [];
    const hooks: Record<string, object[]> = {};
    this.hooksById.clear();
    for (const [index, hook] of (this.options.hooks ?? []).entries()) {
      const place = ours.findIndex((it) => it?.event === hook.event && (it.matcher ?? undefined) === hook.matcher);
      if (place >= 0) {
        delete ours[place];
        this.hooksById.set(`trunkline/${place}`, hook);
        continue;
      }
      const id = `hook_${index}`;
      this.hooksById.set(`${this.clientId}/${id}`, hook);
      const timeout = hook.timeoutMs === undefined ? {} : { timeout: hook.timeoutMs / 1000 };
      (hooks[hook.event] ??= []).push({ ...(hook.matcher === undefined ? {} : { matcher: hook.matcher }), hookCallbackIds: [id], ...timeout });
    }
    const servers = Object.keys(this.options.mcpServers ?? {})
      .filter((name) => !isOurs(launch.sdk_mcp_servers?.[name]?.target, this.clientId));
    const request: Record<string, unknown> = { subtype: 'initialize' };
    if (Object.keys(hooks).length > 0) request.hooks = hooks;
    if (servers.length > 0) request.sdkMcpServers = servers;
    this.registration = Object.keys(request).length > 1 ? { id: '', request } : undefined;
    if (this.registration) this.sendRegistration();
    else this.initial.resolve();
  }

  /** A later process is told again. */
  private sendRegistration(): void {
    if (!this.registration) return;
    this.registration.id = newUuid();
    this.write({ type: 'control_request', request_id: this.registration.id, request: this.registration.request });
  }

  private async onPending(pending: PendingRequest): Promise<void> {
    if (pending.client_id !== this.clientId) return;
    let { request } = pending;
    if (pending.request_truncated) {
      const { trunkline, id } = this.session;
      try {
        const query = { after: pending.seq - 1, limit: 1 };
        const page = await trunkline.rest.GET('/v1/sessions/{id}/events', { params: { path: { id }, query } });
        request = (page.items[0] as { data?: { request?: CliRequest } } | undefined)?.data?.request ?? request;
      } catch (error) {
        this.report(error);
        return;
      }
    }
    this.onRequest(pending.request_id, request);
  }

  private onRequest(id: string, request: CliRequest): void {
    if (this.busy.has(id) || this.answers.has(id)) return;
    const hook = request.subtype === 'hook_callback' ? this.hooksById.get(request.callback_id ?? '') : undefined;
    if (hook) {
      void this.answer(id, async (signal) => {
        const output = (await hook.call(request.input ?? {}, { signal, toolUseId: request.tool_use_id })) ?? {};
        if (typeof output !== 'object') throw new TypeError(`the hook of ${hook.event} gave no object`);
        return output;
      });
      return;
    }
    const name = request.subtype === 'mcp_message' ? (request.server_name ?? '') : '';
    const server = Object.hasOwn(this.options.mcpServers ?? {}, name) ? this.options.mcpServers?.[name] : undefined;
    if (!server) return;
    const message: JsonRpc = request.message ?? {};
    if (message.method === 'notifications/cancelled') this.busy.get(this.calls.get(callKey(name, message.params?.requestId)) ?? '')?.abort();
    if (message.id !== undefined) this.calls.set(callKey(name, message.id), id);
    void this.answer(id, async (signal) => ({ mcp_response: await respond(name, server, message, signal) }))
      .finally(() => this.calls.delete(callKey(name, message.id)));
  }

  /** Open calls of tools, by server and id, with the requests that they came in. */
  private readonly calls = new Map<string, string>();

  private async answer(id: string, work: (signal: AbortSignal) => Promise<object>): Promise<void> {
    const controller = new AbortController();
    this.busy.set(id, controller);
    const asLine = (response: object) => JSON.stringify({ type: 'control_response', response });
    let line: string;
    try {
      line = asLine({ subtype: 'success', request_id: id, response: await work(controller.signal) });
    } catch (error) {
      if (!controller.signal.aborted) this.report(error);
      line = asLine({ subtype: 'error', request_id: id, error: error instanceof Error ? error.message : String(error) });
    }
    // Another life of the same request has its own controller.
    if (this.busy.get(id) === controller) this.busy.delete(id);
    if (controller.signal.aborted) return;
    this.answers.set(id, line);
    // Before its snapshot a connection has nothing to be answered; the snapshot says what is.
    if (this.headSeq !== Infinity) this.socket?.send(line);
  }

  private forget(isGone: (id: string) => boolean): void {
    for (const [id, controller] of this.busy) {
      if (!isGone(id)) continue;
      controller.abort();
      this.busy.delete(id);
    }
    for (const id of [...this.answers.keys()].filter(isGone)) this.answers.delete(id);
  }

  // Approvals.

  /** Gives an approval to the callback, once, and sends what it decides. */
  private async offer(id: string): Promise<void> {
    const { onApproval } = this.options;
    if (!onApproval || this.offered.has(id)) return;
    const controller = new AbortController();
    const { signal } = controller;
    this.offered.set(id, controller);
    try {
      // The snapshot and the record have parts of a large one only.
      const path = { id: this.session.id, approval_id: id };
      const approval = await this.session.trunkline.rest.GET('/v1/sessions/{id}/approvals/{approval_id}', { params: { path } });
      if (approval.state !== 'pending' || signal.aborted) return;
      const decision = await onApproval(approval, { signal });
      if (decision && !signal.aborted) await this.session.decide(id, decision);
    } catch (error) {
      if (signal.aborted || (error instanceof TrunklineError && LATE.has(error.code))) return;
      // The next connection offers it again.
      this.offered.delete(id);
      this.report(error);
    }
  }
}

/** Launch options with which the hooks and servers of a client are there from the first process on. */
export function asLaunchOptions(launch: LaunchOptions, clientId: string, options: AttachOptions): LaunchOptions {
  const target = { type: 'client' as const, client_id: clientId };
  const hooks = (options.hooks ?? []).map(({ event, matcher, timeoutMs }) => ({
    event, target,
    ...(matcher === undefined ? {} : { matcher }),
    ...(timeoutMs === undefined ? {} : { timeout_ms: timeoutMs }),
  }));
  const servers = Object.keys(options.mcpServers ?? {}).map((name) => [name, { target }] as const);
  const made = { ...launch };
  if (hooks.length > 0) made.hooks = [...(launch.hooks ?? []), ...hooks];
  if (servers.length > 0) made.sdk_mcp_servers = { ...launch.sdk_mcp_servers, ...Object.fromEntries(servers) };
  return made;
}

/** A place in a journal as the routes take it. The time alone, or that of no record, says nothing. */
function placeOf(after: number | undefined, afterTs: string | undefined): { after?: number; after_ts?: string } {
  if (!after || afterTs === undefined) return after === undefined ? {} : { after };
  return { after, after_ts: afterTs };
}

/** Whether the daemon would say the same to the next try. */
function isFinal(error: unknown): boolean {
  return error instanceof TrunklineError && !error.retryable;
}

function isOurs(target: { type: string; client_id?: string } | undefined, clientId: string): boolean {
  return target?.type === 'client' && target.client_id === clientId;
}

function callKey(server: string, id: unknown): string {
  return `${server}\n${JSON.stringify(id)}`;
}

function withResolvers() {
  let resolve!: () => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<void>((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
}
