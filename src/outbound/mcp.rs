//! Owns the bridge to one MCP server over HTTP: the session of the server, the answers, and the messages it starts.
//!
//! The transport is "Streamable HTTP" of the MCP specification, revision 2025-11-25: each message of the client is a POST;
//! its answer is one JSON object or a stream of events; a GET opens a stream for what the server starts by itself.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    client::{self, Outbound, RequestError},
    endpoint::McpEndpoint,
    message::{Envelope, Kind, one_line, same_id},
    stream::EventStream,
};
use crate::telemetry::chain;

/// A larger message is refused.
pub const LARGEST_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// How long the server may take to hear that its session is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const JSON_OR_EVENTS: &str = "application/json, text/event-stream";

/// Why a message got no answer. No text of it shows a header, a message or the query of the address.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The deadline came first.
    #[error("the MCP server did not answer in time")]
    Deadline,
    /// There was no complete answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The answer is no success. Redirects are not followed.
    #[error("the MCP server answered {0}")]
    Status(StatusCode),
    /// The server does not know its session any more: only a new `initialize` helps.
    #[error("the MCP server has ended its session")]
    SessionLost,
    /// The message to send is no JSON-RPC message.
    #[error("not a JSON-RPC message")]
    NotAMessage,
    /// The server accepted a request, and its answer holds no response to it.
    #[error("the MCP server's answer holds no response to the request")]
    NoResponse,
    /// The bridge was closed.
    #[error("the bridge to the MCP server is closed")]
    Closed,
}

impl BridgeError {
    /// May the same request succeed a moment later?
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Request(RequestError::Connect(_) | RequestError::Broken(_)) => true,
            Self::Status(status) => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
                    )
            }
            _ => false,
        }
    }
}

/// One session with an MCP server. Clones are the same session; the last one that is dropped ends what still runs,
/// without a word to the server.
#[derive(Debug, Clone)]
pub struct McpBridge {
    wire: Arc<Wire>,
    open: Arc<Open>,
    tracker: TaskTracker,
}

/// The part that ends with the last clone. The task that listens holds only the [`Wire`].
#[derive(Debug)]
struct Open {
    ended: CancellationToken,
    _guard: DropGuard,
}

impl McpBridge {
    /// A bridge on which nothing was sent yet. `incoming` gets the requests and notifications of the server, each on one
    /// line; a full queue makes the server wait, a closed one drops them. `tracker` gets the task that listens.
    pub fn open(
        outbound: &Outbound,
        endpoint: McpEndpoint,
        incoming: mpsc::Sender<Box<RawValue>>,
        tracker: &TaskTracker,
    ) -> Self {
        let ended = CancellationToken::new();
        Self {
            wire: Arc::new(Wire {
                outbound: outbound.clone(),
                endpoint,
                incoming,
                session: Mutex::default(),
                listener: Mutex::default(),
            }),
            open: Arc::new(Open {
                ended: ended.clone(),
                _guard: ended.drop_guard(),
            }),
            tracker: tracker.clone(),
        }
    }

    /// Sends a message; many may be under way. A request gets its response, whatever it says; a notification and a
    /// response get `None` when the server has taken them. Messages that the server sends before the response are in
    /// `incoming` by then.
    ///
    /// CANCEL-SAFETY: dropping the future drops the connection, which the server does not take for a cancellation.
    ///
    /// # Errors
    /// There is no response; the CLI needs a JSON-RPC error instead.
    pub async fn send(
        &self,
        message: &RawValue,
        deadline: Option<Instant>,
    ) -> Result<Option<Box<RawValue>>, BridgeError> {
        let envelope = Envelope::of(message).ok_or(BridgeError::NotAMessage)?;
        let exchange = async {
            match deadline {
                Some(deadline) => timeout_at(deadline, self.wire.exchange(message, &envelope))
                    .await
                    .unwrap_or(Err(BridgeError::Deadline)),
                None => self.wire.exchange(message, &envelope).await,
            }
        };
        let ended = self.open.ended.run_until_cancelled(exchange).await;
        let response = ended.unwrap_or(Err(BridgeError::Closed))?;
        if envelope.is("notifications/initialized") {
            self.listen();
        }
        Ok(response)
    }

