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
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering},
        },
        task::{Context, Poll},
    };

    use super::*;
    use crate::{
        domain::Timestamp,
        journal::{Feed, Source, Writer, WriterOptions},
    };

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A socket whose other side reads only while `open`.
    struct Fake {
        incoming: mpsc::Receiver<Message>,
        taken: mpsc::Sender<Message>,
        waiting: Vec<Message>,
        open: Arc<AtomicBool>,
        /// Messages that are taken before the next has to wait.
        room: Arc<AtomicUsize>,
    }

    impl Stream for Fake {
        type Item = Result<Message, axum::Error>;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.incoming.poll_recv(context).map(|message| message.map(Ok))
        }
    }

    impl Sink<Message> for Fake {
        type Error = axum::Error;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            if self.room.load(Ordering::Relaxed) == 0 {
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }

        fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
            self.room.fetch_sub(1, Ordering::Relaxed);
            self.waiting.push(message);
            Ok(())
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            if !self.open.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            for message in std::mem::take(&mut self.waiting) {
                self.taken.try_send(message).unwrap();
            }
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            self.poll_flush(context)
        }
    }

    #[derive(Clone)]
    struct Lines(mpsc::Sender<Bytes>);

    impl Inbox for Lines {
        async fn line(&self, line: Bytes) -> Result<(), String> {
            self.0.send(line).await.map_err(|_| "gone".to_owned())
        }
    }

    /// Both ends of a client, with `count` records in its journal.
    struct Bed {
        dir: tempfile::TempDir,
        incoming: mpsc::Sender<Message>,
        taken: mpsc::Receiver<Message>,
        open: Arc<AtomicBool>,
        room: Arc<AtomicUsize>,
        direct: mpsc::Sender<String>,
        lines: mpsc::Receiver<Bytes>,
        shutdown: CancellationToken,
        feed: Feed,
    }

    fn limits() -> Limits {
        Limits {
            message_bytes: 1024,
            ping_interval: PATIENCE,
            send_timeout: PATIENCE,
            close_timeout: Duration::from_millis(50),
            reconnect_after_ms: 2_000,
        }
    }

    fn bed(records: usize, limits: Limits) -> (Bed, impl Future<Output = &'static str>) {
        let dir = tempfile::tempdir().unwrap();
        let options = WriterOptions {
            segment_bytes: 1024 * 1024,
            ..WriterOptions::default()
        };
        let (mut writer, recovery) = Writer::open(dir.path(), options).unwrap();
        let mut head = recovery.head;
        for _ in 0..records {
            writer
                .push(Timestamp::from_micros(0), Source::Cli, None, b"{}")
                .unwrap();
            head = writer.commit().unwrap();
        }
        let feed = Feed::new(dir.path(), head, 1024);
        let (incoming, receive_incoming) = mpsc::channel(8);
        let (send_taken, taken) = mpsc::channel(1024);
        let (direct, receive_direct) = mpsc::channel(8);
        let (send_lines, lines) = mpsc::channel(1);
        let open = Arc::new(AtomicBool::new(true));
        let room = Arc::new(AtomicUsize::new(usize::MAX));
        let shutdown = CancellationToken::new();
        let socket = Fake {
            incoming: receive_incoming,
            taken: send_taken,
            waiting: Vec::new(),
            open: Arc::clone(&open),
            room: Arc::clone(&room),
        };
        let client = Client {
            first: "first".to_owned(),
            head: Seq::ZERO,
            cursor: feed.cursor(Seq::ZERO).unwrap(),
            direct: receive_direct,
            inbox: Lines(send_lines),
        };
        let running = run(socket, client, limits, shutdown.clone());
        let bed = Bed {
            dir,
            incoming,
            taken,
            open,
            room,
            direct,
            lines,
            shutdown,
            feed,
        };
        (bed, running)
    }

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        timeout(PATIENCE, future).await.unwrap()
    }

    fn close_code(message: &Message) -> Option<u16> {
        match message {
            Message::Close(Some(frame)) => Some(frame.code),
            _ => None,
        }
    }

    #[tokio::test]
    async fn while_a_send_waits_lines_still_come_in_and_then_the_client_is_let_go() {
        let limits = Limits {
            send_timeout: Duration::from_millis(200),
            ..limits()
        };
        let (mut bed, running) = bed(3, limits);
        bed.open.store(false, Ordering::Relaxed);
        bed.incoming
            .send(Message::text("{\"a\":1}\n{\"b\":2}"))
            .await
            .unwrap();
        let (ended, lines) = soon(async {
            tokio::join!(running, async {
                [bed.lines.recv().await, bed.lines.recv().await]
            })
        })
        .await;
        assert_eq!(lines.map(Option::unwrap), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(ended, "client too slow");
        assert!(bed.taken.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_shutdown_ends_a_client_that_takes_nothing() {
        let (bed, running) = bed(3, limits());
        bed.open.store(false, Ordering::Relaxed);
        bed.shutdown.cancel();
        assert_eq!(soon(running).await, "shutdown");
        assert!(bed.dir.path().exists());
    }

    /// What a client is told to come back with is what it has, not what waited for the socket and is forgotten.
    #[tokio::test]
    async fn a_shutdown_says_when_to_come_back_and_after_what() {
        let (mut bed, running) = bed(3, limits());
        // The first frame, and the first record.
        bed.room.store(2, Ordering::Relaxed);
        let (ended, ()) = soon(async {
            tokio::join!(running, async {
                while bed.room.load(Ordering::Relaxed) > 0 {
                    tokio::task::yield_now().await;
                }
                bed.room.store(usize::MAX, Ordering::Relaxed);
                bed.shutdown.cancel();
            })
        })
        .await;
        assert_eq!(ended, "shutdown");
        let told: Vec<Message> = std::iter::from_fn(|| bed.taken.try_recv().ok()).collect();
        let [first, records @ .., shutdown, close] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!(*first, Message::text("first"));
        // More than the first may have been on their way when the end came.
        for (number, record) in records.iter().enumerate() {
            let begins = format!("{{\"seq\":{},", number + 1);
            assert!(record.to_text().unwrap().starts_with(&begins), "{record:?}");
        }
        assert!(!records.is_empty(), "{told:?}");
        let shutdown: serde_json::Value = serde_json::from_str(shutdown.to_text().unwrap()).unwrap();
        assert_eq!(
            shutdown,
            serde_json::json!({"type": "shutdown", "reconnect_after_ms": 2_000})
        );
        let Message::Close(Some(close)) = close else {
            panic!("{close:?}");
        };
        assert_eq!(close.code, 1001);
        let after: usize = close.reason.rsplit('=').next().unwrap().parse().unwrap();
        assert!(after <= records.len(), "it would miss records: {}", close.reason);
    }

    #[tokio::test]
    async fn the_first_frame_the_records_and_the_close_come_in_their_order() {
        let (mut bed, running) = bed(300, limits());
        bed.feed.close();
        let ended = soon(running).await;
        let mut texts = Vec::new();
        let mut code = None;
        while let Ok(message) = bed.taken.try_recv() {
            code = close_code(&message);
            if let Message::Text(text) = message {
                texts.push(text);
            }
        }
        assert_eq!((ended, code), ("session deleted", Some(4410)));
        assert_eq!(texts[0].as_str(), "first");
        for (number, text) in texts.iter().enumerate().skip(1) {
            assert!(text.starts_with(&format!("{{\"seq\":{number},")), "{text}");
        }
        assert_eq!(texts.len(), 301);
    }

    #[tokio::test]
    async fn a_client_that_missed_an_answer_is_let_go() {
        let (mut bed, running) = bed(0, limits());
        bed.direct.send("answer".to_owned()).await.unwrap();
        drop(bed.direct);
        assert_eq!(soon(running).await, "client too slow");
        assert_eq!(bed.taken.try_recv().unwrap(), Message::text("first"));
        assert_eq!(bed.taken.try_recv().unwrap(), Message::text("answer"));
        assert_eq!(close_code(&bed.taken.try_recv().unwrap()), Some(4408));
    }

    #[tokio::test]
    async fn a_client_that_answers_no_ping_is_let_go() {
        let limits = Limits {
            ping_interval: Duration::from_millis(20),
            ..limits()
        };
        let (mut bed, running) = bed(0, limits);
        assert_eq!(soon(running).await, "client silent");
        let mut pings = 0;
        while let Ok(message) = bed.taken.try_recv() {
            pings += u32::from(matches!(message, Message::Ping(_)));
        }
        assert_eq!(pings, MAX_MISSED_PONGS);
    }
}
