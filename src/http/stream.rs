//! Owns live streams over plain HTTP: lines and server-sent events. A slow client slows down its own stream and nothing else.

use std::{future::Future, io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream::unfold;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    ApiError, AppState, ErrorCode, closing,
    connections::ConnectionPermit,
    thin::{Piece, Thin, Thinning},
};
use crate::{
    auth::Tenure,
    domain::{Seq, SessionId, Timestamp},
    journal::{Chunk, Cursor, Missing},
};

/// The header in which a browser names the last event that it saw when it comes back to an event stream.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Most bytes of records that are taken from the cursor at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// How often an event stream shows that it is alive. Proxies cut what is silent for 30 seconds.
const BEAT: Duration = Duration::from_secs(15);
/// The first bytes of an event stream: how long a browser waits before it comes back.
const PREAMBLE: &[u8] = b"retry: 2000\n\n";
/// The last event of a stream whose login has ended.
const LOGIN_ENDED: &[u8] = b"event: login_ended\ndata: {\"type\":\"trunkline.login_ended\"}\n\n";
/// A comment that clients ignore.
const BEAT_COMMENT: &[u8] = b": beat\n\n";

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// As they are in the journal.
    Lines,
    /// As server-sent events with the number as id.
    EventStream,
}

impl Format {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson",
            Self::EventStream => "text/event-stream",
        }
    }

    fn encode(self, chunk: &Chunk) -> Bytes {
        match self {
            Self::Lines => lines(chunk),
            Self::EventStream => events(chunk),
        }
    }

    fn pieces(self, pieces: &[Piece]) -> Bytes {
        let mut out = Vec::new();
        for piece in pieces {
            let text = piece.own_text();
            let data = match (piece, &text) {
                (Piece::Record(_, line), _) => line.as_ref(),
                (_, Some(text)) => text.as_bytes(),
                (_, None) => continue,
            };
            if self == Self::Lines {
                out.extend_from_slice(data);
                out.push(b'\n');
                continue;
            }
            let (name, seq) = match piece {
                Piece::Record(seq, _) => (None, *seq),
                Piece::Gap(missing) => (Some("gap"), missing.last_seq),
                Piece::Coalesced(seq, _) => (Some("coalesced"), *seq),
                Piece::Cursor(seq) => (Some("cursor"), *seq),
            };
            event(name, seq, data, &mut out);
        }
        out.into()
    }
}