    /// Ends the session for all clones: what is under way gets [`BridgeError::Closed`], and the server is told with a
    /// DELETE that has five seconds to succeed.
    pub async fn close(self) {
        self.open.ended.cancel();
        self.wire.delete().await;
    }

    /// Takes what the server starts by itself, if it offers that.
    fn listen(&self) {
        let stop = self.open.ended.child_token();
        self.wire.replace_listener(Some(stop.clone()));
        let wire = Arc::clone(&self.wire);
        self.tracker.spawn(async move {
            if let Some(error) = stop.run_until_cancelled(wire.listen()).await {
                tracing::debug!(
                    error = chain(&error),
                    "an MCP server sends nothing by itself any more"
                );
            }
        });
    }
}

/// The session as each request states it: nothing before the server has answered `initialize`.
#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    /// Servers without state give none.
    id: Option<HeaderValue>,
    /// The revision of the protocol that both sides agreed on.
    version: Option<HeaderValue>,
}

/// The requests to one server and the session that they belong to.
#[derive(Debug)]
pub(super) struct Wire {
    outbound: Outbound,
    endpoint: McpEndpoint,
    incoming: mpsc::Sender<Box<RawValue>>,
    session: Mutex<Session>,
    /// Stops the task that listens.
    listener: Mutex<Option<CancellationToken>>,
}

/// The part of an answer to `initialize` that the transport needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
}

impl Wire {
    fn session(&self) -> Session {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone()
    }

