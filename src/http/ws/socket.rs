//! Owns the life of one socket: frames go out and come in by turns, a client that is slow or silent is found out, and it ends
//! in an orderly way. It is generic over the socket and over the side that is not the wire.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    time::Duration,
};

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use futures_util::{Sink, Stream};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{
    self,
    error::{CapacityError, ProtocolError},
};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Client, Inbox, Served},
    close::Close,
    dialect::Dialect,
    wire::{Event, Wire},
};
use crate::{
    auth::Tenure,
    http::{AppState, HttpConfig},
};

/// Answers that may wait for a client before no more of its frames are read.
const MAX_ANSWERS_WAITING: usize = 256;
/// Pings that may stay without an answer.
const MAX_MISSED_PONGS: u32 = 2;

/// The side of a socket that is not the wire.
pub(super) trait Peer: Send {
    /// The outcome of work.
    type Done: Send + 'static;

    /// The first frame, and work to begin with.
    fn first(&mut self) -> (Option<String>, Option<Work<Self::Done>>);

    /// The next frames for the client. It waits while there are none, and is asked only when all before them is written.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Outgoing> + Send;

    /// Takes a frame of the client.
    ///
    /// # Errors
    /// The close that the frame leads to.
    fn received(&mut self, text: Utf8Bytes) -> Result<Taken<Self::Done>, Close>;

    /// The work is done.
    ///
    /// # Errors
    /// The close that this leads to.
    fn worked(&mut self, done: Self::Done) -> Result<Taken<Self::Done>, Close>;

    /// All that was given for the client is written.
    fn written(&mut self);

    /// The record after which the client may go on, for one that counts them.
    fn sent(&self) -> Option<u64>;

    /// The end that the daemon's end is for the client, and the frame before it.
    fn shutdown(&self, reconnect_after_ms: u64) -> (Option<String>, Close);
}

/// Work for which the next frame of the client waits.
pub(super) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The consequences of a frame of the client.
pub(super) struct Taken<T> {
    /// Frames that answer it.
    pub(super) answers: Vec<String>,
    /// Work that comes before the next frame is taken.
    pub(super) work: Option<Work<T>>,
}

/// The next thing that goes out.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// Frames.
    Frames(Vec<Message>),
    /// The connection is to be closed.
    Close(Close),
    /// The daemon ends.
    Shutdown,
}

/// Limits of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest message in bytes.
    pub(super) message_bytes: usize,
    /// Time between two pings.
    pub(super) ping_interval: Duration,
    /// Time in which the client must take a frame.
    pub(super) send_timeout: Duration,
    /// Time that a close waits for the client.
    pub(super) close_timeout: Duration,
    /// Milliseconds after which a client that is told of a shutdown is to come back.
    pub(super) reconnect_after_ms: u64,
}

impl Limits {
    pub(super) const fn of(config: &HttpConfig) -> Self {
        Self {
            message_bytes: config
                .max_prompt_bytes
                .saturating_add(super::MESSAGE_OVERHEAD_BYTES),
            ping_interval: Duration::from_millis(config.ping_interval_ms),
            send_timeout: Duration::from_millis(config.send_timeout_ms),
            close_timeout: Duration::from_millis(config.close_timeout_ms),
            reconnect_after_ms: config.reconnect_after_ms,
        }
    }
}

/// The ends that come from elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Until {
    /// The daemon ends.
    pub(super) shutdown: CancellationToken,
    /// The login that opened the socket ends.
    pub(super) tenure: Tenure,
}

impl Until {
    pub(super) fn of(state: &AppState, tenure: Tenure) -> Self {
        let shutdown = state.shutdown().clone();
        Self { shutdown, tenure }
    }
}

/// Serves a client of one session until one side ends it, and says why it ended.
pub(super) async fn run<S, I, D>(
    socket: S,
    client: Client<I, D>,
    limits: Limits,
    until: Until,
) -> &'static str
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
    I: Inbox,
    D: Dialect,
{
    let peer = Served::new(client, until.shutdown.clone());
    serve(socket, peer, limits, until).await
}

