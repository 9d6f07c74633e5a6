//! Owns how `trunkline.v1` is spoken: a snapshot, then each record as it is in the journal, and frames of our own between them.

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use memchr::memchr_iter;

use super::{
    close::Close,
    dialect::{BATCH_BYTES, Dialect, Next, Received},
    frames::{self, OwnFrame, Snapshot},
};
use crate::{
    domain::Seq,
    http::{
        ApiError, ErrorCode, closing, stream,
        thin::{Piece, Thin, Thinning},
    },
    journal::{Chunk, Cursor},
    session::ClientFrame,
};

/// The sub-protocol, and the one of a client that names none.
pub(super) const PROTOCOL: &str = "trunkline.v1";

/// One client that speaks it.
#[derive(Debug)]
pub(super) struct Records {
    first: Option<String>,
    /// How much the client wants to be told beside the records.
    snapshot: Snapshot,
    /// For a client that does not get every record as it is.
    thin: Option<Thin>,
    /// The last record when the client was attached.
    head: Seq,
}

impl Records {
    /// A client whose first frame is of the moment at which the last record was this one.
    pub(super) fn new(first: String, snapshot: Snapshot, head: Seq, thinning: Thinning) -> Self {
        Self {
            first: Some(first),
            snapshot,
            thin: Thin::new(thinning),
            head,
        }
    }
}

impl Dialect for Records {
    fn first(&mut self) -> Option<String> {
        self.first.take()
    }

    async fn next(&mut self, cursor: &mut Cursor) -> Next {
        if let Some(thin) = &mut self.thin {
            return match thin.next(cursor, BATCH_BYTES, None).await {
                Ok(Some(pieces)) => Next::Frames(pieces.into_iter().filter_map(message).collect()),
                Ok(None) => Next::End,
                Err(error) => Next::Failed(error),
            };
        }
        let chunk = match cursor.next(BATCH_BYTES).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Next::End,
            Err(error) => return Next::Failed(error),
        };
        let gap = chunk
            .missing
            .map(|missing| Message::Text(stream::gap(missing).into()));
        Next::Frames(gap.into_iter().chain(records(&chunk)).collect())
    }

    fn received(&mut self, text: Utf8Bytes, head: Seq) -> Result<Received, Close> {
        let mut received = Received::default();
        for line in frames::lines(text) {
            match frames::own_frame(&line) {
                Some(frame) => received.answers.push(answer(frame, self.head.max(head))),
                None => received.lines.push(line),
            }
        }
        Ok(received)
    }

    fn forbidden(&mut self, line: &[u8]) -> Result<Option<String>, Close> {
        Ok(frames::forbidden(line))
    }

    fn direct(&mut self, frame: ClientFrame) -> Result<Option<String>, Close> {
        Ok(self.snapshot.has(&frame).then(|| frames::direct(frame)))
    }

    fn undelivered(&mut self, reason: &str) -> Result<Option<String>, Close> {
        Ok(Some(frames::error(
            &ApiError::new(ErrorCode::SessionEnded).detail(reason),
        )))
    }

    fn shutdown(&self, reconnect_after_ms: u64) -> (Option<String>, Close) {
        (Some(closing::frame(reconnect_after_ms)), Close::Shutdown)
    }

    fn counts(&self) -> bool {
        true
    }

    fn reached(&self, position: Seq) -> Seq {
        self.thin.as_ref().map_or(position, |thin| thin.reached(position))
    }
}

/// The frame of a piece.
fn message(piece: Piece) -> Option<Message> {
    let text = match piece {
        Piece::Record(_, line) => return Utf8Bytes::try_from(line).ok().map(Message::Text),
        piece => piece.own_text()?.into_owned(),
    };
    Some(Message::Text(text.into()))
}

/// One text frame per record, sharing the chunk's bytes.
fn records(chunk: &Chunk) -> impl Iterator<Item = Message> {
    let bytes: Bytes = chunk.bytes.clone();
    let mut start = 0;
    let ends: Vec<usize> = memchr_iter(b'\n', &bytes).collect();
    ends.into_iter().filter_map(move |end| {
        let line = bytes.slice(start..end);
        start = end + 1;
        Utf8Bytes::try_from(line).ok().map(Message::Text)
    })
}

fn answer(frame: OwnFrame, head: Seq) -> String {
    match frame {
        OwnFrame::Ping { id } => frames::pong(id.as_deref(), head),
        OwnFrame::Unknown { kind } => {
            let unknown = ApiError::new(ErrorCode::UnknownFrame);
            frames::error(&unknown.detail(format!("the daemon knows no frame of the type {kind}")))
        }
    }
}