    /// There is one that listens at most.
    fn replace_listener(&self, with: Option<CancellationToken>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *listener, with) {
            before.cancel();
        }
    }

    fn request(&self, method: Method, accept: &'static str, session: &Session) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.url.uri().clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
        headers.extend(self.endpoint.headers.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(id) = &session.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(version) = &session.version {
            headers.insert(PROTOCOL_VERSION, version.clone());
        }
        request
    }

    /// Sends a request and waits for the head of its answer. A 404 to a session means that it is over.
    async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        session: &Session,
    ) -> Result<Response<Incoming>, BridgeError> {
        let answer = self.outbound.send(request).await?;
        if answer.status() == StatusCode::NOT_FOUND && session.id.is_some() {
            return Err(BridgeError::SessionLost);
        }
        Ok(answer)
    }

    /// Opens a stream, or goes on with the one that `after` is an event of.
    pub(super) async fn get(
        &self,
        session: &Session,
        after: Option<&HeaderValue>,
    ) -> Result<Incoming, BridgeError> {
        let mut request = self.request(Method::GET, EVENTS, session);
        if let Some(after) = after {
            request.headers_mut().insert(LAST_EVENT_ID, after.clone());
        }
        let answer = self.ask(request, session).await?;
        if !answer.status().is_success() {
            return Err(BridgeError::Status(answer.status()));
        }
        if !is(&answer, EVENTS) {
            return Err(BridgeError::NoResponse);
        }
        Ok(answer.into_body())
    }

    async fn exchange(
        &self,
        message: &RawValue,
        envelope: &Envelope<'_>,
    ) -> Result<Option<Box<RawValue>>, BridgeError> {
        // A new session begins without the id of the one before.
        let begins = envelope.is("initialize");
        let mut session = if begins {
            Session::default()
        } else {
            self.session()
        };
        let mut request = self.request(Method::POST, JSON_OR_EVENTS, &session);
        *request.body_mut() = Full::new(Bytes::copy_from_slice(message.get().as_bytes()));
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let answer = self.ask(request, &session).await?;
        let Kind::Request { id } = envelope.kind() else {
            let status = answer.status();
            return if status.is_success() {
                Ok(None)
            } else {
                Err(BridgeError::Status(status))
            };
        };
        if begins {
            session.id = answer.headers().get(SESSION_ID).cloned();
        }
        let response = if answer.status().is_success() && is(&answer, EVENTS) {
            self.response_in_stream(answer.into_body(), id, &session).await?
        } else {
            response_in_body(answer, id, session.id.is_some()).await?
        };
        if begins {
            self.begin(session, &response);
        }
        Ok(Some(response))
    }

    /// Keeps the session that the server has begun with its answer to `initialize`.
    fn begin(&self, mut session: Session, response: &RawValue) {
        let Some(result) = Envelope::of(response).and_then(|envelope| envelope.result) else {
            return;
        };
        session.version = serde_json::from_str::<Initialized>(result.get())
            .ok()
            .and_then(|initialized| HeaderValue::from_str(&initialized.protocol_version).ok());
        self.replace_listener(None);
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    async fn response_in_stream(
        &self,
        body: Incoming,
        id: &RawValue,
        session: &Session,
    ) -> Result<Box<RawValue>, BridgeError> {
        let mut stream = EventStream::answering(self, session.clone(), body);
        loop {
            let message = stream.next().await?;
            if is_response_to(&message, id) {
                return Ok(message);
            }
            self.deliver(message).await;
        }
    }

    /// Hands on what the server starts until there is no more; the error says why.
    async fn listen(&self) -> BridgeError {
        let mut stream = EventStream::listening(self, self.session());
        loop {
            match stream.next().await {
                Ok(message) => self.deliver(message).await,
                Err(error) => return error,
            }
        }
    }

    async fn deliver(&self, message: Box<RawValue>) {
        let kind = Envelope::of(&message).map(|envelope| envelope.kind());
        if matches!(kind, Some(Kind::Request { .. } | Kind::Notification)) {
            // Nobody listens any more: the bridge is about to be dropped.
            let _ = self.incoming.send(message).await;
        } else {
            tracing::debug!("an MCP server sent a message that nothing waits for");
        }
    }

    async fn delete(&self) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let request = self.request(Method::DELETE, JSON_OR_EVENTS, &session);
        match timeout(CLOSE_TIMEOUT, self.outbound.send(request)).await {
            // Servers may refuse it with 405: they end their sessions themselves.
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(error = chain(&error), "an MCP server was not told the end"),
            Err(_) => tracing::debug!("an MCP server was told the end and did not answer"),
        }
    }
}

fn is(answer: &Response<Incoming>, media_type: &str) -> bool {
    let value = answer.headers().get(CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(media_type)
}

fn is_response_to(message: &RawValue, id: &RawValue) -> bool {
    let kind = Envelope::of(message).map(|envelope| envelope.kind());
    matches!(kind, Some(Kind::Response { id: of }) if same_id(of, id))
}

/// Whether an error is about the session: nothing ran.
fn names_session(body: &[u8]) -> bool {
    String::from_utf8_lossy(body)
        .to_ascii_lowercase()
        .contains("session")
}

/// A response counts whatever the status is: some servers send JSON-RPC errors with 4xx and 5xx. Others say 400 and a few words to a
/// session that they have forgotten.
async fn response_in_body(
    answer: Response<Incoming>,
    id: &RawValue,
    has_session: bool,
) -> Result<Box<RawValue>, BridgeError> {
    let status = answer.status();
    let read = client::read(answer.into_body(), LARGEST_MESSAGE_BYTES).await;
    let body = match read {
        Ok(body) => body,
        Err(_) if !status.is_success() => return Err(BridgeError::Status(status)),
        Err(error) => return Err(error.into()),
    };
    match one_line(&body).filter(|message| is_response_to(message, id)) {
        Some(response) => Ok(response),
        None if status.is_success() => Err(BridgeError::NoResponse),
        None if has_session && status == StatusCode::BAD_REQUEST && names_session(&body) => {
            Err(BridgeError::SessionLost)
        }
        None => Err(BridgeError::Status(status)),
    }
}