/// Serves a client until one side ends it, and says why it ended.
pub(super) async fn serve<S, P>(socket: S, mut peer: P, limits: Limits, until: Until) -> &'static str
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
    P: Peer,
{
    let mut wire = Wire::new(socket);
    let (first, mut work) = peer.first();
    wire.queue_text(first);
    let mut ping = interval_at(Instant::now() + limits.ping_interval, limits.ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed_pongs = 0;

    let ended = loop {
        // The next frame is read when the work of the one before is done and its answers are not too many, so a client that
        // reads nothing cannot fill memory.
        let reading = work.is_none() && wire.answers() < MAX_ANSWERS_WAITING;
        let busy = wire.is_busy();
        if !busy {
            peer.written();
        }
        let send_deadline = wire.progress() + limits.send_timeout;
        // Every branch is cancel-safe: the wire, the work and the peer keep their state outside of it.
        let taken = tokio::select! {
            () = until.shutdown.cancelled() => break Ended::Shutdown,
            () = until.tenure.over() => break Ended::Close(Close::LoginEnded),
            event = poll_fn(|context| wire.poll(context, reading)) => match event {
                Event::Drained => continue,
                Event::Ended => break Ended::Gone,
                Event::ReadFailed(error) => break Ended::of_read(&error),
                Event::WriteFailed(error) => break Ended::of_write(&error),
                Event::Received(message) => {
                    missed_pongs = 0;
                    match message {
                        Message::Text(text) if text.len() > limits.message_bytes => break Ended::Close(Close::TooBig),
                        Message::Text(text) => peer.received(text),
                        Message::Binary(_) => break Ended::Close(Close::Binary),
                        Message::Close(_) => break Ended::Peer,
                        Message::Ping(_) | Message::Pong(_) => continue,
                    }
                }
            },
            done = async { work.as_mut().unwrap_or(&mut never()).await }, if work.is_some() => {
                work = None;
                peer.worked(done)
            },
            () = sleep_until(send_deadline), if busy => {
                if wire.progress().elapsed() >= limits.send_timeout {
                    break Ended::Close(Close::Slow);
                }
                continue;
            },
            _ = ping.tick() => {
                // Pongs behind a line that is being delivered have not been read yet.
                if reading {
                    if missed_pongs >= MAX_MISSED_PONGS {
                        break Ended::Close(Close::Silent);
                    }
                    missed_pongs += 1;
                    wire.queue(Message::Ping(Bytes::new()));
                }
                continue;
            },
            outgoing = peer.next(), if !busy => match outgoing {
                Outgoing::Frames(frames) => {
                    for frame in frames {
                        wire.queue(frame);
                    }
                    continue;
                }
                Outgoing::Close(close) => break Ended::Close(close),
                Outgoing::Shutdown => break Ended::Shutdown,
            },
        };
        match taken {
            Ok(Taken { answers, work: more }) => {
                for answer in answers {
                    wire.answer(answer);
                }
                work = more;
            }
            Err(close) => break Ended::Close(close),
        }
    };
    let (last, close) = match &ended {
        Ended::Shutdown => {
            let (last, close) = peer.shutdown(limits.reconnect_after_ms);
            (last, Some(close))
        }
        Ended::Close(close) | Ended::CloseUnread(close) => (None, Some(close.clone())),
        Ended::Peer | Ended::Gone => (None, None),
    };
    let close = close.map(|close| close.frame(peer.sent()));
    // The session hears of the end now: the farewell may take its time.
    drop((work, peer));
    finish(wire, &ended, last, close, limits.close_timeout).await;
    ended.as_str()
}

/// Closes a socket that serves no client.
pub(super) async fn refuse<S>(socket: S, close: &Close, close_timeout: Duration)
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    // A stranger may send on and on: nothing of that is read.
    let ended = match close {
        Close::Unproven => Ended::CloseUnread(close.clone()),
        close => Ended::Close(close.clone()),
    };
    finish(
        Wire::new(socket),
        &ended,
        None,
        Some(close.frame(None)),
        close_timeout,
    )
    .await;
}

/// The end of a connection that is lost.
const LOST: &str = "connection lost";

/// Whether a client whose connection ended so may come back and go on: it is not we who ended it for what it said.
pub(super) fn may_return(ended: &str) -> bool {
    let silent = [
        Close::Shutdown.as_str(),
        Close::Slow.as_str(),
        Close::Silent.as_str(),
    ];
    ended == LOST || ended == BY_CLIENT || silent.contains(&ended)
}

/// The end of a connection that its client closes.
const BY_CLIENT: &str = "closed by the client";

/// How a connection ended.
#[derive(Clone, Debug)]
enum Ended {
    /// The daemon ends.
    Shutdown,
    /// We close it.
    Close(Close),
    /// We close it; what the client sends is not read any more.
    CloseUnread(Close),
    /// The client closed it.
    Peer,
    /// It is gone.
    Gone,
}

impl Ended {
    fn of_read(error: &axum::Error) -> Self {
        match cause(error) {
            Some(tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. })) => {
                Self::CloseUnread(Close::TooBig)
            }
            // A program that is killed says no farewell.
            Some(tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Self::Gone,
            Some(tungstenite::Error::Protocol(_)) => Self::CloseUnread(Close::Protocol),
            Some(tungstenite::Error::Utf8(_)) => Self::CloseUnread(Close::NoText),
            _ => Self::Gone,
        }
    }

    fn of_write(error: &axum::Error) -> Self {
        match cause(error) {
            Some(tungstenite::Error::WriteBufferFull(_)) => Self::Close(Close::Slow),
            _ => Self::Gone,
        }
    }

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Shutdown => Close::Shutdown.as_str(),
            Self::Close(close) | Self::CloseUnread(close) => close.as_str(),
            Self::Peer => BY_CLIENT,
            Self::Gone => LOST,
        }
    }
}

fn cause(error: &axum::Error) -> Option<&tungstenite::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Ends the connection: the close frame is written, and the client's answer awaited, for at most `limit`. Dropping a
/// socket earlier resets it, and the client would never see the reason. A client of a daemon that ends is told when to come
/// back.
async fn finish<S>(
    mut wire: Wire<S>,
    ended: &Ended,
    last: Option<String>,
    close: Option<Message>,
    limit: Duration,
) where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    // The library answers a close of the client by itself; the answer only has to be written.
    let reading = match ended {
        Ended::Gone => return,
        Ended::CloseUnread(_) => false,
        Ended::Shutdown | Ended::Close(_) | Ended::Peer => true,
    };
    wire.forget_queue();
    wire.queue_text(last);
    if let Some(close) = close {
        wire.queue(close);
    }
    let farewell = async {
        loop {
            match poll_fn(|context| wire.poll(context, reading)).await {
                Event::Ended | Event::ReadFailed(_) | Event::WriteFailed(_) => break,
                Event::Received(_) | Event::Drained => {}
            }
        }
    };
    // A client that does not answer is given up at the limit; that is all that can be done.
    let _answered = timeout(limit, farewell).await;
}

fn never<T: Send + 'static>() -> Work<T> {
    Box::pin(std::future::pending())
}

#[cfg(test)]
mod tests;
