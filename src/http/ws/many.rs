//! Owns the socket of many sessions: which ones the client has joined, what it says to each, and whose turn it is to be heard.

mod said;
mod subscription;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use axum::{
    Extension,
    body::Bytes,
    extract::{
        State,
        ws::{Message, Utf8Bytes, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::HeaderMap,
    response::Response,
};
use futures_util::{
    StreamExt as _,
    stream::{BoxStream, SelectAll, unfold},
};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    Protocol,
    client::MAX_FORBIDDEN,
    close::Close,
    frames,
    socket::{self, Limits, Outgoing, Peer, Taken, Until, Work},
};
use crate::{
    auth::Tenure,
    domain::{Role, SessionId},
    http::{
        ApiError, AppState, ErrorCode, closing,
        extract::Params,
        lobby::LobbyView,
        stream::{self, Begin},
        thin::{Thin, Thinning},
    },
    session::{Attachment, ClientInbox, Newcomer},
};
use said::{Said, Subscribe, Unclear};
use subscription::{Credit, Part, Subscription, tagged_text as tag};

/// Most lines in one frame.
const MAX_LINES: usize = 1024;

/// How to attach.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct AttachManyParams {
    /// The sub-protocol, for clients that cannot set a header: `trunkline.v1`.
    protocol: Option<String>,
}

/// Attach to many sessions over one WebSocket.
///
/// The client says which sessions it joins and leaves; each frame of a session, and each of the client's to it, has its
/// `session_id`, and is else as on the session's own socket. `trunkline.watch` brings all sessions in short, and each
/// change of one.
#[utoipa::path(
    get, path = "/v1/ws", operation_id = "attach_sessions", tag = "events",
    params(AttachManyParams),
    responses((status = 101, description = "The WebSocket is open")),
)]
pub(in crate::http) async fn attach(
    State(state): State<AppState>,
    Params(params): Params<AttachManyParams>,
    Extension(role): Extension<Role>,
    tenure: Tenure,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = super::asked(upgrade)?;
    let protocol = Protocol::of(&headers, params.protocol.as_deref());
    let protocol = protocol.filter(|protocol| *protocol == Protocol::Records);
    let protocol = protocol.ok_or(ErrorCode::UnsupportedProtocol)?;
    let upgrade = super::prepared(upgrade, protocol.as_str(), &state);
    let permit = state.connections().admit_any()?;
    let tracked = state.tracker().token();
    let limits = Limits::of(state.config());
    let login = tenure.name().map(str::to_owned);
    let until = Until::of(&state, tenure);
    let many = Many::new(state, role, login);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let ended = socket::serve(socket, many, limits, until).await;
        tracing::info!(reason = ended, "WebSocket of many sessions closed");
        drop((permit, tracked));
    }))
}

/// A session that the client has joined.
struct Joined {
    /// Tells it from an earlier time.
    number: u64,
    inbox: ClientInbox,
    credit: Arc<Credit>,
    /// Ends the stream of its parts.
    leave: CancellationToken,
}

/// News of a session, by the number of the subscription.
type News = (SessionId, u64, Part);

/// The outcome of work.
enum Done {
    /// A line was given to a session, or could not be.
    Delivered(SessionId, Result<(), String>),
    /// A session was joined, or could not be.
    Joined(SessionId, Box<Result<Join, ApiError>>),
    /// The lobby is watched, or cannot be.
    Watched(Result<LobbyView, ApiError>),
}

/// A session that is joined now.
struct Join {
    inbox: ClientInbox,
    subscription: Subscription,
    first: String,
}

/// A client of many sessions.
struct Many {
    state: AppState,
    role: Role,
    /// The name of the client's login.
    login: Option<String>,
    sessions: HashMap<SessionId, Joined>,
    /// The news of the sessions: each that has something is heard in its turn.
    news: SelectAll<BoxStream<'static, News>>,
    /// Subscriptions so far.
    count: u64,
    /// The lobby, while it is watched.
    lobby: Option<LobbyView>,
    /// Lines that wait until those before them are done.
    lines: VecDeque<Bytes>,
}

impl Many {
    fn new(state: AppState, role: Role, login: Option<String>) -> Self {
        Self {
            state,
            role,
            login,
            sessions: HashMap::new(),
            news: SelectAll::new(),
            count: 0,
            lobby: None,
            lines: VecDeque::new(),
        }
    }

    /// Takes the waiting lines up to the first one that needs work.
    fn go_on(&mut self) -> Taken<Done> {
        let mut answers = Vec::new();
        while let Some(line) = self.lines.pop_front() {
            match self.take(&line) {
                Ok((answer, None)) => answers.extend(answer),
                Ok((answer, work)) => {
                    answers.extend(answer);
                    return Taken { answers, work };
                }
                Err(unclear) => answers.push(unclear.frame()),
            }
        }
        Taken { answers, work: None }
    }

