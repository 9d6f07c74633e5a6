//! Owns the life of one attached client: records and answers go out, lines come in, and it ends in an orderly way. It is
//! generic over the socket, over what takes the lines, and over the sub-protocol.

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
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::{self, error::CapacityError};
use tokio_util::sync::CancellationToken;

use super::{
    close::Close,
    dialect::{Dialect, Next, Received},
    wire::{Event, Wire},
};
use crate::{
    domain::{Role, Seq},
    http::HttpConfig,
    journal::Cursor,
    session::ClientFrame,
};

/// Most lines in one frame of a viewer that are answered.
const MAX_FORBIDDEN: usize = 64;
/// Most answers that are taken from the side channel at once.
const MAX_ANSWERS: usize = 64;
/// Pings that may stay without an answer.
const MAX_MISSED_PONGS: u32 = 2;

/// What takes a client's lines.
pub(super) trait Inbox: Clone + Send + Sync + 'static {
    /// Takes one line. Answers to it come through the side channel; the error says that nothing can be taken any more.
    fn line(&self, line: Bytes) -> impl Future<Output = Result<(), String>> + Send;

    /// Whether a request of the CLI waits for an answer that may be this client's.
    fn is_asked(&self, request_id: String) -> impl Future<Output = bool> + Send + use<Self>;
}

/// What a socket is connected to.
pub(super) struct Client<I, D> {
    /// How the client speaks.
    pub(super) dialect: D,
    /// The client's place in the journal.
    pub(super) cursor: Cursor,
    /// News for this client alone.
    pub(super) direct: mpsc::Receiver<ClientFrame>,
    /// Where the client's lines go.
    pub(super) inbox: I,
    /// Lines that the client has sent already, and that go on to the session.
    pub(super) early: Vec<Bytes>,
    /// Whether the client's lines go anywhere.
    pub(super) role: Role,
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

/// Lines on their way to the session.
pub(super) type Delivery = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Serves a client until one side ends it, and says why it ended.
pub(super) async fn run<S, I, D>(
    socket: S,
    client: Client<I, D>,
    limits: Limits,
    shutdown: CancellationToken,
) -> &'static str
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
    I: Inbox,
    D: Dialect,
{
    let mut wire = Wire::new(socket);
    let Client {
        mut dialect,
        mut cursor,
        mut direct,
        inbox,
        early,
        role,
    } = client;
    wire.queue_text(dialect.first());
    let mut ping = interval_at(Instant::now() + limits.ping_interval, limits.ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed_pongs = 0;
    let mut delivery: Option<Delivery> = deliver(&inbox, early);
    let mut news = Vec::new();
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
        let head = cursor.position();
        let send_deadline = wire.progress() + limits.send_timeout;
        // Every branch is cancel-safe: the wire, the delivery and the dialect keep their state outside of it.
        tokio::select! {
            () = shutdown.cancelled() => break Ended::Shutdown,
            event = poll_fn(|context| wire.poll(context, reading)) => match event {
                Event::Drained => {}
                Event::Ended => break Ended::Gone,
                Event::ReadFailed(error) => break Ended::of_read(&error),
                Event::WriteFailed(error) => break Ended::of_write(&error),
                Event::Received(message) => {
                    missed_pongs = 0;
                    match message {
                        Message::Text(text) if text.len() > limits.message_bytes => break Ended::Close(Close::TooBig),
                        Message::Text(text) => match received(role, text, head, &mut dialect) {
                            Ok(Received { lines, answers }) => {
                                for answer in answers {
                                    wire.queue(Message::Text(answer.into()));
                                }
                                delivery = deliver(&inbox, lines);
                            }
                            Err(close) => break Ended::Close(close),
                        },
                        Message::Binary(_) => break Ended::Close(Close::Binary),
                        Message::Close(_) => break Ended::Peer,
                        Message::Ping(_) | Message::Pong(_) => {}
                    }
                }
            },
            delivered = async { delivery.as_mut().unwrap_or(&mut never()).await }, if !reading => {
                delivery = None;
                if let Err(reason) = delivered {
                    match dialect.undelivered(&reason) {
                        Ok(frame) => wire.queue_text(frame),
                        Err(close) => break Ended::Close(close),
                    }
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
            count = direct.recv_many(&mut news, MAX_ANSWERS), if !busy && is_subscribed => {
                if count == 0 && !cursor.is_closed() && !shutdown.is_cancelled() {
                    // The client did not take its answers.
                    break Ended::Close(Close::Slow);
                }
                // A session that was deleted gives what it has before the end.
                is_subscribed = count > 0;
                match news.drain(..).try_for_each(|frame| dialect.direct(frame).map(|text| wire.queue_text(text))) {
                    Ok(()) => {}
                    Err(close) => break Ended::Close(close),
                }
            },
            next = dialect.next(&mut cursor), if !busy => match next {
                Next::Frames(frames) => {
                    for frame in frames {
                        wire.queue(frame);
                    }
                }
                Next::End if shutdown.is_cancelled() => break Ended::Shutdown,
                Next::End => break Ended::Close(Close::Deleted),
                Next::Close(close) => break Ended::Close(close),
                // The files of a deleted session go while a client that is behind reads them.
                Next::Failed(_) if cursor.is_closed() => break Ended::Close(Close::Deleted),
                Next::Failed(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a client's records cannot be read");
                    break Ended::Close(Close::Journal);
                }
            },
        }
    };
    // The session hears of the end now: the farewell may take its time.
    drop((delivery, inbox, direct));
    let (last, close) = match &ended {
        Ended::Shutdown => {
            let (last, close) = dialect.shutdown(limits.reconnect_after_ms);
            (last, Some(close))
        }
        Ended::Close(close) | Ended::CloseUnread(close) => (None, Some(close.clone())),
        Ended::Peer | Ended::Gone => (None, None),
    };
    let sent = dialect.counts().then(|| sent.get());
    let close = close.map(|close| close.frame(sent));
    finish(wire, &ended, last, close, limits.close_timeout).await;
    ended.as_str()
}

/// What is in a frame of the client.
fn received<D: Dialect>(role: Role, text: Utf8Bytes, head: Seq, dialect: &mut D) -> Result<Received, Close> {
    let mut received = dialect.received(text, head)?;
    let (lines, answers) = permitted(role, received.lines, dialect)?;
    received.lines = lines;
    received.answers.extend(answers);
    Ok(received)
}

/// The lines of a client that go on to the session, and what a viewer is told of those that do not.
pub(super) fn permitted<D: Dialect>(
    role: Role,
    lines: Vec<Bytes>,
    dialect: &mut D,
) -> Result<(Vec<Bytes>, Vec<String>), Close> {
    if role.covers(Role::Operator) {
        return Ok((lines, Vec::new()));
    }
    if lines.len() > MAX_FORBIDDEN {
        return Err(Close::Forbidden);
    }
    let answers = lines
        .iter()
        .filter_map(|line| dialect.forbidden(line).transpose());
    Ok((Vec::new(), answers.collect::<Result<_, _>>()?))
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

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Shutdown => Close::Shutdown.as_str(),
            Self::Close(close) | Self::CloseUnread(close) => close.as_str(),
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
