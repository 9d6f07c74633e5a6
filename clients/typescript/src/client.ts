/** Owns the entry: a daemon, its sessions, and the short ways to the routes that programs use most. */
import { Attachment, asLaunchOptions, type AttachOptions } from './attachment.js';
import { TrunklineError } from './errors.js';
import type { FindOptions, Place } from './reach.js';
import { pause, rest, type Rest } from './rest.js';
import type { Approval, CreateRequest, Decision, ForkRequest, Message, SendReply, SessionView } from './types.js';
import { newUuid } from './uuid.js';

/** How a program reaches a daemon whose address it knows, such as from a page. */
export interface TrunklineOptions {
  /** The address, such as `http://127.0.0.1:7433`. */
  url: string;
  /** The token. */
  token?: string;
  /** Gives a fresh ticket for a path, with which a socket is opened in the place of the token. */
  ticket?: (path: string) => Promise<string>;
  /** The function that sends requests. Default: the platform's `fetch`. */
  fetch?: typeof fetch;
}

/** A daemon. */
export class Trunkline {
  /** Every route of the API, typed. */
  readonly rest: Rest;
  /** @internal */
  readonly place: (isLost: boolean) => Promise<Place>;
  /** @internal */
  readonly ticket: ((path: string) => Promise<string>) | undefined;

  /** A daemon whose address is known. {@link Trunkline.find} looks for the one of this machine. */
  constructor(options: TrunklineOptions, place?: (isLost: boolean) => Promise<Place>) {
    const fixed: Place = { url: options.url.replace(/\/+$/, '') };
    if (options.token !== undefined) fixed.token = options.token;
    this.place = place ?? (async () => fixed);
    this.ticket = options.ticket;
    this.rest = rest(this.place, options.fetch ?? ((...args) => fetch(...args)));
  }

  /**
   * The daemon of this machine, found as the command line finds it. One that was started again, at another address, is
   * found again. Not for pages.
   */
  static async find(options: FindOptions = {}): Promise<Trunkline> {
    const { find } = await import('./reach.js');
    let last = await find(options);
    const place = async (isLost: boolean) => {
      // Between two lives of a daemon there is no file.
      if (isLost) last = await find(options).catch(() => last);
      return last;
    };
    return new Trunkline({ url: last.url }, place);
  }

  /** Makes a session. It works in the directory `cwd`, and a `prompt` is its first message. */
  async create(request: CreateRequest): Promise<Session> {
    const made = await this.rest.POST('/v1/sessions', { body: request });
    return this.session(made.id);
  }

  /**
   * Makes a session and attaches to it from its first record on. Hooks and MCP servers are there from its beginning, at
   * every later process and in every fork.
   */
  async start(request: CreateRequest, options: AttachOptions = {}): Promise<Attachment> {
    const clientId = options.clientId ?? Attachment.newClientId();
    const session = await this.create({ ...request, options: asLaunchOptions(request.options ?? {}, clientId, options) });
    return session.attach({ after: 0, ...options, clientId });
  }

  /** A session by its id. Nothing is asked yet. */
  session(id: string): Session {
    return new Session(this, id);
  }
}

/** A session of a daemon. */
export class Session {
  constructor(
    /** The daemon. */
    readonly trunkline: Trunkline,
    /** Its id. */
    readonly id: string,
  ) {}

  private get path() {
    return { params: { path: { id: this.id } } };
  }

  /** The session as it is now. */
  view(): Promise<SessionView> {
    return this.trunkline.rest.GET('/v1/sessions/{id}', this.path);
  }

  /** Follows the session over a socket that comes back by itself. */
  attach(options: AttachOptions = {}): Attachment {
    return new Attachment(this, options);
  }

  /** Says something to the agent. It is said once, also when the connection breaks in the middle. */
  send(message: string | Message): Promise<SendReply> {
    const body = withId(message);
    return untilKnown(() => this.trunkline.rest.POST('/v1/sessions/{id}/messages', { ...this.path, body }));
  }

  /** As {@link Session.send}, and waits for the end of its turn: `turn` has the cost, `result` what the CLI said. */
  ask(message: string | Message): Promise<SendReply> {
    const params = { path: { id: this.id }, query: { wait: 'result' as const } };
    const body = withId(message);
    return untilKnown(() => this.trunkline.rest.POST('/v1/sessions/{id}/messages', { params, body }));
  }

  /** Interrupts the turn. */
  async interrupt(): Promise<void> {
    await this.trunkline.rest.POST('/v1/sessions/{id}/interrupt', this.path);
  }

  /** Decides an approval by its id. Somebody else may be first: `already_decided` says who, and what. */
  decide(approvalId: string, decision: Decision): Promise<Approval> {
    const path = { id: this.id, approval_id: approvalId };
    const init = { params: { path }, body: decision };
    return untilKnown(() => this.trunkline.rest.POST('/v1/sessions/{id}/approvals/{approval_id}', init));
  }

  /** A new session that begins as a copy of this one; with `at` up to the message with this id. */
  async fork(request: ForkRequest = {}): Promise<Session> {
    const made = await this.trunkline.rest.POST('/v1/sessions/{id}/fork', { ...this.path, body: request });
    return this.trunkline.session(made.id);
  }

  /** Ends the process; the session can be resumed. */
  stop(): Promise<SessionView> {
    return this.trunkline.rest.POST('/v1/sessions/{id}/stop', this.path);
  }

  /** Starts a process that goes on with the conversation. */
  resume(): Promise<SessionView> {
    return this.trunkline.rest.POST('/v1/sessions/{id}/resume', this.path);
  }

  /** Deletes the session and all that is kept of it. */
  async delete(): Promise<void> {
    await this.trunkline.rest.DELETE('/v1/sessions/{id}', this.path);
  }
}

/** These leave open what came of a request. */
const NOT_KNOWN = new Set<string>(['wait_timeout', 'outcome_unknown', 'shutting_down', 'idempotency_in_progress']);

/**
 * Sends a request until its end is known, for what is done once however often it is sent: a message has its id, and an approval
 * ends once. Each try has a key of its own, as a key would keep the first answer.
 */
async function untilKnown<T>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof TrunklineError && NOT_KNOWN.has(error.code))) throw error;
      await pause(100);
    }
  }
}

function withId(message: string | Message): Message {
  return { uuid: newUuid(), ...(typeof message === 'string' ? { text: message } : message) };
}