    /// Takes a line: the answer, if there is one at once, and the work.
    fn take(&mut self, line: &Bytes) -> Result<(Option<String>, Option<Work<Done>>), Unclear> {
        match Said::read(line)? {
            Said::Ping { id } => {
                let id = id.map_or_else(String::new, |id| format!(r#","id":{id}"#));
                Ok((Some(format!(r#"{{"type":"trunkline.pong"{id}}}"#)), None))
            }
            Said::Subscribe(wanted) => {
                let session = wanted.session_id;
                if self.sessions.contains_key(&session) {
                    return Err(Unclear::of(ErrorCode::AlreadySubscribed, session));
                }
                if wanted.client_id.is_some() && !self.role.covers(Role::Operator) {
                    return Err(Unclear {
                        detail: "a viewer gives itself no client_id".to_owned(),
                        ..Unclear::of(ErrorCode::RoleForbidden, session)
                    });
                }
                let (state, role) = (self.state.clone(), self.role);
                let login = self.login.clone();
                let join =
                    async move { Done::Joined(session, Box::new(join(&state, wanted, role, login).await)) };
                Ok((None, Some(Box::pin(join))))
            }
            Said::Unsubscribe { session } => {
                self.joined(session)?.leave.cancel();
                self.sessions.remove(&session);
                Ok((Some(left(session, None)), None))
            }
            Said::Credit { session, bytes } => {
                self.joined(session)?.credit.grant(bytes);
                Ok((None, None))
            }
            Said::Watch(wanted) => {
                let state = self.state.clone();
                let watch = async move { Done::Watched(LobbyView::open(&state, *wanted).await) };
                Ok((None, Some(Box::pin(watch))))
            }
            Said::Unwatch => {
                self.lobby = None;
                Ok((Some(r#"{"type":"trunkline.unwatched"}"#.to_owned()), None))
            }
            Said::Line { session, line } => {
                let joined = self.joined(session)?;
                if !self.role.covers(Role::Operator) {
                    let refused = frames::forbidden(&line).map(|frame| tag(session, &frame));
                    return Ok((refused, None));
                }
                let inbox = joined.inbox.clone();
                let deliver = async move {
                    let delivered = inbox.line(line).await.map_err(|error| error.to_string());
                    Done::Delivered(session, delivered)
                };
                Ok((None, Some(Box::pin(deliver))))
            }
        }
    }

    fn joined(&self, session: SessionId) -> Result<&Joined, Unclear> {
        let joined = self.sessions.get(&session);
        joined.ok_or_else(|| Unclear::of(ErrorCode::NotSubscribed, session))
    }

    /// The frames for a part of a session's news. Parts of an earlier subscription are for nobody.
    fn on_part(&mut self, session: SessionId, number: u64, part: Part) -> Vec<Message> {
        let is_joined = self.sessions.get(&session).is_some_and(|it| it.number == number);
        match part {
            Part::Frames(frames) if is_joined => frames,
            // The end of the daemon is told for all sessions.
            Part::Over(Close::Shutdown) | Part::Left => Vec::new(),
            Part::Over(close) if is_joined => {
                self.sessions.remove(&session);
                vec![Message::Text(left(session, Some(&close)).into())]
            }
            Part::Frames(_) | Part::Over(_) => Vec::new(),
        }
    }

    fn on_joined(&mut self, session: SessionId, join: Result<Join, ApiError>) -> String {
        let join = match join {
            Ok(join) => join,
            Err(error) => return tag(session, &frames::error(&error)),
        };
        self.count += 1;
        let number = self.count;
        self.sessions.insert(
            session,
            Joined {
                number,
                inbox: join.inbox,
                credit: Arc::clone(&join.subscription.credit),
                leave: join.subscription.left.clone(),
            },
        );
        let parts = unfold(Some(join.subscription), |subscription| async move {
            let mut subscription = subscription?;
            let part = subscription.next().await;
            let goes_on = matches!(part, Part::Frames(_));
            Some((part, goes_on.then_some(subscription)))
        });
        self.news
            .push(parts.map(move |part| (session, number, part)).boxed());
        tag(session, &join.first)
    }

    fn on_watched(&mut self, view: Result<LobbyView, ApiError>) -> Option<String> {
        match view {
            Ok(view) => {
                self.lobby = Some(view);
                None
            }
            Err(error) => Some(frames::error(&error)),
        }
    }
}

impl Peer for Many {
    type Done = Done;

    fn first(&mut self) -> (Option<String>, Option<Work<Done>>) {
        (None, None)
    }

    async fn next(&mut self) -> Outgoing {
        let Self { news, lobby, .. } = &mut *self;
        // A line of the client brings the first of each, and then this is asked again.
        let of_session = async {
            match news.next().await {
                Some(news) => news,
                None => std::future::pending().await,
            }
        };
        let of_lobby = async {
            match lobby {
                Some(lobby) => lobby.next().await,
                None => std::future::pending().await,
            }
        };
        // Both branches are cancel-safe: they take nothing that they do not give.
        tokio::select! {
            (session, number, part) = of_session => Outgoing::Frames(self.on_part(session, number, part)),
            frames = of_lobby => {
                let frames = frames.iter().map(|(_, frame)| Message::Text(frame.to_json().into()));
                Outgoing::Frames(frames.collect())
            }
        }
    }

    fn received(&mut self, text: Utf8Bytes) -> Result<Taken<Done>, Close> {
        self.lines.extend(frames::lines(text).take(MAX_LINES + 1));
        if self.lines.len() > MAX_LINES {
            let detail = format!("a frame has more than {MAX_LINES} lines");
            let error = ApiError::new(ErrorCode::InvalidLine).detail(detail);
            return Err(Close::Refused(error.into()));
        }
        if !self.role.covers(Role::Operator) && self.lines.len() > MAX_FORBIDDEN {
            return Err(Close::Forbidden);
        }
        Ok(self.go_on())
    }

    fn worked(&mut self, done: Done) -> Result<Taken<Done>, Close> {
        let answer = match done {
            Done::Delivered(_, Ok(())) => None,
            Done::Delivered(session, Err(reason)) => {
                let error = ApiError::new(ErrorCode::SessionEnded).detail(reason);
                Some(tag(session, &frames::error(&error)))
            }
            Done::Joined(session, join) => Some(self.on_joined(session, *join)),
            Done::Watched(view) => self.on_watched(view),
        };
        let mut taken = self.go_on();
        taken.answers.splice(0..0, answer);
        Ok(taken)
    }

    fn written(&mut self) {}

    fn sent(&self) -> Option<u64> {
        None
    }

    fn shutdown(&self, reconnect_after_ms: u64) -> (Option<String>, Close) {
        (Some(closing::frame(reconnect_after_ms)), Close::Shutdown)
    }
}

/// Joins a session.
async fn join(
    state: &AppState,
    wanted: Subscribe,
    role: Role,
    login: Option<String>,
) -> Result<Join, ApiError> {
    let id = wanted.session_id;
    let thinning = Thinning::of(wanted.only.as_deref(), wanted.without.as_deref(), wanted.coalesce)?;
    let thinning = thinning.stubbing(wanted.stub_above);
    let permit = state.connections().admit(id)?;
    let place = Begin {
        after: wanted.after,
        after_ts: wanted.after_ts,
        tail: wanted.tail,
    };
    let after = stream::begin(state, id, place).await?;
    let view = state.supervisor().session(id).await?;
    let newcomer = Newcomer {
        client: wanted.client_id,
        login,
        role,
        is_host: false,
    };
    let attachment = state.supervisor().attach(id, after, newcomer).await?;
    let Attachment {
        connection,
        client,
        clients,
        view: live,
        cursor,
        direct,
        inbox,
        ..
    } = attachment;
    let queue = state.prompt_queue().list(id).await?;
    let names = (connection, client);
    let snapshot = wanted.snapshot.unwrap_or_default();
    let first = frames::first(snapshot, view, live, names, &clients, cursor.position(), &queue);
    Ok(Join {
        inbox,
        subscription: Subscription {
            id,
            cursor,
            snapshot,
            thin: Thin::new(thinning),
            direct: Some(direct),
            credit: Arc::new(Credit::new(wanted.credit)),
            left: CancellationToken::new(),
            shutdown: state.shutdown().clone(),
            _permit: permit,
        },
        first,
    })
}

/// The frame that says that a session is left: by the client, or for this reason.
fn left(session: SessionId, close: Option<&Close>) -> String {
    let code = close.map(Close::code);
    let reason = close.map(|close| close.reason(None));
    let frame = json!({"type": "trunkline.unsubscribed", "code": code, "reason": reason});
    tag(session, &frame.to_string())
}

impl Unclear {
    fn of(code: ErrorCode, session: SessionId) -> Self {
        Self {
            code,
            detail: code.advice().to_owned(),
            session: Some(session),
        }
    }

    /// The frame that says so.
    fn frame(&self) -> String {
        let frame = frames::error(&ApiError::new(self.code).detail(self.detail.clone()));
        match self.session {
            Some(session) => tag(session, &frame),
            None => frame,
        }
    }
}
