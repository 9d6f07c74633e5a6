//! Owns the following of one event stream of an MCP server over as many connections as it takes.

use std::{collections::VecDeque, time::Duration};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::{
    client::RequestError,
    mcp::{BridgeError, LARGEST_MESSAGE_BYTES, Session, Wire},
    message::one_line,
    sse::Decoder,
};

/// Connections that may fail one after the other before the stream is given up.
const TRIES: u32 = 5;

/// The first pause before a new connection, if the server names none; it doubles while nothing comes.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that the server did not ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A server that asks for no pause at all gets one, or the two would turn in a circle.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The messages of one stream.
#[derive(Debug)]
pub(super) struct EventStream<'a> {
    wire: &'a Wire,
    session: Session,
    decoder: Decoder,
    ready: VecDeque<Box<RawValue>>,
    body: Option<Incoming>,
    /// A stream that answers a request can go on only where it broke off. One that listens begins anew.
    begins_anew: bool,
    /// Connections in a row that brought nothing.
    idle: u32,
    /// Connections in a row that did not come about.
    failed: u32,
}

impl<'a> EventStream<'a> {
    /// The stream that a request is answered with.
    pub(super) fn answering(wire: &'a Wire, session: Session, body: Incoming) -> Self {
        Self {
            body: Some(body),
            begins_anew: false,
            ..Self::listening(wire, session)
        }
    }

    /// The stream of what the server starts by itself; nothing is connected yet.
    pub(super) fn listening(wire: &'a Wire, session: Session) -> Self {
        Self {
            wire,
            session,
            decoder: Decoder::new(LARGEST_MESSAGE_BYTES),
            ready: VecDeque::new(),
            body: None,
            begins_anew: true,
            idle: 0,
            failed: 0,
        }
    }

    /// The next message. An event that is no JSON is left out.
    ///
    /// # Errors
    /// The stream is over: it can't go on, or it was tried often enough.
    pub(super) async fn next(&mut self) -> Result<Box<RawValue>, BridgeError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(message);
            }
            let Some(body) = &mut self.body else {
                match self.wire.get(&self.session, None).await {
                    Ok(body) => self.body = Some(body),
                    Err(error) if error.may_pass() => self.reconnect(error).await?,
                    Err(error) => return Err(error),
                }
                continue;
            };
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.take(&bytes)?;
                    }
                }
                Some(Err(error)) => {
                    let error = RequestError::Broken(Box::new(error));
                    self.reconnect(error.into()).await?;
                }
                None => self.reconnect(BridgeError::NoResponse).await?,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), BridgeError> {
        let place = self.decoder.last_event_id().cloned();
        let ended = self.decoder.push(bytes).map_err(|_| RequestError::TooLarge {
            limit_bytes: LARGEST_MESSAGE_BYTES,
        })?;
        if !ended.is_empty() || self.decoder.last_event_id() != place.as_ref() {
            self.idle = 0;
        }
        for data in ended {
            match one_line(&data) {
                Some(message) => self.ready.push_back(message),
                None => tracing::debug!(bytes = data.len(), "an event of an MCP server is no JSON"),
            }
        }
        Ok(())
    }

    /// Makes a new connection that goes on after the last event.
    async fn reconnect(&mut self, mut cause: BridgeError) -> Result<(), BridgeError> {
        if self.decoder.last_event_id().is_none() && !self.begins_anew {
            return Err(cause);
        }
        while self.failed < TRIES {
            sleep(self.pause()).await;
            self.idle += 1;
            let place = self.decoder.last_event_id();
            match self.wire.get(&self.session, place).await {
                Ok(body) => {
                    self.decoder.reconnected();
                    self.body = Some(body);
                    self.failed = 0;
                    return Ok(());
                }
                Err(error) if error.may_pass() => {
                    self.failed += 1;
                    cause = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(cause)
    }

    fn pause(&self) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1_u32 << self.idle.min(16));
        let pause = self.decoder.retry().unwrap_or(doubled.min(LONGEST_PAUSE));
        pause.max(SHORTEST_PAUSE)
    }
}
