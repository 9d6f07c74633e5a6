//! Owns how long a connection may stay without doing anything, and how many may that have shown no token.
//!
//! A connection waits for a head, is at work on a request, or is idle between two. Only the first and the last have a
//! deadline: streams, sockets and waits are work for as long as they last. A request body has one of its own.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use bytes::Buf as _;
use hyper::{
    body::{Frame, SizeHint},
    rt::ReadBufCursor,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::{Instant, Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

use super::refusal;

/// How long a client that sends no more waits for its answer. One that has left looks the same.
const AFTER_END: Duration = Duration::from_secs(1);
/// The size of one read.
const PIECE_BYTES: usize = 16 << 10;

/// The doing of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The head of a request is to come, since then.
    Head(Instant),
    /// A request is under way, or its answer is.
    Work,
    /// Nothing has come since an answer ended.
    Idle(Instant),
}

/// One connection, from its accept on.
#[derive(Debug)]
pub(in crate::http) struct Visit {
    number: u64,
    phase: watch::Sender<Phase>,
    /// Cancelled when another connection needs the place.
    evicted: CancellationToken,
    strangers: Option<Strangers>,
    /// Bytes that may still be read.
    readable: AtomicUsize,
}

impl Visit {
    /// Its doing, and each change of it.
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(in crate::http) const fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }

    /// From here on no more than this is read, until it has shown the token.
    pub(in crate::http) fn bound(&self, bytes: usize) {
        self.readable.store(bytes, Ordering::Relaxed);
    }

    /// It has shown the token.
    pub(in crate::http) fn shown(&self) {
        self.readable.store(usize::MAX, Ordering::Relaxed);
        if let Some(strangers) = &self.strangers {
            strangers.known().remove(&self.number);
        }
    }

    /// A request begins; it is over when what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.phase.send_replace(Phase::Work);
        UnderWay(Arc::clone(self))
    }

    fn is_at_work(&self) -> bool {
        *self.phase.borrow() == Phase::Work
    }

    /// Bytes came.
    fn came(&self) {
        self.phase.send_if_modified(|phase| {
            let is_idle = matches!(phase, Phase::Idle(_));
            if is_idle {
                *phase = Phase::Head(Instant::now());
            }
            is_idle
        });
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.shown();
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Visit>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Idle(Instant::now()));
    }
}

/// The connections that have shown no token. Cloning gives another handle on the same.
#[derive(Clone, Debug)]
pub(in crate::http) struct Strangers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    next: AtomicU64,
    /// By number, and so the oldest first. Held for a few instructions, never across an await.
    known: Mutex<BTreeMap<u64, Place>>,
}

#[derive(Debug)]
struct Place {
    phase: watch::Receiver<Phase>,
    evicted: CancellationToken,
}

