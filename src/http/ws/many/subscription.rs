//! Owns one session on a socket of many: its place in the journal, and how much of it the client takes just now.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use axum::extract::ws::Message;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::super::{
    client::MAX_ANSWERS,
    close::Close,
    frames::{self, Snapshot},
};
use crate::{
    domain::SessionId,
    http::{
        connections::ConnectionPermit,
        stream,
        thin::{Piece, Thin},
    },
    journal::{Chunk, Cursor, ReadError},
    session::ClientFrame,
};

/// Most bytes of records that are taken at once: then it is another session's turn.
const BATCH_BYTES: usize = 32 * 1024;

/// How many bytes of records a client takes of a session before it says more.
#[derive(Debug)]
pub(super) struct Credit {
    /// `None` for a client that takes all that comes.
    left: Option<AtomicI64>,
    granted: Notify,
}

impl Credit {
    pub(super) fn new(bytes: Option<u32>) -> Self {
        Self {
            left: bytes.map(|bytes| AtomicI64::new(bytes.into())),
            granted: Notify::new(),
        }
    }

    /// The client takes so many bytes more.
    pub(super) fn grant(&self, bytes: u32) {
        if let Some(left) = &self.left {
            left.fetch_add(bytes.into(), Ordering::AcqRel);
            self.granted.notify_one();
        }
    }

    fn spend(&self, bytes: usize) {
        if let Some(left) = &self.left {
            left.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::AcqRel);
        }
    }

    fn is_spent(&self) -> bool {
        let left = self.left.as_ref();
        left.is_some_and(|left| left.load(Ordering::Acquire) <= 0)
    }

    /// Waits until the client takes something.
    ///
    /// CANCEL-SAFETY: nothing is taken.
    async fn some(&self) {
        while self.is_spent() {
            self.granted.notified().await;
        }
    }
}

/// One session on the socket.
pub(super) struct Subscription {
    pub(super) id: SessionId,
    pub(super) cursor: Cursor,
    /// How much of the session the client wants to be told beside the records.
    pub(super) snapshot: Snapshot,
    /// For a client that does not get every record as it is.
    pub(super) thin: Option<Thin>,
    /// News for this client alone; `None` once there are no more.
    pub(super) direct: Option<mpsc::Receiver<ClientFrame>>,
    pub(super) credit: Arc<Credit>,
    /// The client wants no more of it.
    pub(super) left: CancellationToken,
    pub(super) shutdown: CancellationToken,
    /// Gives the place back.
    pub(super) _permit: ConnectionPermit,
}

/// The part that was taken of the journal.
enum Given {
    Chunk(Chunk),
    Pieces(Vec<Piece>),
}

/// The next part of a session's news.
#[derive(Debug)]
pub(super) enum Part {
    /// Frames with the session's id.
    Frames(Vec<Message>),
    /// The client left it. It is the last part.
    Left,
    /// Nothing more comes, for this reason. It is the last part.
    Over(Close),
}

impl Subscription {
    /// The next part.
    pub(super) async fn next(&mut self) -> Part {
        let mut news = Vec::new();
        loop {
            let Self {
                direct,
                credit,
                cursor,
                thin,
                left,
                ..
            } = &mut *self;
            if direct.is_none() && credit.is_spent() {
                // The session is gone, and the client takes no more of it.
                return Part::Over(Close::Deleted);
            }
            let direct = async {
                match direct {
                    Some(direct) => direct.recv_many(&mut news, MAX_ANSWERS).await,
                    None => std::future::pending().await,
                }
            };
            let records = async {
                credit.some().await;
                match thin {
                    Some(thin) => thin
                        .next(cursor, BATCH_BYTES, None)
                        .await
                        .map(|it| it.map(Given::Pieces)),
                    None => cursor.next(BATCH_BYTES).await.map(|it| it.map(Given::Chunk)),
                }
            };
            // Each branch receives, or keeps what it took: all are cancel-safe.
            let count = tokio::select! {
                () = left.cancelled() => return Part::Left,
                count = direct => count,
                given = records => return self.on_records(given),
            };
            if count > 0 {
                let frames = news
                    .drain(..)
                    .filter(|frame| self.snapshot.has(frame))
                    .map(|frame| tagged(self.id, &frames::direct(frame)));
                return Part::Frames(frames.collect());
            }
            if !self.cursor.is_closed() && !self.shutdown.is_cancelled() {
                // The client did not take its answers.
                return Part::Over(Close::Slow);
            }
            // A session that was deleted gives what it has before the end.
            self.direct = None;
        }
    }

    fn on_records(&self, given: Result<Option<Given>, ReadError>) -> Part {
        match given {
            Ok(Some(Given::Pieces(pieces))) => {
                self.credit.spend(pieces.iter().map(Piece::len).sum());
                let frames = pieces.iter().filter_map(|piece| match piece {
                    Piece::Record(_, line) => Some(tagged(self.id, str::from_utf8(line).ok()?)),
                    piece => Some(tagged(self.id, &piece.own_text()?)),
                });
                Part::Frames(frames.collect())
            }
            Ok(Some(Given::Chunk(chunk))) => {
                self.credit.spend(chunk.bytes.len());
                let gap = chunk
                    .missing
                    .map(|missing| tagged(self.id, &stream::gap(missing)));
                let lines = chunk
                    .records()
                    .filter_map(|record| str::from_utf8(record.line).ok());
                let records = lines.map(|line| tagged(self.id, line));
                Part::Frames(gap.into_iter().chain(records).collect())
            }
            Err(error) if !self.cursor.is_closed() => {
                tracing::error!(session.id = %self.id, error = &error as &dyn std::error::Error, "a client's records cannot be read");
                Part::Over(Close::Journal)
            }
            Ok(None) | Err(_) if self.shutdown.is_cancelled() => Part::Over(Close::Shutdown),
            // The files of a deleted session go while a client that is behind reads them.
            Ok(None) | Err(_) => Part::Over(Close::Deleted),
        }
    }
}

/// A frame of a session, with the session's id before all else. The rest stays byte for byte.
pub(super) fn tagged_text(id: SessionId, frame: &str) -> String {
    let rest = frame.trim_start().strip_prefix('{').unwrap_or_default();
    format!(r#"{{"session_id":"{id}",{rest}"#)
}

fn tagged(id: SessionId, frame: &str) -> Message {
    Message::Text(tagged_text(id, frame).into())
}
