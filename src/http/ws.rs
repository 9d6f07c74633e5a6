//! Owns the WebSocket of a session: the upgrade, the choice of the sub-protocol, and how a client is attached.
//! `docs/protocol/websocket.md` is its description for clients.

mod client;
mod close;
pub(super) mod connect;
mod dialect;
mod first_line;
mod frames;
mod host;
mod joiner;
pub(super) mod many;
mod ndjson;
mod socket;
pub(super) mod stdio;
mod v1;
mod wire;

use std::sync::Arc;

use axum::{
    Extension,
    extract::{
        Request, State,
        ws::{WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    response::Response,
};
use serde::Deserialize;

pub(super) use first_line::Waiting;

use super::{
    ApiError, AppState, ErrorCode,
    connections::ConnectionPermit,
    extract::{OfSession, Params, StubAbove, Whole},
    serve::Visit,
    stream::{self, Begin},
    thin::Thinning,
};
use crate::{
    auth::{Shown, Tenure, Tokens},
    domain::{ClientId, Role, SessionId, Timestamp},
    session::{Attachment, ClientInbox, Newcomer},
    supervisor::Resumed,
};
use client::{Client, Inbox};
use close::Close;
use dialect::{Dialect, Received};
use first_line::Place;
use ndjson::{Earlier, Relay};
use socket::{Limits, Until};
use v1::Records;

/// The beginning of a sub-protocol that carries a token. It is never chosen.
pub(super) const BEARER_PREFIX: &str = "bearer.";
/// The beginning of a sub-protocol that carries a ticket. It is never chosen.
pub(super) const TICKET_PREFIX: &str = "ticket.";
/// The beginning of a sub-protocol that carries the key of a login. It is never chosen.
pub(super) const LOGIN_PREFIX: &str = "login.";
/// Bytes that a socket reads at once. Idle sockets hold a buffer of this size each.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// Bytes that are gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;
/// Most bytes that wait for a client that does not read. It must hold the largest record, which is one message.
const MAX_WRITE_BUFFER_BYTES: usize = 256 * 1024 * 1024;
/// The bytes that a message may have beyond the largest prompt. It is read and answered with a close that says what is
/// wrong; more is not read at all.
const MESSAGE_OVERHEAD_BYTES: usize = 1024 * 1024;

/// How to attach.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AttachParams {
    /// Begin with the records after this number. Default: new records only. For `trunkline.v1` only.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    after: Option<Whole>,
    /// The `ts` of the record `after`, as the client got it: another one there is `history_differs`. For `trunkline.v1` only.
    #[param(value_type = Option<String>, format = DateTime)]
    after_ts: Option<Timestamp>,
    /// The sub-protocol, for clients that cannot set a header: `trunkline.v1` (the default) or `ndjson`.
    protocol: Option<String>,
    /// How the client names itself: 1 to 64 letters, digits, dots, dashes and underscores. Under this name it can come back and
    /// answer what it registered for. Default: the id of its connection.
    client_id: Option<ClientId>,
    /// Begin with the newest so many records, in the place of `after`. For `trunkline.v1` only.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    tail: Option<Whole>,
    /// Only records of these kinds: sources such as `daemon`, or a source and a type such as `cli.assistant`, separated by commas.
    /// The client is told of numbers that it does not get by `trunkline.cursor`. For `trunkline.v1` only.
    #[param(
        pattern = r"^(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?(,(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?)*$"
    )]
    only: Option<String>,
    /// No records of these kinds, such as `cli.stream_event`. For `trunkline.v1` only.
    #[param(
        pattern = r"^(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?(,(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?)*$"
    )]
    without: Option<String>,
    /// Join the pieces of a message that come within so many milliseconds, 10 to 10000, to one `trunkline.coalesced`.
    /// For `trunkline.v1` only.
    #[param(minimum = 10, maximum = 10_000)]
    coalesce: Option<u64>,
    /// Whether a session that is stopped or has failed is resumed for the client. For `ndjson` only. Default: `false`.
    resume: Option<bool>,
    /// A record of more than this many bytes (1024 at the least) comes as a stub with its size. For `trunkline.v1`
    /// only. Default: every record whole.
    #[param(value_type = Option<u64>, minimum = 1024, maximum = 4_294_967_295_i64)]
    stub_above: Option<StubAbove>,
    /// How much of the session the first frame has: `full` (the default) is a snapshot, `brief` the client's place, the state and
    /// the messages that wait, for a client that knows the session and comes back. For `trunkline.v1` only.
    #[param(inline)]
    snapshot: Option<frames::Snapshot>,
}

