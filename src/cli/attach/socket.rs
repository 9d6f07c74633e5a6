//! Owns the WebSocket to the daemon.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{
        self, Message,
        client::IntoClientRequest as _,
        protocol::{WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::super::{CliError, client::Client};

/// A record can be as long as the longest line that the daemon keeps.
const LONGEST_FRAME: usize = 1024 * 1024 * 1024;

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// A message from the daemon.
#[derive(Debug)]
pub(in crate::cli) enum Frame {
    /// A snapshot, a record, or an answer for us.
    Text(String),
    /// The daemon ended the connection and said why.
    Closed(String),
    /// The connection broke, or the daemon shut down.
    Lost,
}

/// The connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Gone;

/// A connection to one session.
#[derive(Debug)]
pub(in crate::cli) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Socket {
    /// Connects; records after `after` are sent first, without it only what happens from now on.
    pub(in crate::cli) async fn open(
        client: &Client,
        session: &str,
        after: Option<u64>,
    ) -> Result<Self, CliError> {
        let after = after.map(|seq| seq.to_string());
        let query: Vec<(&str, &str)> = after.iter().map(|seq| ("after", seq.as_str())).collect();
        let path = ["v1", "sessions", session, "ws"];
        Self::open_at(client, &path, &query, "trunkline.v1").await
    }

    /// Connects to a path with this sub-protocol.
    pub(in crate::cli) async fn open_at(
        client: &Client,
        path: &[&str],
        query: &[(&str, &str)],
        protocol: &'static str,
    ) -> Result<Self, CliError> {
        let url = client.url(path, query)?;
        let url = url.as_str().replacen("http", "ws", 1);
        let mut request = url.into_client_request().map_err(failed)?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", client.token()))
            .map_err(|_| CliError::Usage("the token file holds no token".into()))?;
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_FRAME))
            .max_frame_size(Some(LONGEST_FRAME));
        let (stream, _response) = tokio_tungstenite::connect_async_with_config(request, Some(limits), true)
            .await
            .map_err(failed)?;
        Ok(Self { stream })
    }

    /// Sends a text.
    pub(in crate::cli) async fn send(&mut self, text: String) -> Result<(), Gone> {
        let sent = self.stream.send(Message::text(text)).await;
        sent.map_err(|_| Gone)
    }

    /// Says goodbye. A daemon that does not answer is not waited for.
    pub(in crate::cli) async fn close(mut self) {
        let _gone_anyway = tokio::time::timeout(GOODBYE, self.stream.close(None)).await;
    }

    /// The next frame.
    ///
    /// CANCEL-SAFETY: no frame is lost.
    pub(in crate::cli) async fn next(&mut self) -> Frame {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Frame::Text(text.to_string()),
                Some(Ok(Message::Close(close))) => {
                    // The answer to the close must go out; the connection ends either way.
                    let _answered = self.stream.flush().await;
                    return match close {
                        Some(close) if !matches!(close.code, CloseCode::Away | CloseCode::Restart) => {
                            Frame::Closed(close.reason.to_string())
                        }
                        _ => Frame::Lost,
                    };
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Frame::Lost,
            }
        }
    }
}

fn failed(error: tungstenite::Error) -> CliError {
    match error {
        tungstenite::Error::Http(response) => super::super::client::refusal(
            response.status(),
            &response
                .body()
                .as_deref()
                .and_then(|body| serde_json::from_slice(body).ok())
                .unwrap_or_default(),
        ),
        tungstenite::Error::Io(error) => CliError::NotRunning {
            reason: error.to_string(),
            hint: "start it with `trunkline serve`".into(),
        },
        other => CliError::Other(anyhow::Error::new(other).context("cannot attach")),
    }
}
