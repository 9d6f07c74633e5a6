//! Owns the table of error codes: what each one means, and whether trying again makes sense. Every transport tells a fault
//! by the same code, so no other file has the name of one as text.

/// Builds the enum and its table from one list, so that neither can miss a code.
macro_rules! codes {
    ($( $variant:ident, $name:literal, $retry:ident, $effect:ident, $title:literal, $advice:literal; )*) => {
        /// The stable, machine-readable code of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
        pub enum ErrorCode {
            $(
                #[doc = $title]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The code with this name on the wire.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }

            /// Its meaning, the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }

            /// The advice, when there is nothing more special to say.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice),* }
            }

            /// Whether the same request may succeed later without a change.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => codes!(@ $retry)),* }
            }

            /// Whether the request may have had an effect all the same. An error may know better.
            pub const fn side_effect_possible(self) -> bool {
                match self { $(Self::$variant => codes!(@ $effect)),* }
            }
        }
    };
    (@ retry) => { true };
    (@ final) => { false };
    (@ effect) => { true };
    (@ none) => { false };
}

codes! {
    // Any route.
    MalformedRequest, "malformed_request", final, none,
        "The request is not valid HTTP",
        "Send HTTP/1.1, with one Host header and without characters that no header may have.";
    UriTooLong, "uri_too_long", final, none,
        "The address of the request is too long",
        "An address has at most 65534 bytes; send the rest in a body.";
    HeadersTooLarge, "headers_too_large", final, none,
        "The request has too many headers, or too large ones",
        "Send at most 100 headers, of less than 128 KiB together.";
    Unauthorized, "unauthorized", final, none,
        "The token is missing or wrong",
        "Send the token of the daemon's token file as 'Authorization: Bearer <token>'.";
    TicketInvalid, "ticket_invalid", final, none,
        "The ticket opens nothing here",
        "It is unknown, used, too old or for another path. POST /v1/tickets makes another: it opens one path once, within 30 seconds.";
    TooManyTickets, "too_many_tickets", retry, none,
        "As many tickets wait for their use as may",
        "Use them, or wait: each ends 30 seconds after it was made.";
    LoginInvalid, "login_invalid", final, none,
        "The login does not hold",
        "It was ended, or not used for 30 days, or the request is of no page of this daemon. 'trunkline open' makes another.";
    HostForbidden, "host_forbidden", final, none,
        "The Host header names a host that this daemon does not serve",
        "Use a loopback address, or add the name to server.allowed_hosts.";
    HostMissing, "host_missing", final, none,
        "The request has no usable Host header",
        "Send exactly one Host header.";
    OriginForbidden, "origin_forbidden", final, none,
        "The Origin header names a page that may not use this daemon",
        "Open the page from the daemon itself, or add its origin to server.allowed_origins.";
    RoleForbidden, "role_forbidden", final, none,
        "The client's role does not allow this",
        "A viewer may look, and change nothing. Use the operator's token, which is in the file 'token' of the data directory.";
    RouteNotFound, "route_not_found", final, none,
        "There is nothing at this path",
        "GET /openapi.json lists every path.";
    MethodNotAllowed, "method_not_allowed", final, none,
        "The path does not take this method",
        "The Allow header lists the methods that it takes.";
    UnsupportedMediaType, "unsupported_media_type", final, none,
        "The body is not declared as JSON",
        "Send 'Content-Type: application/json'.";
    BodyTooLarge, "body_too_large", final, none,
        "The body is larger than the limit",
        "Send less, or raise server.max_prompt_bytes.";
    BodyUnreadable, "body_unreadable", retry, none,
        "The body ended too early",
        "Send the whole body.";
    InvalidJson, "invalid_json", final, none,
        "The body is not valid JSON",
        "Mend the JSON at the given line and column.";
    InvalidField, "invalid_field", final, none,
        "A field of the body is unknown, missing or of the wrong type",
        "Mend the named field.";
    InvalidQuery, "invalid_query", final, none,
        "A query parameter is unknown or wrong",
        "GET /openapi.json lists the parameters of every path.";
    InvalidId, "invalid_id", final, none,
        "An id in the path is not a UUID",
        "Use an id that the daemon gave.";
    InvalidCursor, "invalid_cursor", final, none,
        "The cursor was not made by this list",
        "Use the next_cursor of the page before, or none.";
    TooManySearches, "too_many_searches", retry, none,
        "As many searches run as may",
        "Wait until one has ended, which takes seconds.";
    UnknownTimeZone, "unknown_time_zone", final, none,
        "There is no time zone with this name",
        "Use an IANA name such as Europe/Berlin.";
    // Requests with a key.
    InvalidIdempotencyKey, "invalid_idempotency_key", final, none,
        "The Idempotency-Key header is no key",
        "Send it once, with 1 to 255 visible ASCII characters.";
    IdempotencyConflict, "idempotency_conflict", final, none,
        "The idempotency key was used for another request",
        "Use a new key for a new request; a repeat has the same query and the same body, byte for byte.";
    IdempotencyInProgress, "idempotency_in_progress", retry, effect,
        "The first request with this idempotency key still runs",
        "Repeat the request later with the same key.";
    OutcomeUnknown, "outcome_unknown", final, effect,
        "The request began, and how it ended is not known",
        "It is not run again under this key. Look at what it did, and use a new key if it is to be run again.";
    ResponseNotKept, "response_not_kept", final, effect,
        "The request was carried out, and its response is no longer kept",
        "The response was very large, or its session was deleted. The member 'response_status' is its status.";
    // Streams and sockets.
    UpgradeRequired, "upgrade_required", final, none,
        "This path is a WebSocket",
        "Connect with a WebSocket client of version 13.";
    UnsupportedProtocol, "unsupported_protocol", final, none,
        "None of the offered WebSocket sub-protocols is known",
        "Offer trunkline.v1, or none.";
    TooManyClients, "too_many_clients", retry, none,
        "The session has as many clients as it may have",
        "Close another client of the session, or raise server.max_connections_per_session.";
    TooManyConnections, "too_many_connections", retry, none,
        "The daemon has as many clients as it may have",
        "Close another client, or raise server.max_connections.";
    SeqBeyondHead, "seq_beyond_head", final, none,
        "The journal has no record with this number yet",
        "Use a seq that the session has given, at most its head_seq.";
    HistoryDiffers, "history_differs", final, none,
        "The journal has another record under this number",
        "The data directory was restored from a copy, and went its own way. Begin anew, with what the session says now.";
    RecordsCompacted, "records_compacted", final, none,
        "The records are no longer kept",
        "Start from the oldest record that is kept.";
    RecordNotFound, "record_not_found", final, none,
        "The journal has lost the record with this number",
        "It was damaged; the records around it are as they were.";
    // Sessions.
    SessionNotFound, "session_not_found", final, none,
        "There is no session with this id",
        "GET /v1/sessions lists the sessions.";
    RevisionDiffers, "revision_differs", final, none,
        "The session was edited since",
        "Look at what changed in it, and name the 'revision' that it has now.";
    SessionNotLive, "session_not_live", final, none,
        "The session has no process",
        "Resume the session first.";
    SessionAlreadyLive, "session_already_live", final, none,
        "The session has a process already",
        "Use it as it is, or stop it first.";
    SessionNotParkable, "session_not_parkable", retry, none,
        "The session cannot be parked now",
        "The member 'obstacle' says what stands in the way.";
    SessionStopping, "session_stopping", retry, none,
        "The session is being stopped",
        "Wait until it is stopped.";
    KeeperIncompatible, "keeper_incompatible", final, none,
        "The session's process is kept by another version of the program",
        "Let a daemon of that version, or a newer one, take over; or stop the session, which can be resumed then.";
    KeeperUnresponsive, "keeper_unresponsive", retry, none,
        "The keeper of the session's process lives and does not answer",
        "Wait until it does, which the session shows; or stop the session, which ends the keeper.";
    SessionEnded, "session_ended", final, effect,
        "The session ended before the answer came",
        "Look at the session's reason, then resume it.";
    ConversationNotStarted, "conversation_not_started", final, none,
        "The session has no turn to go on from",
        "Send a message first.";
    ConversationNotKept, "conversation_not_kept", final, none,
        "The session keeps no conversation to go on from",
        "Resume it with fresh: true, which begins a new conversation with the same settings.";
    BudgetSpent, "budget_spent", final, none,
        "The session has cost what it may cost",
        "Raise max_budget_usd among the session's options, or fork it: a fork has the limit anew.";
    ConversationInUse, "conversation_in_use", retry, none,
        "Another process works on the session's conversation",
        "End that process, or fork the session.";
    ConversationTaken, "conversation_taken", final, none,
        "Another session has this conversation",
        "Use the session that the member 'session_id' names, or fork it.";
    ConversationNotFound, "conversation_not_found", final, none,
        "The agent CLI knows no such conversation",
        "Check the id, and name the directory that the conversation began in: older CLIs look nowhere else.";
    ChoicesDamaged, "choices_damaged", final, none,
        "The session's run-time choices cannot be read",
        "Mend the named file, or resume with fresh, which puts the file aside and begins without it.";
    ChoicesMissing, "choices_missing", final, none,
        "The session's run-time choices are gone",
        "Put the named file back and restart the daemon, or resume with fresh, which begins without it.";
    MessageNotFound, "message_not_found", final, none,
        "The session has no message with this id",
        "Take the 'uuid' of a message that GET .../messages lists.";
    MessageNotForkable, "message_not_forkable", final, none,
        "No conversation can go on from this message",
        "Take a message of the main conversation that is not older than its last compaction.";
    ResumeRejected, "resume_rejected", final, effect,
        "More is behind the message than the turn that was to be dropped",
        "Resume the session without 'at': nothing is lost. Then look at what came behind the message.";
    TooManySessions, "too_many_sessions", retry, none,
        "As many sessions have a process as the limit allows",
        "Stop a session, or raise the named limit.";
    StartQueueFull, "start_queue_full", retry, none,
        "As many starts wait as the limit allows",
        "Try again later, or raise limits.queued_starts.";
    TooFewFiles, "too_few_files", retry, none,
        "The daemon has too few file descriptors left",
        "Stop a session, or start the daemon with a higher limit of open files (ulimit -n, LimitNOFILE=).";
    TooFewProcesses, "too_few_processes", retry, effect,
        "The system has no room for another process",
        "Stop a session, or start the daemon with a higher limit of processes (ulimit -u, TasksMax=).";
    CwdMissing, "cwd_missing", final, none,
        "The working directory does not exist",
        "Make the directory, or name another.";
    CwdNotADirectory, "cwd_not_a_directory", final, none,
        "The working directory is not a directory",
        "Name a directory.";
    CwdNotAbsolute, "cwd_not_absolute", final, none,
        "The working directory is not an absolute path",
        "Name it from the root on.";
    CwdOutsideRoots, "cwd_outside_roots", final, none,
        "The working directory lies outside the allowed roots",
        "Use a directory under sessions.cwd_roots.";
    CwdUnreadable, "cwd_unreadable", final, none,
        "The daemon cannot enter the working directory",
        "Change the directory's permissions.";
    InvalidOption, "invalid_option", final, none,
        "A launch option has a value that cannot be used",
        "Mend the named option.";
    ForkCwdDiffers, "fork_cwd_differs", final, none,
        "A fork works in its parent's directory",
        "Leave the working directory out.";
    CwdUnknown, "cwd_unknown", final, none,
        "Nothing says where the session works",
        "Resume it with 'cwd': its file was lost, and a conversation goes on only from the directory that it began in.";
    CwdDiffers, "cwd_differs", final, none,
        "A session stays in its working directory",
        "Leave the working directory out.";
    CliNotFound, "cli_not_found", retry, none,
        "The agent CLI is not where the daemon looks",
        "Install it, or set claude.bin; 'trunkline doctor' shows where it was looked for.";
    StartFailed, "start_failed", final, effect,
        "The agent CLI did not start",
        "Look at the reason and the end of its error output.";
    StopTimeout, "stop_timeout", retry, effect,
        "The session did not stop in time",
        "Stop it again; look at its processes if that does not help.";
    // Messages and controls.
    EmptyPrompt, "empty_prompt", final, none,
        "The message has no content",
        "Send text or content.";
    PromptTooLarge, "prompt_too_large", final, none,
        "The message is larger than the limit",
        "Send less, or raise server.max_prompt_bytes.";
    PromptConflict, "prompt_conflict", final, none,
        "A message with this uuid and other content was sent before",
        "Use a new uuid for a new message.";
    PromptGiven, "prompt_given", final, none,
        "The agent CLI was given the message already",
        "It waits no longer. The control request cancel_async_message takes back what the CLI has not begun with.";
    PromptNotFound, "prompt_not_found", final, none,
        "No message with this id waits for the session",
        "GET the session's prompts.";
    QueueFull, "queue_full", retry, none,
        "As many messages wait for the session as may",
        "Take one back, or wait until the session has done some.";
    CallDeferred, "call_deferred", retry, none,
        "A hook put the call of a tool off, and it is not decided",
        "Decide the pending approval of kind deferred, then send the message again.";
    PromptDropped, "prompt_dropped", final, effect,
        "The message ended without a turn",
        "It was cancelled, or the process ended before its turn did.";
    PromptNotPending, "prompt_not_pending", final, none,
        "The message has no pending turn",
        "Its turn has ended; GET the session's turns.";
    RequestNotPending, "request_not_pending", final, none,
        "No request of the agent CLI with this id is pending",
        "Nothing is left to answer: the request has an answer, or the agent CLI cancelled it.";
    RequestNotOwned, "request_not_owned", final, none,
        "Another client answers this request",
        "The session's snapshot names the client that answers each pending request.";
    RequestIdInUse, "request_id_in_use", final, none,
        "A request of this client with the same id is still open",
        "Use a new id for each request.";
    RequestCancelled, "request_cancelled", final, none,
        "The client cancelled the request before the agent CLI got it",
        "Nothing was done.";
    SecretRefused, "secret_refused", final, none,
        "The daemon cannot keep the secret out of the journal",
        "Restart the session, whose keeper is of an older version, then send the secret again.";
    NotSubscribed, "not_subscribed", final, none,
        "The client has not subscribed to this session on this socket",
        "Send trunkline.subscribe with its session_id first.";
    AlreadySubscribed, "already_subscribed", final, none,
        "The client has subscribed to this session on this socket already",
        "Send trunkline.unsubscribe first to begin at another record.";
    UnknownFrame, "unknown_frame", final, none,
        "The daemon knows no frame of this type",
        "Send a frame whose type docs/protocol/websocket.md lists.";
    InvalidLine, "invalid_line", final, none,
        "The agent CLI would not accept this line",
        "Mend the line as the detail says.";
    InputBlocked, "input_blocked", retry, none,
        "The agent CLI takes no input now: its queue is full, or it has just ended and starts again",
        "Try again later, or stop the session.";
    ControlRefused, "control_refused", final, none,
        "The agent CLI refused the control request",
        "The detail is what the CLI said.";
    ControlNotAllowed, "control_not_allowed", final, none,
        "No client may send this control request, or not this way",
        "The detail says why, and what to use instead.";
    NotInitialized, "not_initialized", retry, none,
        "The agent CLI has not told what it offers yet",
        "Wait until the session is ready.";
    ControlTimeout, "control_timeout", retry, effect,
        "The agent CLI did not answer the control request in time",
        "It may still act on it.";
    WaitTimeout, "wait_timeout", retry, effect,
        "The wait ended before the work did",
        "The work goes on; follow the session's events, or wait again with the same uuid.";
    // Approvals.
    TurnNotFound, "turn_not_found", final, none,
        "No turn with this number has ended in the session",
        "Wait until it has ended; GET the session's turns.";
    ApprovalNotFound, "approval_not_found", final, none,
        "There is no approval with this id in the session",
        "GET /v1/approvals?state=pending lists what needs an answer.";
    AlreadyDecided, "already_decided", final, none,
        "The approval was answered before",
        "The member 'approval' shows by whom and how.";
    ApprovalNotPending, "approval_not_pending", final, none,
        "The agent no longer waits for this approval",
        "Nothing is left to answer.";
    InvalidDecision, "invalid_decision", final, none,
        "The decision does not fit the request",
        "Mend the decision as the detail says.";
    NothingToPutOff, "nothing_to_put_off", final, none,
        "The session needs nobody",
        "Only what a session needs can be put off; GET /v1/events says what that is.";
    FileNotNamed, "file_not_named", final, none,
        "The approval is about no file",
        "Only calls of Write, Edit, MultiEdit and NotebookEdit name a file.";
    FileOutsideRoots, "file_outside_roots", final, none,
        "The file lies outside the allowed roots",
        "The daemon shows no file outside sessions.cwd_roots.";
    FileUnreadable, "file_unreadable", final, none,
        "The daemon cannot read the file",
        "It is no regular file, or its permissions forbid it.";
    // Rules.
    RuleNotFound, "rule_not_found", final, none,
        "There is no rule with this id in the session",
        "GET the session's rules.";
    RuleExists, "rule_exists", final, none,
        "The session has a rule with this id",
        "Use another id, or replace the whole list.";
    InvalidRule, "invalid_rule", final, none,
        "A rule cannot be used",
        "Mend the named member.";
    // Webhooks.
    WebhookNotFound, "webhook_not_found", final, none,
        "There is no webhook with this id",
        "GET /v1/webhooks lists the webhooks.";
    WebhookConfigured, "webhook_configured", final, none,
        "The webhook is one of the configuration",
        "Change [[webhooks.receivers]] in the configuration and restart the daemon.";
    TooManyWebhooks, "too_many_webhooks", final, none,
        "There are as many webhooks as there may be",
        "Delete one, or make one that is told more.";
    // Logins.
    LoginNotFound, "login_not_found", final, none,
        "There is no such login",
        "GET /v1/logins lists the logins; a viewer sees its own.";
    // The daemon.
    ShuttingDown, "shutting_down", retry, effect,
        "The daemon is shutting down",
        "Try again when it is back.";
    RestartRefused, "restart_refused", final, none,
        "The daemon was not started again",
        "It runs on as before; the detail says what stands in the way.";
    NotReady, "not_ready", retry, none,
        "The daemon cannot work now",
        "The body says what is wrong.";
    Rebuilding, "rebuilding", retry, none,
        "The daemon makes its database again from the sessions",
        "Ask again in a moment; 'rebuild' says how far it is.";
    StorageUnavailable, "storage_unavailable", retry, effect,
        "The daemon's storage cannot be used now",
        "Look for a full or read-only disk; the daemon's log has the cause.";
    StorageFailed, "storage_failed", final, effect,
        "The daemon's storage failed",
        "The daemon's log has the cause under the request id.";
    Internal, "internal", final, effect,
        "The daemon failed",
        "The daemon's log has the cause under the request id.";
}

impl ErrorCode {
    /// Whether its details are for the log alone.
    pub const fn is_internal(self) -> bool {
        matches!(
            self,
            Self::Internal | Self::StorageFailed | Self::StorageUnavailable
        )
    }
}