impl AttachParams {
    /// A parameter that only `trunkline.v1` has.
    fn of_records(&self) -> Option<&'static str> {
        let given = [
            ("after", self.after.is_some()),
            ("after_ts", self.after_ts.is_some()),
            ("tail", self.tail.is_some()),
            ("only", self.only.is_some()),
            ("without", self.without.is_some()),
            ("coalesce", self.coalesce.is_some()),
            ("stub_above", self.stub_above.is_some()),
            ("snapshot", self.snapshot.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(name, _)| name)
    }
}

/// A sub-protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Records,
    Ndjson,
}

impl Protocol {
    const ALL: [Self; 2] = [Self::Records, Self::Ndjson];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Records => v1::PROTOCOL,
            Self::Ndjson => ndjson::PROTOCOL,
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str().as_bytes() == name)
    }

    /// The sub-protocol that a client offers first, or names in its query. `None` when it offers others only.
    fn of(headers: &HeaderMap, named: Option<&str>) -> Option<Self> {
        let mut offered = offers(headers).peekable();
        let has_offer = offered.peek().is_some();
        match named {
            Some(named) => {
                let named = Self::named(named.as_bytes())?;
                (!has_offer || offered.any(|name| Self::named(name) == Some(named))).then_some(named)
            }
            None if has_offer => offered.find_map(Self::named),
            None => Some(Self::Records),
        }
    }
}

/// The sub-protocols that a client offers.
fn offers(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    offers
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|name| {
            ![BEARER_PREFIX, TICKET_PREFIX, LOGIN_PREFIX]
                .iter()
                .any(|prefix| name.starts_with(prefix.as_bytes()))
        })
}

fn has_offer(headers: &HeaderMap) -> bool {
    offers(headers).next().is_some()
}

/// Whether a request without a token is an upgrade whose first line may show it.
pub(super) fn may_prove_itself(request: &Request) -> bool {
    let path = request.uri().path();
    let session = path
        .strip_prefix("/v1/sessions/")
        .and_then(|rest| rest.strip_suffix("/ws"));
    let is_upgrade = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    let mut query = request.uri().query().unwrap_or_default().split('&');
    let named = query.find_map(|part| part.strip_prefix("protocol="));
    let of_session = session.is_some_and(|session| !session.contains('/'))
        && Protocol::of(request.headers(), named) == Some(Protocol::Ndjson);
    request.method() == Method::GET
        && request.headers().get(header::UPGRADE).is_some_and(is_upgrade)
        && (of_session || connect::takes_first_line(path, request.headers(), named))
}

/// Attach to a session over WebSocket.
///
/// With the sub-protocol `trunkline.v1`, or none, the first frame is a snapshot; then every record follows, one text frame
/// each, byte for byte as in the journal. Frames from the client go to the agent. With `ndjson` the lines of the agent go
/// both ways as the official SDK has them, and nothing else; the first line of the client may show a token or a ticket. Nothing
/// that a viewer sends goes to the agent.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/ws", operation_id = "attach_session", tag = "events",
    params(("id" = Uuid, Path, description = "The session"), AttachParams),
    responses((status = 101, description = "The WebSocket is open")),
)]
pub(super) async fn attach(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<AttachParams>,
    (role, visit): (Option<Extension<Role>>, Option<Extension<Arc<Visit>>>),
    tenure: Tenure,
    (uri, headers): (Uri, HeaderMap),
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = asked(upgrade)?;
    let protocol =
        Protocol::of(&headers, params.protocol.as_deref()).ok_or(ErrorCode::UnsupportedProtocol)?;
    let upgrade = prepared(upgrade, protocol.as_str(), &state);
    let role = role.map(|Extension(role)| role);
    if let Some(role) = role {
        check_role(role, &params)?;
    }
    match (protocol, role) {
        (Protocol::Records, Some(role)) => {
            let shown = Shown { role, tenure };
            attach_records(state, id, params, shown, upgrade).await
        }
        (Protocol::Records, None) => Err(ErrorCode::Unauthorized.into()),
        (Protocol::Ndjson, _) if params.of_records().is_some() => {
            let name = params.of_records().unwrap_or_default();
            Err(ApiError::new(ErrorCode::InvalidQuery).detail(format!("{name} is of trunkline.v1 only")))
        }
        (Protocol::Ndjson, Some(role)) => {
            let permit = state.connections().admit(id)?;
            state.supervisor().session(id).await?;
            // It hears of all that happens once the upgrade is answered.
            let shown = Shown { role, tenure };
            let tokens = Some(state.tokens().clone());
            let client = relay(&state, id, &params, &shown, tokens, String::new()).await;
            let client = client.map(|client| (permit, client));
            Ok(attach_relay(
                state,
                id,
                params,
                upgrade,
                Proof::Shown(Box::new(client), shown.tenure),
            ))
        }
        (Protocol::Ndjson, None) => {
            let visit = visit.map(|Extension(visit)| visit);
            first_line::bound(visit.as_ref());
            let place = state.first_lines().take();
            let path = uri.path().to_owned();
            Ok(attach_relay(
                state,
                id,
                params,
                upgrade,
                Proof::ToCome { place, visit, path },
            ))
        }
    }
}