impl Strangers {
    pub(in crate::http) fn new(most: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            next: AtomicU64::new(0),
            known: Mutex::default(),
        }))
    }

    /// A connection that needs to show no token.
    pub(super) fn trusted() -> Arc<Visit> {
        Arc::new(Visit {
            number: 0,
            phase: watch::Sender::new(Phase::Head(Instant::now())),
            evicted: CancellationToken::new(),
            strangers: None,
            readable: AtomicUsize::new(usize::MAX),
        })
    }

    /// A connection begins. When there are too many, the one that has waited longest goes; `None` when all are at work.
    pub(super) fn welcome(&self) -> Option<Arc<Visit>> {
        let mut known = self.known();
        if known.len() >= self.0.most {
            let mut places = known.iter();
            let (&oldest, _) = places.find(|(_, place)| *place.phase.borrow() != Phase::Work)?;
            if let Some(place) = known.remove(&oldest) {
                place.evicted.cancel();
            }
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let phase = watch::Sender::new(Phase::Head(Instant::now()));
        let evicted = CancellationToken::new();
        let place = Place {
            phase: phase.subscribe(),
            evicted: evicted.clone(),
        };
        known.insert(number, place);
        drop(known);
        Some(Arc::new(Visit {
            number,
            phase,
            evicted,
            strangers: Some(self.clone()),
            readable: AtomicUsize::new(usize::MAX),
        }))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // The map is whole at every instruction that can panic.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose first bytes after an answer are noticed, and whose client may say that it sends no more.
#[derive(Debug)]
pub(super) struct Watched<Io> {
    io: Io,
    visit: Arc<Visit>,
    /// Set when the client sends no more: the time for the answer to its last request.
    sent_all: Option<Pin<Box<Sleep>>>,
    /// The rest of the answer to what is no request.
    refusal: Option<Bytes>,
}

impl<Io> Watched<Io> {
    pub(super) fn new(io: Io, visit: Arc<Visit>) -> Self {
        Self {
            io,
            visit,
            sent_all: None,
            refusal: None,
        }
    }

    /// The end of what the client sends, which may be its leave: it is told once the answer has had its time.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let sent_all = self.sent_all.get_or_insert_with(|| Box::pin(sleep(AFTER_END)));
        if self.visit.is_at_work() {
            ready!(sent_all.as_mut().poll(cx));
        }
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncRead + Unpin> hyper::rt::Read for Watched<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.sent_all.is_some() {
            return self.poll_end(cx);
        }
        // The cursor's own room cannot be lent without unsafe code.
        let mut piece = [0; PIECE_BYTES];
        let readable = self.visit.readable.load(Ordering::Relaxed);
        if readable == 0 {
            return Poll::Ready(Err(std::io::ErrorKind::QuotaExceeded.into()));
        }
        let room = piece.len().min(buf.remaining()).min(readable);
        let mut piece = ReadBuf::new(piece.get_mut(..room).unwrap_or_default());
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut piece))?;
        if !piece.filled().is_empty() {
            self.visit.came();
            if readable != usize::MAX {
                // Only this connection reads, and it has not shown the token meanwhile.
                self.visit.bound(readable - piece.filled().len());
            }
            buf.put_slice(piece.filled());
        } else if room > 0 {
            return self.poll_end(cx);
        }
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncWrite + Unpin> hyper::rt::Write for Watched<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let this = &mut *self;
        if this.refusal.is_none() {
            this.refusal = refusal::in_place_of(bytes);
        }
        let Some(refusal) = &mut this.refusal else {
            return Pin::new(&mut this.io).poll_write(cx, bytes);
        };
        while !refusal.is_empty() {
            match ready!(Pin::new(&mut this.io).poll_write(cx, refusal))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                written => refusal.advance(written),
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        if let [one] = pieces {
            return self.poll_write(cx, one);
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// No more of a request body came.
#[derive(Debug, thiserror::Error)]
#[error("no more of the body came in time")]
struct Stalled;

/// A request body that fails when nothing of it comes for a while.
pub(super) struct Arriving {
    body: Body,
    patience: Duration,
    silence: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(super) const fn new(body: Body, patience: Duration) -> Self {
        Self {
            body,
            patience,
            silence: None,
        }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.silence = None;
            return Poll::Ready(frame);
        }
        let patience = this.patience;
        let silence = this.silence.get_or_insert_with(|| Box::pin(sleep(patience)));
        silence
            .as_mut()
            .poll(cx)
            .map(|()| Some(Err(axum::Error::new(Stalled))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, which keeps its request under way.
pub(super) struct Leaving {
    body: Body,
    _under_way: UnderWay,
}

impl Leaving {
    pub(super) const fn new(body: Body, under_way: UnderWay) -> Self {
        Self {
            body,
            _under_way: under_way,
        }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_without_a_token_makes_room() {
        let strangers = Strangers::new(3);
        let welcome = || strangers.welcome().unwrap();
        let (at_work, known, silent, newest) = (welcome(), welcome(), welcome(), ());
        let request = at_work.begin();
        known.shown();
        let (third, fourth) = (welcome(), welcome());
        assert!(silent.evicted().is_cancelled());
        assert!(!at_work.evicted().is_cancelled() && !known.evicted().is_cancelled());
        let [_third, _fourth] = [third.begin(), fourth.begin()];
        assert!(strangers.welcome().is_none(), "all are at work");
        drop(request);
        welcome();
        assert!(at_work.evicted().is_cancelled());
        newest
    }

    #[test]
    fn a_connection_that_ends_gives_its_place_back() {
        let strangers = Strangers::new(1);
        for _ in 0..3 {
            let visit = strangers.welcome().unwrap();
            let _request = visit.begin();
        }
        assert!(strangers.known().is_empty());
    }
}
