//! Owns the socket of a stand-in of the CLI's program: a program starts it in the place of the CLI, and finds a session of the
//! daemon behind it. Its arguments become launch options, and its end is the end of the session.

use std::{collections::VecDeque, path::Path, time::Duration};

use axum::{
    Extension,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::HeaderMap,
    response::Response,
};
use futures_util::StreamExt as _;
use tokio::{sync::mpsc, time::timeout};

use super::{
    Close, Dialect as _, Limits, RelayClient, asked,
    connect::begin,
    host::{self, First, HostSide, HostSign},
    ndjson::{self, Earlier, Greeting, Relay, greeting_in},
    prepared,
    socket::{self, Until},
};
use crate::{
    auth::Tenure,
    claude::{
        LaunchOptions,
        arguments::{self, HostArguments},
        control::Fields,
        environment,
        options::{McpTarget, PermissionMode, SdkMcpServer},
    },
    domain::{ClientId, ConnectionId, RestartOverride, Role, Seq, SessionId, SessionState},
    http::{ApiError, AppState, ErrorCode, connections::ConnectionPermit},
    session::{Attachment, HostEnd, SessionError},
    supervisor::{CreateSession, ForkSession, Host, Supervisor, SupervisorError, Tether},
};

/// The one that makes and ends the session, in its journal.
const BY: &str = "host";
/// How long the first frame may take.
const FIRST_FRAME: Duration = Duration::from_secs(10);
/// Words about the end that may wait. More say the same again.
const SIGNS: usize = 8;
/// The longest value of a variable that a session keeps.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Stand in for the CLI's program.
///
/// For `trunkline claude`, which programs start in the place of `claude`. The first frame has its arguments, directory,
/// environment and first line; the lines of the agent follow as it prints them, and frames of ours between them that tell of the
/// other outputs and of the end. The shape of these frames is that of this version of the program alone.
#[utoipa::path(
    get, path = "/v1/stdio", operation_id = "stand_in", tag = "sessions",
    responses((status = 101, description = "The WebSocket is open")),
)]
pub(in crate::http) async fn stand_in(
    State(state): State<AppState>,
    Extension(role): Extension<Role>,
    tenure: Tenure,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = asked(upgrade)?;
    if !super::offers(&headers).any(|name| name == host::PROTOCOL.as_bytes()) {
        return Err(ErrorCode::UnsupportedProtocol.into());
    }
    if !role.covers(Role::Operator) {
        return Err(ErrorCode::RoleForbidden.into());
    }
    let upgrade = prepared(upgrade, host::PROTOCOL, &state);
    let (until, tracked) = (Until::of(&state, tenure), state.tracker().token());
    let limits = Limits::of(state.config());
    Ok(upgrade.on_upgrade(move |mut socket| async move {
        let ended = match open(&state, &mut socket, limits).await {
            Ok(Open {
                id,
                client,
                tether,
                signs,
                permit,
            }) => {
                // The host's words about its end are obeyed, also when its connection is lost at once.
                let obeying = obey(state.supervisor().clone(), id, tether, signs);
                let obeying = state.tracker().spawn(obeying);
                let ended = socket::run(socket, client, limits, until).await;
                drop(permit);
                if let Ok(tether) = obeying.await
                    && !socket::may_return(ended)
                {
                    // We did not take what it said.
                    tether.end_of_input();
                }
                tracing::info!(session.id = %id, reason = ended, "the socket of a stand-in closed");
                ended
            }
            Err(Refusal::Close(close)) => {
                socket::refuse(socket, &close, limits.close_timeout).await;
                close.as_str()
            }
            Err(Refusal::Told(error)) => {
                let code = error.code().as_str();
                let told = host::refused(code, error.words()) + "\n";
                // A stand-in that has gone needs no reason.
                let _ = timeout(limits.send_timeout, socket.send(Message::Text(told.into()))).await;
                socket::refuse(socket, &Close::Unattached((*error).into()), limits.close_timeout).await;
                code
            }
        };
        tracing::debug!(reason = ended, "a stand-in is over");
        drop(tracked);
    }))
}

/// Why there is no session for a stand-in.
enum Refusal {
    Close(Close),
    /// With all words.
    Told(Box<ApiError>),
}

impl From<Close> for Refusal {
    fn from(close: Close) -> Self {
        Self::Close(close)
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Told(Box::new(error))
    }
}

impl From<SupervisorError> for Refusal {
    fn from(error: SupervisorError) -> Self {
        ApiError::from(error).into()
    }
}

/// A stand-in that has its session.
struct Open {
    id: SessionId,
    client: RelayClient,
    tether: Tether,
    signs: mpsc::Receiver<HostSign>,
    permit: ConnectionPermit,
}