/// Refuses a viewer that would change something by attaching. Under the name of another client it would be waited for in the
/// place of that one.
fn check_role(role: Role, params: &AttachParams) -> Result<(), ApiError> {
    let refused = match params {
        _ if role.covers(Role::Operator) => return Ok(()),
        AttachParams {
            resume: Some(true), ..
        } => "a viewer resumes no session",
        AttachParams {
            client_id: Some(_), ..
        } => "a viewer gives itself no client_id",
        _ => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::RoleForbidden).detail(refused))
}

/// The upgrade, if the request asks for one.
fn asked(upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>) -> Result<WebSocketUpgrade, ApiError> {
    upgrade.map_err(|_| {
        ApiError::new(ErrorCode::UpgradeRequired)
            .header(header::UPGRADE, HeaderValue::from_static("websocket"))
    })
}

/// Sets the limits of a socket, and selects the sub-protocol if the client offers any but its token.
fn prepared(mut upgrade: WebSocketUpgrade, protocol: &'static str, state: &AppState) -> WebSocketUpgrade {
    let name = HeaderValue::from_static(protocol);
    if upgrade.requested_protocols().any(|offered| *offered == name) {
        upgrade.set_selected_protocol(name);
    }
    let max_bytes = state
        .config()
        .max_prompt_bytes
        .saturating_add(2 * MESSAGE_OVERHEAD_BYTES);
    upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(MAX_WRITE_BUFFER_BYTES)
        .max_message_size(max_bytes)
        .max_frame_size(max_bytes)
}

async fn attach_records(
    state: AppState,
    id: SessionId,
    params: AttachParams,
    Shown { role, tenure }: Shown,
    upgrade: WebSocketUpgrade,
) -> Result<Response, ApiError> {
    if params.resume.is_some() {
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail("resume is of ndjson only"));
    }
    let thinning = Thinning::of(params.only.as_deref(), params.without.as_deref(), params.coalesce)?;
    let thinning = thinning.stubbing(params.stub_above);
    let permit = state.connections().admit(id)?;
    let after = stream::begin(
        &state,
        id,
        Begin {
            after: params.after.map(Whole::get),
            after_ts: params.after_ts,
            tail: params.tail.map(Whole::get),
        },
    )
    .await?;
    let view = state.supervisor().session(id).await?;
    let attachment = state
        .supervisor()
        .attach(id, after, newcomer(params.client_id, role, &tenure))
        .await?;
    let Attachment {
        connection,
        client: client_id,
        clients,
        authors: _,
        feed: _,
        view: live,
        cursor,
        direct,
        inbox,
    } = attachment;
    let head = live.head_seq;
    // Changes from here on are told by a frame.
    let queue = state.prompt_queue().list(id).await?;
    let names = (connection, client_id);
    let wanted = params.snapshot.unwrap_or_default();
    let first = frames::first(wanted, view, live, names, &clients, cursor.position(), &queue);
    let client = Client {
        dialect: Records::new(first, wanted, head, thinning),
        cursor,
        direct,
        inbox,
        early: Vec::new(),
        role,
    };
    let limits = Limits::of(state.config());
    let until = Until::of(&state, tenure);
    let tracked = state.tracker().token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let ended = socket::run(socket, client, limits, until).await;
        tracing::info!(session.id = %id, conn.id = %connection, reason = ended, "WebSocket closed");
        drop((permit, tracked));
    }))
}

type RelayClient = Client<ClientInbox, Relay<ClientInbox>>;

/// Whether a client has shown the token.
enum Proof {
    /// It has, and is attached, or cannot be.
    Shown(Box<Result<(ConnectionPermit, RelayClient), Close>>, Tenure),
    /// Its first line is to show it, or a ticket for the path. It has a place to wait at since it asked, if one was free.
    ToCome {
        place: Option<Place>,
        visit: Option<Arc<Visit>>,
        path: String,
    },
}

