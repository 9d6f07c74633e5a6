//! Owns the client of the sub-protocol `ndjson`: text in any pieces out, whole lines in.

use std::collections::VecDeque;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _, http::HeaderValue},
};

use super::{daemon::TestDaemon, wait::PATIENCE};

/// One attached client.
#[derive(Debug)]
pub(crate) struct LineSocket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    lines: VecDeque<String>,
    partial: String,
    closed: Option<(u16, String)>,
    /// The sub-protocol that the server chose.
    pub(crate) protocol: Option<String>,
}

impl LineSocket {
    /// Opens a socket with these headers and no others.
    pub(crate) async fn open(
        daemon: &TestDaemon,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Error> {
        let url = format!("{}{path}", daemon.url().replacen("http", "ws", 1));
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().insert(*name, value);
        }
        let (stream, response) = connect_async(request).await?;
        let chosen = response.headers().get("sec-websocket-protocol");
        Ok(Self {
            stream,
            lines: VecDeque::new(),
            partial: String::new(),
            closed: None,
            protocol: chosen.map(|value| value.to_str().unwrap().to_owned()),
        })
    }

    /// Attaches with the token in a header; `query` begins with `&`.
    pub(crate) async fn attach(daemon: &TestDaemon, session: &str, query: &str) -> Self {
        let path = format!("/v1/sessions/{session}/ws?protocol=ndjson{query}");
        let bearer = format!("Bearer {}", daemon.token());
        Self::open(daemon, &path, &[("authorization", &bearer)])
            .await
            .unwrap()
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn send(&mut self, line: &Value) {
        self.send_text(&format!("{line}\n")).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        // The server may have closed meanwhile.
        let _closed = self.stream.send(message).await;
    }

    /// Asks the CLI for something and reads to the answer; the lines before it are kept.
    pub(crate) async fn control(&mut self, id: &str, request: Value) -> Value {
        self.send(&json!({ "type": "control_request", "request_id": id, "request": request }))
            .await;
        let is_it = |line: &Value| line["type"] == "control_response" && line["response"]["request_id"] == id;
        let mut before = VecDeque::new();
        loop {
            let text = self.next_text().await;
            let line: Value = serde_json::from_str(&text).unwrap();
            if is_it(&line) {
                before.append(&mut self.lines);
                self.lines = before;
                return line;
            }
            before.push_back(text);
        }
    }

    /// Answers a request of the CLI.
    pub(crate) async fn answer(&mut self, request: &Value, response: Value) {
        let response =
            json!({ "subtype": "success", "request_id": request["request_id"], "response": response });
        self.send(&json!({ "type": "control_response", "response": response }))
            .await;
    }

    /// The next line as it is.
    pub(crate) async fn next_text(&mut self) -> String {
        let text = timeout(PATIENCE, self.read_line()).await.expect("no line");
        text.unwrap_or_else(|| panic!("the connection ended: {:?}", self.closed))
    }

    /// Reads up to the line that is wanted; all lines read, that one last.
    pub(crate) async fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut lines: Vec<Value> = Vec::new();
        loop {
            let line: Value = serde_json::from_str(&self.next_text().await).unwrap();
            let found = wanted(&line);
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// Reads up to a line of this type; that line.
    pub(crate) async fn line(&mut self, kind: &str) -> Value {
        self.until(|line| line["type"] == kind).await.pop().unwrap()
    }

    /// Reads to the end; the code and the reason of the close.
    pub(crate) async fn close_frame(&mut self) -> (u16, String) {
        let end = async { while self.read_line().await.is_some() {} };
        timeout(PATIENCE, end).await.expect("no end");
        self.closed.clone().expect("a close frame before the end")
    }

    async fn read_line(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            match self.stream.next().await? {
                Ok(Message::Text(text)) => {
                    self.partial.push_str(&text);
                    while let Some(end) = self.partial.find('\n') {
                        let rest = self.partial.split_off(end + 1);
                        let mut line = std::mem::replace(&mut self.partial, rest);
                        line.pop();
                        self.lines.push_back(line);
                    }
                }
                Ok(Message::Close(frame)) => {
                    self.closed = frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned()));
                }
                Ok(Message::Binary(_)) => panic!("a binary frame"),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The line by which a client shows the token.
pub(crate) fn auth_line(token: &str) -> Value {
    json!({ "type": "auth", "credential": { "type": "oauth", "token": token } })
}
