//! Owns the life of one attached client: records and answers go out, lines come in, and it ends in an orderly way. It is
//! generic over the socket and over what takes the lines, so that it is tested without either.

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
use memchr::memchr_iter;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::{self, error::CapacityError};
use tokio_util::sync::CancellationToken;

use super::{
    close::Close,
    frames::{self, OwnFrame},
    wire::{Event, Wire},
};
use crate::{
    domain::Seq,
    http::{HttpConfig, closing, stream},
    journal::{Chunk, Cursor},
};

/// Most bytes of records that are taken from the cursor at once.
const BATCH_BYTES: usize = 256 * 1024;
/// Most answers that are taken from the side channel at once.
const MAX_ANSWERS: usize = 64;
/// Pings that may stay without an answer.
const MAX_MISSED_PONGS: u32 = 2;

/// What takes a client's lines.
pub(super) trait Inbox: Clone + Send + 'static {
    /// Takes one line. Answers to it come through the side channel; the error says that nothing can be taken any more.
    fn line(&self, line: Bytes) -> impl Future<Output = Result<(), String>> + Send;
}

/// What a socket is connected to.
pub(super) struct Client<I> {
    /// The first frame.
    pub(super) first: String,
    /// The last record when the client was attached.
    pub(super) head: Seq,
    /// The client's place in the journal.
    pub(super) cursor: Cursor,
    /// Frames for this client alone.
    pub(super) direct: mpsc::Receiver<String>,
    /// Where the client's lines go.
    pub(super) inbox: I,
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

type Delivery = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Serves a client until one side ends it, and says why it ended.
pub(super) async fn run<S, I>(
    socket: S,
    client: Client<I>,
    limits: Limits,
    shutdown: CancellationToken,
) -> &'static str
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
    I: Inbox,
{
    let mut wire = Wire::new(socket);
    wire.queue(Message::Text(client.first.into()));
    let mut head = client.head;
    let Client {
        mut cursor,
        mut direct,
        inbox,
        ..
    } = client;
    let mut ping = interval_at(Instant::now() + limits.ping_interval, limits.ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed_pongs = 0;
    let mut delivery: Option<Delivery> = None;
    let mut answers = Vec::new();
    let mut is_subscribed = true;
    // What is certainly written: the end may forget what is not.
    let mut sent = cursor.position();

    let ended = loop {
        // The next frame is read when the lines of the one before are delivered, so a client cannot fill memory.
        let reading = delivery.is_none();
        let busy = wire.is_busy();
        if !busy {
            sent = cursor.position();
        }
        let send_deadline = wire.progress() + limits.send_timeout;
        // Every branch is cancel-safe: the wire and the delivery keep their state outside of it.
        tokio::select! {
            () = shutdown.cancelled() => break Ended::Close(Close::Shutdown),
            event = poll_fn(|context| wire.poll(context, reading)) => match event {
                Event::Drained => {}
                Event::Ended => break Ended::Gone,
                Event::ReadFailed(error) => break Ended::of_read(&error),
                Event::WriteFailed(error) => break Ended::of_write(&error),
                Event::Received(message) => {
                    missed_pongs = 0;
                    match message {
                        Message::Text(text) if text.len() > limits.message_bytes => break Ended::Close(Close::TooBig),
                        Message::Text(text) => {
                            let (rest, own) = split(text);
                            for frame in own {
                                wire.queue(Message::Text(answer(frame, head.max(cursor.position())).into()));
                            }
                            delivery = deliver(&inbox, rest);
                        }
                        Message::Binary(_) => break Ended::Close(Close::Binary),
                        Message::Close(_) => break Ended::Peer,
                        Message::Ping(_) | Message::Pong(_) => {}
                    }
                }
            },
            delivered = async { delivery.as_mut().unwrap_or(&mut never()).await }, if !reading => {
                delivery = None;
                if let Err(reason) = delivered {
                    wire.queue(Message::Text(frames::error("session_ended", &reason).into()));
                }
            },
            () = sleep_until(send_deadline), if busy => {
                if wire.progress().elapsed() >= limits.send_timeout {
                    break Ended::Close(Close::Slow);
                }
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
            },
            count = direct.recv_many(&mut answers, MAX_ANSWERS), if !busy && is_subscribed => {
                if count == 0 && !cursor.is_closed() && !shutdown.is_cancelled() {
                    // The client did not take its answers.
                    break Ended::Close(Close::Slow);
                }
                // A session that was deleted gives what it has before the end.
                is_subscribed = count > 0;
                for text in answers.drain(..) {
                    wire.queue(Message::Text(text.into()));
                }
            },
            chunk = cursor.next(BATCH_BYTES), if !busy => match chunk {
                Ok(Some(chunk)) => {
                    head = head.max(chunk.last);
                    if let Some(missing) = chunk.missing {
                        wire.queue(Message::Text(stream::gap(missing).into()));
                    }
                    for message in records(&chunk) {
                        wire.queue(message);
                    }
                }
                Ok(None) => break Ended::Close(if shutdown.is_cancelled() { Close::Shutdown } else { Close::Deleted }),
                // The files of a deleted session go while a client that is behind reads them.
                Err(_) if cursor.is_closed() => break Ended::Close(Close::Deleted),
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a client's records cannot be read");
                    break Ended::Close(Close::Journal);
                }
            },
        }
    };
    // The session hears of the end now: the farewell may take its time.
    drop((delivery, inbox, direct));
    finish(wire, ended, sent, &limits).await;
    ended.as_str()
}

/// How a connection ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
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
            Some(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_)) => {
                Self::CloseUnread(Close::Protocol)
            }
            _ => Self::Gone,
        }
    }

    fn of_write(error: &axum::Error) -> Self {
        match cause(error) {
            Some(tungstenite::Error::WriteBufferFull(_)) => Self::Close(Close::Slow),
            _ => Self::Gone,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Close(close) | Self::CloseUnread(close) => match close {
                Close::Shutdown => "shutdown",
                Close::Binary => "binary frame",
                Close::TooBig => "message too big",
                Close::Protocol => "protocol error",
                Close::Slow => "client too slow",
                Close::Silent => "client silent",
                Close::Deleted => "session deleted",
                Close::Journal => "journal unreadable",
            },
            Self::Peer => "closed by the client",
            Self::Gone => "connection lost",
        }
    }
}

