//! Owns the bridge to one MCP server over HTTP: the session of the server, the answers, and the messages it starts.
//!
//! The transport is "Streamable HTTP" of the MCP specification, revision 2025-11-25: each message of the client is a POST;
//! its answer is one JSON object or a stream of events; a GET opens a stream for what the server starts by itself.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};
use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::client::{Outbound, RequestError};
use crate::domain::{Secret, WebUrl};

/// A larger message is refused.
pub const LARGEST_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// An MCP server's address and what is sent with each request to it.
#[derive(Debug, Clone)]
pub struct McpEndpoint {
    url: WebUrl,
    headers: HeaderMap,
}

/// Why a header can't be sent. The value is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No header has such a name.
    #[error("{0:?} is no name of a header")]
    Name(String),
    /// Its value has line breaks or other control characters in it.
    #[error("the value of the header {0} can't be sent")]
    Value(String),
    /// The transport sets it itself.
    #[error("the header {0} is set by the transport")]
    Reserved(String),
}

impl McpEndpoint {
    /// An endpoint; `headers` are names and values, e.g. `Authorization`.
    ///
    /// # Errors
    /// A header that can't be sent or that the transport sets.
    pub fn new(
        url: WebUrl,
        headers: impl IntoIterator<Item = (String, Secret)>,
    ) -> Result<Self, EndpointError> {
        let mut checked = HeaderMap::new();
        for (name, value) in headers {
            let Ok(header) = name.parse::<HeaderName>() else {
                return Err(EndpointError::Name(name));
            };
            if is_reserved(&header) {
                return Err(EndpointError::Reserved(name));
            }
            let Ok(mut value) = HeaderValue::from_str(value.expose()) else {
                return Err(EndpointError::Value(name));
            };
            value.set_sensitive(true);
            checked.append(header, value);
        }
        Ok(Self {
            url,
            headers: checked,
        })
    }
}

fn is_reserved(header: &HeaderName) -> bool {
    [
        ACCEPT,
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        HOST,
        TRANSFER_ENCODING,
    ]
    .contains(header)
        || header.as_str().starts_with("mcp-")
        || header == "last-event-id"
}

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
    /// What was to be sent is no JSON-RPC message.
    #[error("not a JSON-RPC message")]
    NotAMessage,
    /// The server accepted a request, and its answer holds no response to it.
    #[error("the MCP server's answer holds no response to the request")]
    NoResponse,
    /// The bridge was closed.
    #[error("the bridge to the MCP server is closed")]
    Closed,
}

/// One session with an MCP server. Clones are the same session; the last one that is dropped ends what still runs,
/// without a word to the server.
#[derive(Debug, Clone)]
pub struct McpBridge {
    _open: Arc<DropGuard>,
}

impl McpBridge {
    /// A bridge on which nothing was sent yet. `incoming` gets the requests and notifications of the server, each on one
    /// line; a full queue makes the server wait, a closed one drops them. `tracker` gets the task that listens.
    pub fn open(
        _outbound: &Outbound,
        _endpoint: McpEndpoint,
        _incoming: mpsc::Sender<Box<RawValue>>,
        _tracker: &TaskTracker,
    ) -> Self {
        Self {
            _open: Arc::new(CancellationToken::new().drop_guard()),
        }
    }

    /// Sends a message; many may be under way. A request gets its response, whatever it says; a notification and a
    /// response get `None` when the server has taken them.
    ///
    /// CANCEL-SAFETY: dropping the future drops the connection, which the server does not take for a cancellation.
    ///
    /// # Errors
    /// There is no response; the CLI needs a JSON-RPC error instead.
    #[expect(clippy::unused_async, reason = "the transport follows")]
    pub async fn send(
        &self,
        _message: &RawValue,
        _deadline: Option<Instant>,
    ) -> Result<Option<Box<RawValue>>, BridgeError> {
        Err(BridgeError::Closed)
    }

    /// Ends the session for all clones: what is under way gets [`BridgeError::Closed`], and the server is told with a
    /// DELETE that has a few seconds to succeed.
    #[expect(clippy::unused_async, reason = "the transport follows")]
    pub async fn close(self) {}
}