/// Opens the socket of a client that speaks `ndjson`. Whether there is such a session is said behind the proof.
fn attach_relay(
    state: AppState,
    id: SessionId,
    params: AttachParams,
    upgrade: WebSocketUpgrade,
    proof: Proof,
) -> Response {
    let limits = Limits::of(state.config());
    let tracked = state.tracker().token();
    upgrade.on_upgrade(move |mut socket| async move {
        let attached = match proof {
            Proof::Shown(attached, tenure) => attached.map(|(permit, client)| (permit, client, tenure)),
            Proof::ToCome { place, visit, path } => {
                let ask = (id, path.as_str(), &params);
                prove_and_attach(&state, ask, &mut socket, (place, visit.as_ref())).await
            }
        };
        let (ended, permit) = match attached {
            Ok((permit, client, tenure)) => {
                let until = Until::of(&state, tenure);
                (socket::run(socket, client, limits, until).await, Some(permit))
            }
            Err(close) => {
                socket::refuse(socket, &close, limits.close_timeout).await;
                (close.as_str(), None)
            }
        };
        tracing::info!(session.id = %id, protocol = ndjson::PROTOCOL, reason = ended, "WebSocket closed");
        drop((permit, tracked));
    })
}

/// Attaches a client once its first line has shown the token.
async fn prove_and_attach(
    state: &AppState,
    (id, path, params): (SessionId, &str, &AttachParams),
    socket: &mut WebSocket,
    (place, visit): (Option<Place>, Option<&Arc<Visit>>),
) -> Result<(ConnectionPermit, RelayClient, Tenure), Close> {
    let place = place.ok_or(Close::Unproven)?;
    let opens = |credential: &str| state.opened_by(credential, path);
    let (shown, rest) = first_line::prove(socket, opens, visit, state.shutdown()).await?;
    drop(place);
    check_role(shown.role, params).map_err(|_| Close::Forbidden)?;
    let permit = state
        .connections()
        .admit(id)
        .map_err(|error| Close::Unattached(error.into()))?;
    let client = relay(state, id, params, &shown, None, rest).await?;
    Ok((permit, client, shown.tenure))
}

/// Attaches a client that has shown the token. `rest` is what it has sent already.
async fn relay(
    state: &AppState,
    id: SessionId,
    params: &AttachParams,
    shown: &Shown,
    tokens: Option<Tokens>,
    rest: String,
) -> Result<RelayClient, Close> {
    let failed = |error| Close::Unattached(ApiError::from(error).into());
    let supervisor = state.supervisor();
    let live = supervisor.session(id).await.map_err(failed)?.live;
    if ndjson::is_over(live.state) && params.resume == Some(true) {
        supervisor.resume(id, Resumed::default()).await.map_err(failed)?;
    }
    let attachment = supervisor
        .attach(
            id,
            None,
            newcomer(params.client_id.clone(), shown.role, &shown.tenure),
        )
        .await
        .map_err(failed)?;
    if ndjson::is_over(attachment.view.state) {
        return Err(Close::NotLive(attachment.view.state));
    }
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
    let open = view.requests.iter().filter(|request| {
        let owner = request.client_id.as_ref();
        owner.is_none_or(|owner| *owner == client)
    });
    let open = open.map(|request| (request.request_id().to_owned(), request.seq()));
    let earlier = Earlier {
        open: open.collect(),
        feed,
    };
    let max_line_bytes = Limits::of(state.config()).message_bytes;
    let mut dialect = Relay::new(inbox.clone(), client, authors, tokens, earlier, max_line_bytes);
    let Received { lines, .. } = dialect.received(rest.into(), cursor.position())?;
    let (early, _) = client::permitted(shown.role, lines, &mut dialect)?;
    Ok(Client {
        dialect,
        cursor,
        direct,
        inbox,
        early,
        role: shown.role,
    })
}

/// A client of a session that comes with a credential.
fn newcomer(client: Option<ClientId>, role: Role, tenure: &Tenure) -> Newcomer {
    Newcomer {
        client,
        login: tenure.name().map(str::to_owned),
        role,
        is_host: false,
    }
}

impl Inbox for ClientInbox {
    async fn line(&self, line: axum::body::Bytes) -> Result<(), String> {
        Self::line(self, line).await.map_err(|error| error.to_string())
    }

    fn is_asked(&self, request_id: String) -> impl Future<Output = bool> + Send + use<> {
        let inbox = self.clone();
        async move { Self::is_asked(&inbox, request_id).await }
    }
}