/// An event with a number and, for what is no record, a name.
fn event(name: Option<&str>, id: Seq, data: &[u8], out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    out.extend_from_slice(format!("id: {id}\ndata: ").as_bytes());
    out.extend(data.iter().map(|byte| if *byte == b'\r' { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
}

/// The record that stands in for missing ones, for a client that can take records.
pub(super) fn gap(missing: Missing) -> String {
    let Missing {
        first_seq,
        last_seq,
        reason,
    } = missing;
    let reason = reason.as_str();
    format!(r#"{{"type":"trunkline.gap","first_seq":{first_seq},"last_seq":{last_seq},"reason":"{reason}"}}"#)
}

/// The records of a chunk as they are, after a line that names those that are missing before them.
pub(super) fn lines(chunk: &Chunk) -> Bytes {
    match chunk.missing {
        None => chunk.bytes.clone(),
        Some(missing) => {
            let mut out = gap(missing).into_bytes();
            out.push(b'\n');
            out.extend_from_slice(&chunk.bytes);
            out.into()
        }
    }
}

/// One event per record. Outside of strings JSON allows a carriage return, which would end the event's line.
fn events(chunk: &Chunk) -> Bytes {
    let mut out = Vec::with_capacity(chunk.bytes.len() + chunk.bytes.len() / 4);
    if let Some(missing) = chunk.missing {
        event(Some("gap"), missing.last_seq, gap(missing).as_bytes(), &mut out);
    }
    for record in chunk.records() {
        event(None, record.seq, record.line, &mut out);
    }
    out.into()
}

/// Where a client says that it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begin {
    /// After this record.
    pub(super) after: Option<u64>,
    /// The time of that record, as the client got it.
    pub(super) after_ts: Option<Timestamp>,
    /// Before the newest so many records.
    pub(super) tail: Option<u64>,
}

/// The record after which a client begins: that which it names, or the one before the newest `tail`.
///
/// # Errors
/// `InvalidQuery` for both, `HistoryDiffers`; those of the session.
pub(super) async fn begin(state: &AppState, id: SessionId, place: Begin) -> Result<Option<Seq>, ApiError> {
    let Begin {
        after,
        after_ts,
        tail,
    } = place;
    if let Some(known) = after_ts {
        let Some(after) = after.filter(|after| *after > 0) else {
            return Err(
                ApiError::new(ErrorCode::InvalidQuery).detail("after_ts is the time of the record after")
            );
        };
        check_history(state, id, Seq::new(after), known).await?;
    }
    let Some(tail) = tail else {
        return Ok(after.map(Seq::new));
    };
    if after.is_some() {
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail("tail and after go not together"));
    }
    // The cursor opens the session: what it says afterwards is what its journal says.
    let _opened = state.supervisor().cursor_over(id, Seq::ZERO).await?;
    let head = state.supervisor().session(id).await?.live.head_seq;
    Ok(Some(Seq::new(head.get().saturating_sub(tail))))
}

/// Refuses a client whose record of this number is another one: it has followed a copy of this journal, or the original of it. A
/// record that is no longer kept proves nothing.
async fn check_history(state: &AppState, id: SessionId, seq: Seq, known: Timestamp) -> Result<(), ApiError> {
    let before = Seq::new(seq.get() - 1);
    let Some(chunk) = state.supervisor().page(id, before, 1).await? else {
        return Ok(());
    };
    let own = chunk.records().next().filter(|record| record.seq == seq);
    match own {
        Some(own) if own.at != known => Err(ErrorCode::HistoryDiffers.into()),
        Some(_) | None => Ok(()),
    }
}

/// A response that streams the records after `after`: to the head, or on and on when `follow` is set.
pub(super) async fn open(
    state: &AppState,
    id: SessionId,
    after: Seq,
    format: Format,
    follow: bool,
    thinning: Thinning,
    tenure: Tenure,
) -> Result<Response, ApiError> {
    let permit = state.connections().admit(id)?;
    let cursor = match format {
        Format::Lines => state.supervisor().cursor(id, after).await?,
        // A browser does not come back to a stream that was refused once.
        Format::EventStream => state.supervisor().cursor_over(id, after).await?,
    };
    // Asked last: the cursor opened the session, so this is what its journal says.
    let head = state.supervisor().session(id).await?.live.head_seq;
    let records = Records {
        cursor,
        thin: Thin::new(thinning),
        until: (!follow).then_some(head),
        format,
    };
    Ok(respond(state, records, format, permit, tenure))
}

/// Where a stream comes from.
pub(super) trait Source: Send + 'static {
    /// The next part; `None` at the end.
    ///
    /// CANCEL-SAFETY: nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<io::Result<Bytes>>> + Send;
}

/// A response that streams a source until it or the daemon ends.
pub(super) fn respond<S: Source>(
    state: &AppState,
    source: S,
    format: Format,
    permit: ConnectionPermit,
    tenure: Tenure,
) -> Response {
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    let stream = Stream {
        source,
        format,
        preamble: format == Format::EventStream,
        beat,
        shutdown: state.shutdown().clone(),
        reconnect_after_ms: state.config().reconnect_after_ms,
        tenure,
        ended: false,
        _permit: permit,
    };
    let body = Body::from_stream(unfold(stream, |mut stream| async move {
        stream.next().await.map(|part| (part, stream))
    }));
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(format.content_type()),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, body).into_response()
}

struct Records {
    cursor: Cursor,
    /// For a client that does not get every record as it is.
    thin: Option<Thin>,
    /// The last record of a stream that does not follow.
    until: Option<Seq>,
    format: Format,
}

impl Source for Records {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.thin.is_none() && self.until.is_some_and(|until| self.cursor.position() >= until) {
            return None;
        }
        let taken = match &mut self.thin {
            Some(thin) => {
                let pieces = thin.next(&mut self.cursor, CHUNK_BYTES, self.until).await;
                pieces.map(|pieces| pieces.map(|pieces| self.format.pieces(&pieces)))
            }
            None => {
                let chunk = self.cursor.next(CHUNK_BYTES).await;
                chunk.map(|chunk| chunk.map(|chunk| self.format.encode(&chunk)))
            }
        };
        match taken {
            Ok(part) => part.map(Ok),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a record stream ended early"
                );
                Some(Err(io::Error::other("the journal cannot be read")))
            }
        }
    }
}

struct Stream<S> {
    source: S,
    format: Format,
    /// Whether the first bytes are still to be sent.
    preamble: bool,
    beat: Interval,
    shutdown: CancellationToken,
    reconnect_after_ms: u64,
    tenure: Tenure,
    /// Whether the last event was sent.
    ended: bool,
    /// Gives the place back when the client is gone.
    _permit: ConnectionPermit,
}

impl<S: Source> Stream<S> {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if std::mem::take(&mut self.preamble) {
            return Some(Ok(Bytes::from_static(PREAMBLE)));
        }
        if self.ended {
            return None;
        }
        // Every branch is cancel-safe.
        tokio::select! {
            () = self.shutdown.cancelled() => {
                self.ended = true;
                (self.format == Format::EventStream).then(|| Ok(closing::event(self.reconnect_after_ms)))
            }
            () = self.tenure.over() => {
                self.ended = true;
                (self.format == Format::EventStream).then(|| Ok(Bytes::from_static(LOGIN_ENDED)))
            }
            part = self.source.next() => part,
            _ = self.beat.tick(), if self.format == Format::EventStream => Some(Ok(Bytes::from_static(BEAT_COMMENT))),
        }
    }
}
