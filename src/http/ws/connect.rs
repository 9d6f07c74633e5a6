//! Owns the socket that makes a session for its connection: which options its address may carry, when the session is made, and
//! what becomes of it when the connection is over.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderMap, Uri},
    response::Response,
};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    AttachParams, Client, Close, Dialect as _, Limits, Protocol, RelayClient, asked,
    first_line::{self, Place},
    ndjson::{self, Greeting, Relay, greeting_in},
    prepared, relay,
    socket::{self, Until},
};
use crate::{
    auth::{Shown, Tenure},
    claude::{LaunchOptions, arguments, options::Settings},
    domain::{CliSessionId, ClientId, ConnectionId, Role, Seq, SessionId},
    http::{
        ApiError, AppState, ErrorCode,
        connections::ConnectionPermit,
        extract::{Params, Whole},
        serve::Visit,
    },
    supervisor::{CreateSession, ForkSession, Host, SessionView, SupervisorError, Tether},
};

/// The path.
pub(super) const PATH: &str = "/v1/connect";
/// How long the first line of a host may take: with an `initialize` the process begins with it.
const FIRST_LINE: Duration = Duration::from_secs(2);
/// The maker of the session, in its journal.
const BY: &str = "connect";
/// The parameters that are no launch options.
const OWN: [&str; 11] = [
    "cwd",
    "title",
    "tag",
    "profile",
    "session",
    "resume",
    "fork",
    "on_close",
    "protocol",
    "client_id",
    "ticket",
];

/// The fate of a session when the connection that it was made for is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum OnClose {
    /// It stays as any session.
    #[default]
    Keep,
    /// It stops once its turn and its tasks are over, as the CLI does at the end of its input.
    Stop,
}

/// The session for a connection. The launch options are those of `POST /v1/sessions` that have plain values.
#[derive(Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ConnectParams {
    /// The working directory, as an absolute path. Needed for a new conversation.
    cwd: Option<String>,
    /// A name for the session.
    title: Option<String>,
    /// A group for the session.
    tag: Option<String>,
    /// The name of launch options in the configuration, `sessions.profiles`. The other parameters go before them.
    profile: Option<String>,
    /// A session to come back to, by our id. It is resumed if it has stopped. It goes with no launch option.
    session: Option<SessionId>,
    /// A conversation to come back to, by the CLI's id: in the session that has it, or else in a new one.
    #[param(value_type = Option<uuid::Uuid>)]
    resume: Option<CliSessionId>,
    /// Whether a new session begins with a copy of the conversation of `resume`, which stays as it is. Default: `false`.
    fork: Option<bool>,
    /// The fate of the session when the connection is over. Default: `keep`.
    #[param(inline)]
    on_close: Option<OnClose>,
    /// The sub-protocol, for clients that cannot set a header: `ndjson`, which is also the default.
    protocol: Option<String>,
    /// How the client names itself, as for `GET /v1/sessions/{id}/ws`.
    client_id: Option<ClientId>,

    /// The model: an alias (`opus`, `sonnet`) or a full name.
    model: Option<String>,
    /// Models to fall back to when the main one is overloaded, comma separated.
    fallback_model: Option<String>,
    /// Most tokens for thinking; 0 turns it off.
    max_thinking_tokens: Option<u32>,
    /// How much effort goes into an answer.
    effort: Option<String>,
    /// Most model calls for one prompt.
    max_turns: Option<u32>,
    /// Most US dollars for the session.
    max_budget_usd: Option<f64>,
    /// Tokens that the model is told it may use for a task.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    task_budget: Option<Whole>,
    /// The permission mode to start in.
    permission_mode: Option<String>,
    /// Makes `bypassPermissions` reachable later on.
    allow_dangerously_skip_permissions: Option<bool>,
    /// The one that answers permission prompts: `host` or `none`.
    permission_prompts: Option<String>,
    /// An MCP tool that answers permission prompts.
    permission_prompt_tool_name: Option<String>,
    /// Whether only the servers of the profile are used.
    strict_mcp_config: Option<bool>,
    /// The form of the `preview` of a question's options.
    question_preview_format: Option<String>,
    /// Where project settings are read from in place of the working directory.
    project_config_root: Option<String>,
    /// The agent that leads the conversation.
    agent: Option<String>,
    /// The system prompt, as a text.
    system_prompt: Option<String>,
    /// Replaces the work flow that plan mode describes to the model.
    plan_mode_instructions: Option<String>,
    /// The absolute path of a settings file.
    settings: Option<String>,
    /// Whether text is streamed as it is written.
    include_partial_messages: Option<bool>,
    /// Whether the life of command hooks is reported.
    include_hook_events: Option<bool>,
    /// Whether a `prompt_suggestion` follows each turn.
    prompt_suggestions: Option<bool>,
    /// Whether running sub-agents are summarised.
    agent_progress_summaries: Option<bool>,
    /// Whether the text of sub-agents is reported.
    forward_subagent_text: Option<bool>,
    /// Whether clients can stop single background tasks.
    per_task_stop_affordance: Option<bool>,
    /// Whether the CLI repeats each prompt on its output.
    replay_user_messages: Option<bool>,
    /// Whether files are saved before they are changed.
    enable_file_checkpointing: Option<bool>,
    /// Whether prompts reach the model as they are.
    verbatim_prompts: Option<bool>,
    /// Whether the CLI keeps the conversation on disk.
    persist_session: Option<bool>,
    /// The program of the CLI: a name of `claude.executables` in the configuration.
    executable: Option<String>,
    /// Whether `env` of the profile takes the place of the daemon's environment.
    replace_env: Option<bool>,
    /// Whether the CLI logs its doings.
    debug: Option<bool>,
    /// The file for that log: an absolute path.
    debug_file: Option<String>,
}