fn cause(error: &axum::Error) -> Option<&tungstenite::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Ends the connection: the close frame is written, and the client's answer awaited, for at most `limit`. Dropping a
/// socket earlier resets it, and the client would never see the reason. A client of a daemon that ends is told when to come
/// back.
async fn finish<S>(mut wire: Wire<S>, ended: Ended, sent: Seq, limits: &Limits)
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    let (close, reading) = match ended {
        Ended::Gone => return,
        Ended::Close(close) => (Some(close), true),
        Ended::CloseUnread(close) => (Some(close), false),
        // The library answers a close by itself; the answer only has to be written.
        Ended::Peer => (None, true),
    };
    wire.forget_queue();
    if close == Some(Close::Shutdown) {
        wire.queue(Message::Text(closing::frame(limits.reconnect_after_ms).into()));
    }
    if let Some(close) = close {
        wire.queue(close.frame(sent.get()));
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
    let _answered = timeout(limits.close_timeout, farewell).await;
}

/// One text frame per record, sharing the chunk's bytes.
fn records(chunk: &Chunk) -> impl Iterator<Item = Message> {
    let bytes = chunk.bytes.clone();
    let mut start = 0;
    let ends: Vec<usize> = memchr_iter(b'\n', &bytes).collect();
    ends.into_iter().filter_map(move |end| {
        let line = bytes.slice(start..end);
        start = end + 1;
        Utf8Bytes::try_from(line).ok().map(Message::Text)
    })
}

/// The lines of a frame that are for the CLI, and the frames of our own among them.
fn split(text: Utf8Bytes) -> (Vec<Bytes>, Vec<OwnFrame>) {
    let mut own = Vec::new();
    let rest = frames::lines(text)
        .filter(|line| match frames::own_frame(line) {
            Some(frame) => {
                own.push(frame);
                false
            }
            None => true,
        })
        .collect();
    (rest, own)
}

fn answer(frame: OwnFrame, head: Seq) -> String {
    match frame {
        OwnFrame::Ping { id } => frames::pong(id.as_deref(), head),
        OwnFrame::Unknown { kind } => frames::error("unknown_frame", &format!("{kind} is not known")),
    }
}

/// Hands lines over one after the other; nothing to do gives none.
fn deliver<I: Inbox>(inbox: &I, lines: Vec<Bytes>) -> Option<Delivery> {
    if lines.is_empty() {
        return None;
    }
    let inbox = inbox.clone();
    Some(Box::pin(async move {
        for line in lines {
            inbox.line(line).await?;
        }
        Ok(())
    }))
}

fn never() -> Delivery {
    Box::pin(std::future::pending())
}

#[cfg(test)]
mod tests;
