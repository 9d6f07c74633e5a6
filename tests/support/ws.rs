//! Owns the WebSocket client of a daemon under test.

use std::{collections::VecDeque, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        Error, Message, Utf8Bytes,
        client::IntoClientRequest as _,
        handshake::client::Response,
        http::HeaderValue,
        protocol::frame::{CloseFrame, coding::CloseCode},
    },
};

use super::wait::PATIENCE;

/// One attached client. JSON frames in and out; a close is an end that can be looked at.
#[derive(Debug)]
pub(crate) struct Ws {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Frames read while looking for another one.
    skipped: VecDeque<Value>,
    /// The close frame, once the server sent one.
    pub(crate) closed: Option<CloseFrame>,
    /// The sub-protocol that the server chose.
    pub(crate) protocol: Option<String>,
}

impl Ws {
    /// Attaches with the given sub-protocols; the token, if any, goes along as `bearer.<token>`.
    pub(crate) async fn try_connect(
        base_url: &str,
        path: &str,
        protocols: &[&str],
        token: Option<&str>,
    ) -> Result<Self, Error> {
        let url = format!("{}{path}", base_url.replacen("http", "ws", 1));
        let mut request = url.into_client_request()?;
        let mut offered: Vec<String> = protocols.iter().map(|&name| name.to_owned()).collect();
        offered.extend(token.map(|token| format!("bearer.{token}")));
        if !offered.is_empty() {
            let value = HeaderValue::from_str(&offered.join(", ")).unwrap();
            request.headers_mut().insert("sec-websocket-protocol", value);
        }
        let (stream, response) = connect_async(request).await?;
        Ok(Self {
            stream,
            skipped: VecDeque::new(),
            closed: None,
            protocol: chosen_protocol(&response),
        })
    }

    /// The next JSON frame, or nothing when the connection ended.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Option<Value> {
        if let Some(frame) = self.skipped.pop_front() {
            return Some(frame);
        }
        timeout(limit, self.read())
            .await
            .unwrap_or_else(|_| panic!("no frame in {limit:?}"))
    }

    /// The next JSON frame.
    pub(crate) async fn next(&mut self) -> Value {
        let frame = self.next_within(PATIENCE).await;
        frame.unwrap_or_else(|| panic!("the connection ended: {:?}", self.closed))
    }

    /// Reads up to and including the first frame that `wanted` accepts; all frames read, that one last.
    pub(crate) async fn until(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut frames = Vec::new();
        let search = async {
            loop {
                let frame = match self.skipped.pop_front() {
                    Some(frame) => Some(frame),
                    None => self.read().await,
                };
                let frame = frame.unwrap_or_else(|| panic!("ended before {what}: {:?}", self.closed));
                let found = wanted(&frame);
                frames.push(frame);
                if found {
                    return;
                }
            }
        };
        if timeout(PATIENCE, search).await.is_err() {
            panic!(
                "no {what} in {PATIENCE:?}; last of {} frames: {:#?}",
                frames.len(),
                frames.last()
            );
        }
        frames
    }

    /// As [`Ws::until`], but keeps the frames before the wanted one for later reads.
    pub(crate) async fn find(&mut self, what: &str, wanted: impl FnMut(&Value) -> bool) -> Value {
        let mut frames = self.until(what, wanted).await;
        let found = frames.pop().unwrap();
        for frame in frames.into_iter().rev() {
            self.skipped.push_front(frame);
        }
        found
    }

    /// Reads up to the CLI's line of this type, such as `result`; the line itself.
    pub(crate) async fn cli_line(&mut self, kind: &str) -> Value {
        let wanted = |frame: &Value| frame["src"] == "cli" && frame["data"]["type"] == kind;
        let mut frames = self.until(&format!("{kind} line"), wanted).await;
        frames.pop().unwrap()["data"].take()
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// Closes politely and reads to the end.
    pub(crate) async fn close(mut self) {
        let frame = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        // The server may have closed first; then there is nothing left to say.
        let _already_closed = self.stream.close(Some(frame)).await;
        while self.next_within(PATIENCE).await.is_some() {}
    }

    /// Reads to the end and returns the code and reason of the close.
    pub(crate) async fn close_frame(&mut self) -> (u16, String) {
        while self.next_within(PATIENCE).await.is_some() {}
        let frame = self.closed.clone().expect("a close frame before the end");
        (frame.code.into(), frame.reason.as_str().to_owned())
    }

    /// The bytes of the next frame that `wanted` accepts; frames before it are passed over.
    pub(crate) async fn text_that(&mut self, mut wanted: impl FnMut(&str) -> bool) -> String {
        let search = async {
            loop {
                let text = self.read_text().await.expect("the connection holds");
                if wanted(&text) {
                    return text.as_str().to_owned();
                }
            }
        };
        timeout(PATIENCE, search)
            .await
            .unwrap_or_else(|_| panic!("no such frame in {PATIENCE:?}"))
    }

    async fn read(&mut self) -> Option<Value> {
        let text = self.read_text().await?;
        Some(serde_json::from_str(&text).unwrap())
    }

    async fn read_text(&mut self) -> Option<Utf8Bytes> {
        loop {
            match self.stream.next().await? {
                Ok(Message::Text(text)) => return Some(text),
                Ok(Message::Close(frame)) => self.closed = frame,
                Ok(Message::Binary(_)) => panic!("a binary frame"),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

fn chosen_protocol(response: &Response) -> Option<String> {
    let value = response.headers().get("sec-websocket-protocol")?;
    Some(value.to_str().unwrap().to_owned())
}