impl ConnectParams {
    /// The launch options among the parameters.
    fn given(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut all)) = serde_json::to_value(self) else {
            return Map::new();
        };
        all.retain(|name, value| !value.is_null() && !OWN.contains(&name.as_str()));
        all
    }

    /// Whether the address says how the process is started.
    fn has_options(&self) -> bool {
        self.profile.is_some() || !self.given().is_empty()
    }

    /// The conversation that is copied.
    fn copied(&self) -> Option<CliSessionId> {
        self.resume.filter(|_| self.fork == Some(true))
    }

    /// The launch options, those of the profile included.
    fn options(&self, state: &AppState) -> Result<LaunchOptions, ApiError> {
        let mut all = match &self.profile {
            Some(name) => state.config().profiles.get(name).cloned().ok_or_else(|| {
                invalid(format!(
                    "profile: the configuration has no sessions.profiles.{name}"
                ))
            })?,
            None => Map::new(),
        };
        all.extend(self.given());
        let text = Value::Object(all).to_string();
        let options: LaunchOptions = serde_path_to_error::deserialize(
            &mut serde_json::Deserializer::from_str(&text),
        )
        .map_err(|error| {
            let (name, error) = (error.path().to_string(), error.inner().to_string());
            let error = error.split(" at line ").next().unwrap_or_default().to_owned();
            invalid(format!("{name}: {error}"))
        })?;
        if let (Some(_), Some(Settings::Inline(_))) = (&self.settings, &options.settings) {
            return Err(invalid("settings: the absolute path of a file is expected"));
        }
        Ok(options)
    }

    /// The faults that can be told before anybody has shown a token.
    fn check(&self) -> Result<(), ApiError> {
        if let Some(profile) = &self.profile {
            let is_named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if profile.is_empty() || profile.len() > 64 || !profile.chars().all(is_named) {
                return Err(invalid("profile: this is no name of a profile"));
            }
        }
        if self.max_budget_usd.is_some_and(|budget| !budget.is_finite()) {
            return Err(invalid("max_budget_usd: this is no amount"));
        }
        if self.fork.is_some() && self.resume.is_none() {
            return Err(invalid("fork: goes with resume="));
        }
        if self.session.is_some() {
            let beside = self.given().keys().next().cloned();
            let others = [
                ("cwd", self.cwd.is_some()),
                ("title", self.title.is_some()),
                ("tag", self.tag.is_some()),
                ("profile", self.profile.is_some()),
                ("resume", self.resume.is_some()),
            ];
            let other = others.into_iter().find(|(_, is_given)| *is_given);
            if let Some(name) = beside.or(other.map(|(name, _)| name.to_owned())) {
                return Err(invalid(format!("{name}: goes with no session=")));
            }
        } else if self.cwd.is_none() && self.resume.is_none() {
            return Err(invalid("cwd: is missing"));
        }
        Ok(())
    }
}

fn invalid(detail: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidQuery).detail(detail.into())
}

/// Whether a client of this address may show its token by its first line.
pub(super) fn takes_first_line(path: &str, headers: &HeaderMap, named: Option<&str>) -> bool {
    path == PATH && protocol_of(headers, named).is_ok()
}

/// Every client of this path speaks `ndjson`, also one that offers nothing.
fn protocol_of(headers: &HeaderMap, named: Option<&str>) -> Result<Protocol, ApiError> {
    let named = named.or((!super::has_offer(headers)).then_some(ndjson::PROTOCOL));
    let protocol = Protocol::of(headers, named).filter(|protocol| *protocol == Protocol::Ndjson);
    protocol.ok_or(ErrorCode::UnsupportedProtocol.into())
}

