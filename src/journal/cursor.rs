//! Owns a client's place in a journal: it joins the files and the live ring with no gap and no double.

use std::sync::Arc;

use tokio::{sync::watch, task};

use super::{
    chunk::Chunk,
    feed::{Live, Shared},
    position::{Head, Position},
    reader::ReadError,
};
use crate::domain::Seq;

/// A place in a journal. It holds no records, so a slow one costs nothing.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    live: watch::Receiver<Live>,
    /// The last record that was given.
    seq: Seq,
    /// Where the next one begins; found when a file must be read for the first time.
    place: Option<Position>,
}

impl Cursor {
    pub(super) const fn new(
        shared: Arc<Shared>,
        live: watch::Receiver<Live>,
        seq: Seq,
        place: Option<Position>,
    ) -> Self {
        Self {
            shared,
            live,
            seq,
            place,
        }
    }

    /// The last record that was given, or the one that the cursor was made after.
    pub const fn position(&self) -> Seq {
        self.seq
    }

    /// The next records: as many as `max_bytes` hold, but at least one. Where the journal was damaged the chunk says which
    /// are missing, and it may hold none. It waits while there is none, and gives `None` when
    /// the feed is closed and everything was given.
    ///
    /// CANCEL-SAFETY: a record counts as given only when this returns it.
    pub async fn next(&mut self, max_bytes: usize) -> Result<Option<Chunk>, ReadError> {
        loop {
            // The head is marked as seen before it is compared, so a later one wakes the wait below.
            let Live { head, closed } = *self.live.borrow_and_update();
            if self.seq < head.seq {
                let chunk = self.fetch(head, max_bytes).await?;
                if chunk.is_empty() || chunk.start() != self.seq.next() {
                    return Err(ReadError::Gap {
                        expected: self.seq.next(),
                        found: chunk.start(),
                    });
                }
                self.seq = chunk.last;
                self.place = Some(chunk.end);
                return Ok(Some(chunk));
            }
            if closed {
                return Ok(None);
            }
            if self.live.changed().await.is_err() && self.seq >= self.live.borrow().head.seq {
                return Ok(None);
            }
        }
    }

    /// Whether no record will follow those that are there.
    pub fn is_closed(&self) -> bool {
        self.live.borrow().closed
    }

    /// Reads from the ring, else from the files.
    async fn fetch(&self, head: Head, max_bytes: usize) -> Result<Chunk, ReadError> {
        if let Some(chunk) = self.shared.chunk_with(self.seq.next()) {
            return Ok(chunk.after(self.seq).up_to(max_bytes));
        }
        // A place that the ring no longer holds may be cold on disk, and finding it takes several reads: not on this
        // thread.
        let shared = Arc::clone(&self.shared);
        let (seq, place) = (self.seq, self.place);
        let read = task::spawn_blocking(move || {
            let place = match place {
                Some(place) => place,
                None => shared.reader.place_after(seq)?,
            };
            shared.reader.read_after(seq, place, head, max_bytes)
        });
        match read.await {
            // The records went while the client was reading: it is told so, and goes on with the oldest one that is kept.
            Ok(Err(ReadError::Compacted { oldest })) if self.seq.next() < oldest && oldest <= head.seq => {
                let reader = &self.shared.reader;
                let place = Position {
                    segment: oldest,
                    offset: 0,
                };
                Ok(Chunk::lost(reader.not_kept(self.seq.next(), oldest), place))
            }
            Ok(read) => read,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(error) => Err(ReadError::Io {
                path: self.shared.reader.dir().to_owned(),
                source: error.into(),
            }),
        }
    }
}
