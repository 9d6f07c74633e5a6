//! Owns the client of the daemon's server-sent events.

use std::collections::VecDeque;

use reqwest::{Method, Response, header};
use serde_json::Value;
use tokio::time::timeout;

use super::{rest::Rest, wait::PATIENCE};

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    /// The event's name; `message` when it has none.
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct EventStream {
    response: Response,
    rest: String,
    events: VecDeque<StreamEvent>,
}

impl EventStream {
    /// Opens a stream, after the event with this id if there is one.
    pub(crate) async fn open(rest: &Rest, path: &str, last_event_id: Option<&str>) -> Self {
        let mut request = rest
            .builder(Method::GET, path)
            .header(header::ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self {
            response,
            rest: String::new(),
            events: VecDeque::new(),
        }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> StreamEvent {
        let read = async {
            loop {
                if let Some(event) = self.events.pop_front() {
                    return event;
                }
                let piece = self.response.chunk().await.unwrap().expect("the stream goes on");
                self.rest.push_str(std::str::from_utf8(&piece).unwrap());
                while let Some((text, rest)) = self.rest.split_once("\n\n") {
                    self.events.extend(event_of(text));
                    self.rest = rest.to_owned();
                }
            }
        };
        timeout(PATIENCE, read)
            .await
            .unwrap_or_else(|_| panic!("no event in {PATIENCE:?}"))
    }

    /// Reads up to the first event whose data `wanted` accepts; all that were read, that one last.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Vec<StreamEvent> {
        let mut seen = Vec::new();
        let search = async {
            loop {
                let event = self.next().await;
                let is_found = wanted(&event.data);
                seen.push(event);
                if is_found {
                    return;
                }
            }
        };
        if timeout(PATIENCE, search).await.is_err() {
            panic!("no {what} in {PATIENCE:?}: {seen:#?}");
        }
        seen
    }
}

/// The event in the lines between two blank ones; comments and bare `retry` lines are none.
fn event_of(text: &str) -> Option<StreamEvent> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(StreamEvent {
        name: field("event").unwrap_or("message").to_owned(),
        id: field("id").map(ToOwned::to_owned),
        data: serde_json::from_str(field("data")?).unwrap(),
    })
}