/// Make a session for this connection.
///
/// The address says how the session is made, or to which one to come back. Then the lines of the agent go both ways as with the
/// sub-protocol `ndjson` of `GET /v1/sessions/{id}/ws`, and the first `initialize` of the client is the first of the process.
/// Nothing is made before the client has shown an operator's token or ticket, by a header or by its first line.
#[utoipa::path(
    get, path = "/v1/connect", operation_id = "connect_session", tag = "sessions",
    params(ConnectParams),
    responses((status = 101, description = "The WebSocket is open")),
)]
pub(in crate::http) async fn connect(
    State(state): State<AppState>,
    role: Option<Extension<Role>>,
    visit: Option<Extension<Arc<Visit>>>,
    tenure: Tenure,
    (uri, headers): (Uri, HeaderMap),
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    Params(params): Params<ConnectParams>,
) -> Result<Response, ApiError> {
    let upgrade = asked(upgrade)?;
    let protocol = protocol_of(&headers, params.protocol.as_deref())?;
    params.check()?;
    let upgrade = prepared(upgrade, protocol.as_str(), &state);
    let role = role.map(|Extension(role)| role);
    let visit = visit.map(|Extension(visit)| visit);
    let place = role.is_none().then(|| {
        first_line::bound(visit.as_ref());
        state.first_lines().take()
    });
    let limits = Limits::of(state.config());
    let (shutdown, tracked) = (state.shutdown().clone(), state.tracker().token());
    let path = uri.path().to_owned();
    Ok(upgrade.on_upgrade(move |mut socket| async move {
        let shown = role.map(|role| Shown { role, tenure });
        let proof = Proof {
            shown,
            place: place.flatten(),
            visit,
            path,
        };
        let ended = match open(&state, &params, proof, &mut socket).await {
            Ok(Open {
                id,
                client,
                tether,
                permit,
                tenure,
            }) => {
                let until = Until::of(&state, tenure);
                let ended = socket::run(socket, client, limits, until).await;
                if let Some(tether) = tether
                    && !shutdown.is_cancelled()
                {
                    tether.end_of_input();
                }
                drop(permit);
                tracing::info!(session.id = %id, reason = ended, "the host's WebSocket closed");
                ended
            }
            Err(close) => {
                socket::refuse(socket, &close, limits.close_timeout).await;
                close.as_str()
            }
        };
        tracing::debug!(reason = ended, "a connection for a session is over");
        drop(tracked);
    }))
}

/// How a client proves itself.
struct Proof {
    /// The credential that it has shown; without one its first line is to show it.
    shown: Option<Shown>,
    /// Where it waits for that line, if a place was free.
    place: Option<Place>,
    visit: Option<Arc<Visit>>,
    path: String,
}

/// A connection that has its session.
struct Open {
    id: SessionId,
    client: RelayClient,
    tether: Option<Tether>,
    permit: ConnectionPermit,
    tenure: Tenure,
}

