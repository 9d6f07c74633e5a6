//! Checks what a socket sends, takes and how it ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::sync::mpsc;

use super::*;
use crate::{
    domain::{Role, Seq, Timestamp},
    http::{
        thin::Thinning,
        ws::{frames::Snapshot, v1::Records},
    },
    journal::{Feed, Source, Writer, WriterOptions},
    session::ClientFrame,
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

    fn is_asked(&self, _request_id: String) -> impl Future<Output = bool> + Send + use<> {
        std::future::ready(true)
    }
}

/// Both ends of a client, with `count` records in its journal.
struct Bed {
    dir: tempfile::TempDir,
    incoming: mpsc::Sender<Message>,
    taken: mpsc::Receiver<Message>,
    open: Arc<AtomicBool>,
    room: Arc<AtomicUsize>,
    direct: mpsc::Sender<ClientFrame>,
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
        dialect: Records::new("first".to_owned(), Snapshot::Full, Seq::ZERO, Thinning::default()),
        cursor: feed.cursor(Seq::ZERO).unwrap(),
        direct: receive_direct,
        inbox: Lines(send_lines),
        early: Vec::new(),
        role: Role::Operator,
    };
    let running = run(
        socket,
        client,
        limits,
        Until {
            shutdown: shutdown.clone(),
            tenure: Tenure::default(),
        },
    );
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

/// The cursor to come back with counts the frames that the client has, not those that waited for the socket and are
/// forgotten.
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
        serde_json::json!({"type": "trunkline.shutdown", "reconnect_after_ms": 2_000})
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
    let request_id = "r".to_owned();
    bed.direct
        .send(ClientFrame::Answered { request_id })
        .await
        .unwrap();
    drop(bed.direct);
    assert_eq!(soon(running).await, "client too slow");
    assert_eq!(bed.taken.try_recv().unwrap(), Message::text("first"));
    let answer = bed.taken.try_recv().unwrap();
    assert!(answer.to_text().unwrap().contains("trunkline.ack"), "{answer:?}");
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