async fn open(state: &AppState, socket: &mut WebSocket, limits: Limits) -> Result<Open, Refusal> {
    let first = tokio::select! {
        first = timeout(FIRST_FRAME, first_frame(socket, limits.message_bytes)) => first,
        () = state.shutdown().cancelled() => return Err(Close::CutShort.into()),
    };
    let (first, rest) = first.map_err(|_| Close::Silent)??;
    match first {
        First::Launch {
            argv,
            cwd,
            env,
            is_whole_env,
            line,
            session,
            client,
        } => {
            let launch = Launch {
                session: session.unwrap_or_else(SessionId::new),
                argv,
                cwd,
                env: env.into_iter().collect(),
                is_whole_env,
                name: client.unwrap_or_else(|| ConnectionId::new().into()),
                greeting: greeting_in(&line),
                line,
            };
            launch.open(state, socket, rest).await
        }
        First::Reattach {
            session,
            client,
            after,
            initialize,
            is_born,
            is_greeted,
            is_unheard,
            known,
        } => {
            if is_unheard {
                refuse_unbegun(state, session, after).await?;
            }
            let greeting = initialize.and_then(|line| greeting_in(&line));
            let greeting = greeting.map(|greeting| (greeting.answered(is_greeted), is_born));
            let known = known.into_iter().collect();
            reattach(state, session, client, after, greeting, known, rest).await
        }
    }
}