async fn open(
    state: &AppState,
    params: &ConnectParams,
    proof: Proof,
    socket: &mut WebSocket,
) -> Result<Open, Close> {
    let is_shown = proof.shown.is_some();
    let (Shown { role, tenure }, text) = match proof.shown {
        Some(shown) => (shown, String::new()),
        None => {
            let place = proof.place.ok_or(Close::Unproven)?;
            let opens = |credential: &str| state.opened_by(credential, &proof.path);
            let shown = first_line::prove(socket, opens, proof.visit.as_ref(), state.shutdown()).await?;
            drop(place);
            shown
        }
    };
    if !role.covers(Role::Operator) {
        return Err(Close::Forbidden);
    }
    let failed = |error: ApiError| Close::Unattached(error.into());
    let options = params.options(state).map_err(failed)?;
    let max_bytes = Limits::of(state.config()).message_bytes;
    let mut text = wait_for_line(state, socket, text, max_bytes).await?;
    if is_shown
        && let Some((line, rest)) = text.split_once('\n')
        && first_line::is_auth(line.as_bytes())
    {
        // The role stays the one with which the socket was opened.
        let known = first_line::credential(line).and_then(|token| state.tokens().role_of(&token));
        known.ok_or(Close::Unproven)?;
        text = wait_for_line(state, socket, rest.to_owned(), max_bytes).await?;
    }
    let supervisor_failed = |error: SupervisorError| failed(error.into());
    let first = text.split_once('\n').and_then(|(line, _)| greeting_in(line));
    let all = text.clone();
    let rest = match (&first, text.split_once('\n')) {
        (Some(_), Some((_, rest))) => rest.to_owned(),
        _ => text,
    };
    let name = params.client_id.clone();
    let name = name.unwrap_or_else(|| ConnectionId::new().into());
    if let Some(id) = known_session(state, params).await.map_err(supervisor_failed)? {
        // A client that closes its connection and comes back at once begins anew.
        let ended = state.tethers().wait_for_end(id).await;
        ended.map_err(supervisor_failed)?;
        let live = state
            .supervisor()
            .session(id)
            .await
            .map_err(supervisor_failed)?
            .live;
        let has_options = params.has_options();
        if ndjson::is_over(live.state) && (first.is_some() || has_options) {
            // The process begins with what the address and the client say.
            let options = has_options.then(|| remembering(params, options, first.as_ref()));
            let host = host_of(params, &name, first.as_ref());
            let permit = state.connections().admit(id).map_err(failed)?;
            let resumed = state.supervisor().resume_for(id, options, host);
            Box::pin(resumed).await.map_err(supervisor_failed)?;
            let tether = tether(state, params, id).await?;
            let shape = |relay: Relay<_>| relay.of_next_process();
            let mut client = begin(state, id, live.head_seq, &name, first, shape).await?;
            client.early = client.dialect.received(rest.into(), live.head_seq)?.lines;
            return Ok(Open {
                id,
                client,
                tether,
                permit,
                tenure,
            });
        }
        if has_options {
            return Err(failed(invalid(
                "resume: the session runs already, and takes no launch options",
            )));
        }
        let attach = AttachParams {
            after: None,
            after_ts: None,
            tail: None,
            only: None,
            without: None,
            coalesce: None,
            protocol: None,
            client_id: params.client_id.clone(),
            resume: Some(true),
            stub_above: None,
            snapshot: None,
        };
        let permit = state.connections().admit(id).map_err(failed)?;
        let shown = Shown { role, tenure };
        let client = relay(state, id, &attach, &shown, None, all).await?;
        let tenure = shown.tenure;
        let tether = tether(state, params, id).await?;
        return Ok(Open {
            id,
            client,
            tether,
            permit,
            tenure,
        });
    }
    // Without a place for the client nothing is made.
    let place = state.connections().admit_any().map_err(failed)?;
    let view = make(state, params, options, &name, first.as_ref())
        .await
        .map_err(supervisor_failed)?;
    let id = view.row.id;
    let tether = tether(state, params, id).await?;
    drop(place);
    let permit = state.connections().admit(id).map_err(failed)?;
    let mut client = begin(state, id, Seq::ZERO, &name, first, |relay| relay).await?;
    client.early = client.dialect.received(rest.into(), Seq::ZERO)?.lines;
    Ok(Open {
        id,
        client,
        tether,
        permit,
        tenure,
    })
}

/// Whether the session ends with the connection.
async fn tether(state: &AppState, params: &ConnectParams, id: SessionId) -> Result<Option<Tether>, Close> {
    if params.on_close != Some(OnClose::Stop) {
        state.tethers().release(id).await;
        return Ok(None);
    }
    let tether = state.tethers().tie(id);
    let failed = |error: SupervisorError| Close::Unattached(ApiError::from(error).into());
    tether.map(Some).map_err(failed)
}

/// The session that the address comes back to.
async fn known_session(
    state: &AppState,
    params: &ConnectParams,
) -> Result<Option<SessionId>, SupervisorError> {
    match (params.session, params.resume) {
        (Some(id), _) => Ok(Some(id)),
        _ if params.copied().is_some() => Ok(None),
        (None, Some(conversation)) => Ok(state
            .supervisor()
            .store()
            .session_of_conversation(conversation)
            .await?),
        (None, None) => Ok(None),
    }
}

/// The launch options of the address, with what the client says first.
fn remembering(params: &ConnectParams, options: LaunchOptions, first: Option<&Greeting>) -> LaunchOptions {
    let mut options = LaunchOptions {
        resume: params.resume.filter(|_| params.copied().is_none()),
        ..options
    };
    if let Some(greeting) = first {
        arguments::remember(&mut options, greeting.request());
    }
    options
}

/// The client, as the supervisor knows it.
fn host_of(params: &ConnectParams, name: &ClientId, first: Option<&Greeting>) -> Host {
    Host {
        client: name.clone(),
        initialize: first.map(|greeting| greeting.request().to_owned()),
        args: Vec::new(),
        extra_args: Vec::new(),
        env: Vec::new(),
        has_whole_env: false,
        is_tied: params.on_close == Some(OnClose::Stop),
        left_out: Vec::new(),
    }
}

async fn make(
    state: &AppState,
    params: &ConnectParams,
    options: LaunchOptions,
    name: &ClientId,
    first: Option<&Greeting>,
) -> Result<SessionView, SupervisorError> {
    let supervisor = state.supervisor();
    let options = remembering(params, options, first);
    let host = first.map(|_| host_of(params, name, first));
    let copied = params.copied();
    let parent = match copied {
        Some(conversation) => supervisor.store().session_of_conversation(conversation).await?,
        None => None,
    };
    if let Some(parent) = parent {
        let fork = ForkSession {
            cwd: params.cwd.clone(),
            title: params.title.clone(),
            options: params.has_options().then_some(options),
            host,
            ..ForkSession::default()
        };
        return Box::pin(supervisor.fork(parent, fork, BY)).await;
    }
    let request = CreateSession {
        id: None,
        cwd: params.cwd.clone().unwrap_or_default(),
        prompt: None,
        title: params.title.clone(),
        tag: params.tag.clone(),
        labels: Default::default(),
        options,
        rules: Vec::new(),
        restart: None,
        conversation: None,
        copies: copied.map(|conversation| (conversation, None)),
        host,
    };
    Box::pin(supervisor.create(request, BY)).await
}

/// Attaches a client to a session whose process begins with its `initialize`, if it has said one.
pub(super) async fn begin(
    state: &AppState,
    id: SessionId,
    after: Seq,
    name: &ClientId,
    first: Option<Greeting>,
    shape: impl FnOnce(Relay<crate::session::ClientInbox>) -> Relay<crate::session::ClientInbox>,
) -> Result<RelayClient, Close> {
    let failed = |error: SupervisorError| Close::Unattached(ApiError::from(error).into());
    let attachment = state
        .supervisor()
        .attach_host(id, after, name.clone())
        .await
        .map_err(failed)?;
    let earlier = ndjson::Earlier {
        open: std::collections::VecDeque::new(),
        feed: attachment.feed,
    };
    let max_line_bytes = Limits::of(state.config()).message_bytes;
    let relay = Relay::new(
        attachment.inbox.clone(),
        attachment.client,
        attachment.authors,
        None,
        earlier,
        max_line_bytes,
    );
    let relay = match first {
        Some(greeting) => relay.greeted_by(greeting, true),
        None => relay,
    };
    Ok(Client {
        dialect: shape(relay),
        cursor: attachment.cursor,
        direct: attachment.direct,
        inbox: attachment.inbox,
        early: Vec::new(),
        role: Role::Operator,
    })
}

/// The text of a client up to a whole line, or less after a while.
async fn wait_for_line(
    state: &AppState,
    socket: &mut WebSocket,
    mut text: String,
    max_bytes: usize,
) -> Result<String, Close> {
    let until = Instant::now() + FIRST_LINE;
    while !text.contains('\n') {
        let read = tokio::select! {
            read = timeout_at(until, socket.next()) => read,
            () = state.shutdown().cancelled() => return Err(Close::CutShort),
        };
        match read {
            // It has time: the process begins without it.
            Err(_) => break,
            Ok(Some(Ok(Message::Text(piece)))) if text.len() + piece.len() <= max_bytes => {
                text.push_str(&piece);
            }
            Ok(Some(Ok(Message::Text(_)))) => return Err(Close::TooBig),
            Ok(Some(Ok(Message::Binary(_)))) => return Err(Close::Binary),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            // Nobody is there for whom to make a session.
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return Err(Close::Silent),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use utoipa::IntoParams as _;

    use super::*;
    use crate::claude::options::field_names;

    /// Options that are lists or objects, and those in whose place the address has `resume` and `fork`.
    const NOT_PLAIN: [&str; 24] = [
        "additional_directories",
        "agents",
        "allowed_tools",
        "betas",
        "continue",
        "disallowed_tools",
        "env",
        "extra_args",
        "fork_session",
        "hooks",
        "json_schema",
        "managed_settings",
        "mcp_servers",
        "plugins",
        "resume_session_at",
        "sandbox",
        "sdk_mcp_servers",
        "session_id",
        "setting_sources",
        "skills",
        "supported_dialog_kinds",
        "thinking",
        "tool_aliases",
        "tools",
    ];

    #[test]
    fn every_plain_option_is_a_parameter() {
        let params = ConnectParams::into_params(|| None);
        let params: Vec<_> = params.iter().map(|param| param.name.as_str()).collect();
        for option in field_names() {
            let is_plain = !NOT_PLAIN.contains(&option.as_str());
            assert_eq!(params.contains(&option.as_str()), is_plain, "{option}");
        }
    }
}