/// The first frame, and the text behind it.
async fn first_frame(socket: &mut WebSocket, max_bytes: usize) -> Result<(First, String), Refusal> {
    let mut text = String::new();
    loop {
        if let Some((line, rest)) = text.split_once('\n') {
            let first = serde_json::from_str(line).map_err(|error| {
                ApiError::new(ErrorCode::InvalidLine).detail(format!(
                    "the stand-in and the daemon are of versions that do not fit: {error}"
                ))
            })?;
            return Ok((first, rest.to_owned()));
        }
        match socket.next().await {
            Some(Ok(Message::Text(piece))) if text.len() + piece.len() <= max_bytes => text.push_str(&piece),
            Some(Ok(Message::Text(_))) => return Err(Close::TooBig.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(Close::Binary.into()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Close::Silent.into()),
        }
    }
}

/// A start of the CLI's program.
struct Launch {
    /// The id of a new session.
    session: SessionId,
    argv: Vec<String>,
    cwd: String,
    env: Vec<(String, String)>,
    is_whole_env: bool,
    name: ClientId,
    greeting: Option<Greeting>,
    line: String,
}

/// The session of a start.
struct Found {
    id: SessionId,
    /// The records before it.
    after: Seq,
    /// Whether the process begins with the host's first word.
    is_born: bool,
}

/// The session of a launch that is said again.
struct Again {
    found: Found,
    /// Whether there was a process.
    has_begun: bool,
}

impl Launch {
    async fn open(self, state: &AppState, socket: &mut WebSocket, rest: String) -> Result<Open, Refusal> {
        let cwd = Path::new(&self.cwd);
        let arguments = arguments::read(&self.argv, cwd)
            .map_err(|bad| ApiError::new(ErrorCode::InvalidOption).detail(bad.to_string()))?;
        // Without a place for the client nothing is made.
        let place = state.connections().admit_any()?;
        let found = self.find_or_make(state, arguments).await?;
        let Found { id, after, is_born } = found;
        let is_next = is_born && after > Seq::ZERO;
        let tether = state.tethers().tie(id)?;
        drop(place);
        let permit = state.connections().admit(id)?;
        let is_born = is_born && self.greeting.is_some();
        // The session has it already.
        let early = if is_born {
            rest
        } else {
            format!("{}\n{rest}", self.line)
        };
        let (sender, signs) = mpsc::channel(SIGNS);
        let greeting = self.greeting.filter(|_| is_born);
        let shape = |relay: Relay<_>| {
            let relay = relay.for_host(HostSide::new(sender), []);
            if is_next { relay.of_next_process() } else { relay }
        };
        let mut client = begin(state, id, after, &self.name, greeting, shape).await?;
        let told = host::session(id, &self.name, after, is_born) + "\n";
        socket
            .send(Message::Text(told.into()))
            .await
            .map_err(|_| Close::Silent)?;
        client.early = client.dialect.received(early.into(), after)?.lines;
        Ok(Open {
            id,
            client,
            tether,
            signs,
            permit,
        })
    }

    async fn find_or_make(&self, state: &AppState, arguments: HostArguments) -> Result<Found, Refusal> {
        let supervisor = state.supervisor();
        let HostArguments {
            options,
            resume,
            is_fork,
            at,
            conversation,
            of_host,
            mut rest,
            unknown,
            left_out,
        } = arguments;
        let (of_protocol, others) = self.environment();
        let mut options = options;
        if let Some(greeting) = &self.greeting {
            arguments::remember(&mut options, greeting.request());
        }
        options.env = Some(others).filter(|env| !env.is_empty());
        let server = SdkMcpServer {
            target: McpTarget::Client {
                client_id: self.name.clone(),
            },
            manifest: None,
            timeout_ms: None,
            tools: None,
        };
        if !of_host.is_empty() {
            options.sdk_mcp_servers = Some(of_host.into_iter().map(|name| (name, server.clone())).collect());
        }
        if let Some(at) = at.filter(|_| !is_fork) {
            rest.push(format!("--resume-session-at={at}"));
        }
        let host = Host {
            client: self.name.clone(),
            initialize: self
                .greeting
                .as_ref()
                .map(|greeting| greeting.request().to_owned()),
            args: rest,
            extra_args: unknown,
            env: of_protocol,
            has_whole_env: self.is_whole_env,
            is_tied: true,
            left_out: left_out.into_iter().map(str::to_owned).collect(),
        };
        let owner = match resume {
            Some(id) => supervisor.store().session_of_conversation(id).await,
            None => Ok(None),
        };
        let owner = owner.map_err(SupervisorError::from)?;
        let made = |id| Found {
            id,
            after: Seq::ZERO,
            is_born: true,
        };
        let goes_on = owner.filter(|_| resume.is_some() && !is_fork);
        let again = self.made_before(state, goes_on.unwrap_or(self.session)).await?;
        if let Some(Again { found, has_begun }) = again {
            if !has_begun {
                // The daemon died before it had a process.
                Box::pin(supervisor.resume_for(found.id, Some(options), host)).await?;
            }
            return Ok(found);
        }
        match (owner, resume, is_fork) {
            (Some(parent), Some(_), true) => {
                let fork = ForkSession {
                    id: Some(self.session),
                    at,
                    cwd: Some(self.cwd.clone()),
                    options: Some(options),
                    conversation,
                    host: Some(host),
                    ..ForkSession::default()
                };
                let view = Box::pin(supervisor.fork(parent, fork, BY)).await?;
                Ok(made(view.row.id))
            }
            (Some(id), Some(_), false) => {
                let mut live = supervisor.session(id).await?.live;
                if live.state == SessionState::Stopping {
                    // Its host has ended, and it is about to.
                    live = supervisor.stop(id, BY).await?.live;
                }
                let after = live.head_seq;
                if !live.state.is_live() {
                    let found = Found {
                        id,
                        after,
                        is_born: true,
                    };
                    options.resume = resume;
                    Box::pin(supervisor.resume_for(id, Some(options), host)).await?;
                    return Ok(found);
                }
                if !state.tethers().is_waited_for(id) {
                    return Err(
                        SupervisorError::Session(SessionError::AlreadyLive { state: live.state }).into(),
                    );
                }
                self.set_anew(state, id, &options).await?;
                let is_born = false;
                Ok(Found { id, after, is_born })
            }
            (_, _, is_copy) => {
                options.resume = resume.filter(|_| !is_copy);
                let request = CreateSession {
                    id: Some(self.session),
                    cwd: self.cwd.clone(),
                    prompt: None,
                    title: None,
                    tag: None,
                    labels: Default::default(),
                    options,
                    rules: Vec::new(),
                    // The program that has started it wants to know of its end.
                    restart: Some(RestartOverride {
                        max_restarts: Some(0),
                        ..RestartOverride::default()
                    }),
                    conversation,
                    copies: resume.filter(|_| is_copy).map(|parent| (parent, at)),
                    host: Some(host),
                };
                let view = Box::pin(supervisor.create(request, BY)).await?;
                Ok(made(view.row.id))
            }
        }
    }

    /// The session of this very launch, which is said again because nobody has heard what became of it.
    async fn made_before(&self, state: &AppState, id: SessionId) -> Result<Option<Again>, Refusal> {
        let after = state.tethers().launched_after(id, &self.name);
        let view = match state.supervisor().session(id).await {
            Ok(view) => view,
            Err(SupervisorError::SessionNotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_unbegun = !view.live.state.is_live() && view.row.run_seq == Seq::ZERO;
        let after = match after {
            Some(after) => after,
            None if id != self.session => return Ok(None),
            // The daemon that was to start it died, and the next one did not wait for its host.
            None if is_unbegun => Seq::ZERO,
            None => {
                return Err(ApiError::new(ErrorCode::InvalidLine)
                    .detail("another program has a session of this id")
                    .into());
            }
        };
        let has_begun = view.live.state.is_live() || view.row.run_seq > after;
        let after = if has_begun { after } else { view.live.head_seq };
        let is_born = true;
        let found = Found { id, after, is_born };
        Ok(Some(Again { found, has_begun }))
    }

    /// A host that comes to a process which runs already gets the model and the permission mode that it asks for.
    async fn set_anew(
        &self,
        state: &AppState,
        id: SessionId,
        options: &LaunchOptions,
    ) -> Result<(), Refusal> {
        let model = options.model.as_deref().map(|it| ("set_model", "model", it));
        let mode = options.permission_mode.map(PermissionMode::as_str);
        let mode = mode.map(|it| ("set_permission_mode", "mode", it));
        for (subtype, member, value) in model.into_iter().chain(mode) {
            let mut fields = Fields::new();
            fields.set(member, &value);
            state.supervisor().control(id, subtype, &fields, BY).await?;
        }
        Ok(())
    }

    /// The variables of the protocol, and those that a session may have.
    fn environment(&self) -> (Vec<(String, String)>, std::collections::BTreeMap<String, String>) {
        let (of_protocol, others): (Vec<_>, Vec<_>) = self
            .env
            .iter()
            .cloned()
            .partition(|(name, _)| environment::OF_HOST.contains(&name.as_str()));
        let may_pass = |(name, value): &(String, String)| {
            environment::is_valid_name(name)
                && !environment::is_never_passed(name)
                && !value.contains('\0')
                && value.len() <= MAX_VALUE_BYTES
        };
        let of_protocol = of_protocol.into_iter().filter(|(_, value)| !value.contains('\0'));
        (
            of_protocol.collect(),
            others.into_iter().filter(may_pass).collect(),
        )
    }
}

/// Refuses a stand-in whose process the daemon before was to start, and did not come to it: the launch is to be said again.
async fn refuse_unbegun(state: &AppState, id: SessionId, after: Seq) -> Result<(), Refusal> {
    let view = state.supervisor().session(id).await?;
    if ndjson::is_over(view.live.state) && view.row.run_seq <= after {
        let state = view.live.state;
        return Err(SupervisorError::Session(SessionError::NotLive { state }).into());
    }
    Ok(())
}

/// Attaches a stand-in that has lost its connection where it was.
async fn reattach(
    state: &AppState,
    id: SessionId,
    name: ClientId,
    after: Seq,
    greeting: Option<(Greeting, bool)>,
    known: Vec<(String, bool)>,
    rest: String,
) -> Result<Open, Refusal> {
    let attachment = state.supervisor().attach_host(id, after, name).await?;
    let Attachment {
        client,
        authors,
        view,
        feed,
        cursor,
        direct,
        inbox,
        ..
    } = attachment;
    if ndjson::is_over(view.state) && view.head_seq <= after {
        return Err(Close::NotLive(view.state).into());
    }
    let permit = state.connections().admit(id)?;
    let tether = state.tethers().tie(id)?;
    // Those of records that come are told with these.
    let is_earlier =
        |seq: Seq, request_id: &str| seq <= after && !known.iter().any(|(id, _)| id.as_str() == request_id);
    let approvals = view.approvals.iter();
    let approvals = approvals.map(|approval| (approval.request_id.clone(), approval.seq));
    let requests = view.requests.iter().filter(|request| {
        let owner = request.client_id.as_ref();
        owner.is_none_or(|owner| *owner == client)
    });
    let requests = requests.map(|request| (request.request_id().to_owned(), request.seq()));
    let open: VecDeque<_> = approvals
        .chain(requests)
        .filter(|(request_id, seq)| is_earlier(*seq, request_id))
        .collect();
    let (sender, signs) = mpsc::channel(SIGNS);
    let max_line_bytes = Limits::of(state.config()).message_bytes;
    let earlier = Earlier { open, feed };
    let relay = Relay::new(
        inbox.clone(),
        client.clone(),
        authors,
        None,
        earlier,
        max_line_bytes,
    );
    let relay = match greeting {
        Some((greeting, is_born)) => relay.greeted_by(greeting, is_born),
        None => relay,
    };
    let mut dialect = relay.for_host(HostSide::new(sender), known);
    let early = dialect.received(rest.into(), after)?.lines;
    Ok(Open {
        id,
        client: super::Client {
            dialect,
            cursor,
            direct,
            inbox,
            early,
            role: Role::Operator,
        },
        tether,
        signs,
        permit,
    })
}

/// Does what the stand-in says about its end.
async fn obey(
    supervisor: Supervisor,
    id: SessionId,
    tether: Tether,
    mut signs: mpsc::Receiver<HostSign>,
) -> Tether {
    while let Some(sign) = signs.recv().await {
        match sign {
            HostSign::EndOfInput => tether.end_of_input(),
            HostSign::Signal(number) => {
                if let Err(error) = supervisor.stop_with_host(id, HostEnd::Signal(number), BY).await {
                    let error = crate::telemetry::chain(&error);
                    tracing::warn!(session.id = %id, error, "the process of a stand-in does not stop");
                }
            }
        }
    }
    tether
}
