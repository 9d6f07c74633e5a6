//! Owns the live end of a journal in the daemon: the newest records, shared by all cursors, in a ring bounded in bytes.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::{
    chunk::Chunk,
    cursor::Cursor,
    position::Head,
    reader::{ReadError, Reader},
};
use crate::domain::Seq;

/// The size that a chunk in the ring counts beyond its bytes, so that many small ones are bounded too.
const CHUNK_OVERHEAD_BYTES: usize = 128;

/// The live end of one session's journal. A clone is a handle to the same one. A feed whose every handle is dropped is closed.
#[derive(Clone, Debug)]
pub struct Feed {
    shared: Arc<Shared>,
    live: Arc<watch::Sender<Live>>,
}

/// The state that a cursor waits on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) head: Head,
    pub(super) closed: bool,
}

/// The parts that a cursor reads from.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) reader: Reader,
    ring_bytes: usize,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// INVARIANT: the number of the last record rises from chunk to chunk.
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

impl Feed {
    /// The feed of the journal in `dir`, read up to `head`. The ring keeps at most `ring_bytes`. No file is touched.
    pub fn new(dir: &Path, head: Head, ring_bytes: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                reader: Reader::new(dir),
                ring_bytes,
                ring: Mutex::default(),
            }),
            live: Arc::new(watch::Sender::new(Live { head, closed: false })),
        }
    }

    /// Adds what the one tailing task read next, and wakes the cursors.
    ///
    /// A chunk with nothing after the head is passed over. After a jump ahead the cursors read what lies between from the files.
    pub fn publish(&self, chunk: Chunk) {
        let head = self.head();
        if chunk.is_empty() || chunk.last <= head.seq {
            return;
        }
        let head = Head {
            seq: chunk.last,
            segment: chunk.end.segment,
            offset: chunk.end.offset,
        };
        self.shared.add(chunk);
        self.live.send_modify(|live| live.head = head);
    }

    /// The place after the last published record.
    pub fn head(&self) -> Head {
        self.live.borrow().head
    }

    /// An older record: who wrote it, and its data. It reads the files.
    pub fn record(&self, seq: Seq) -> Result<(Option<String>, Vec<u8>), ReadError> {
        self.shared.reader.record(seq, self.head())
    }

    /// A cursor that gives the records after `after`, which is at most the head. Records that are no longer kept are refused.
    pub fn cursor(&self, after: Seq) -> Result<Cursor, ReadError> {
        let head = self.head();
        if after < head.seq && !self.shared.holds(after.next()) {
            let oldest = self.shared.reader.oldest()?;
            if after.next() < oldest {
                return Err(ReadError::Compacted { oldest });
            }
        }
        self.cursor_over(after)
    }

    /// As [`Self::cursor`], and records that are no longer kept are named in their place.
    pub fn cursor_over(&self, after: Seq) -> Result<Cursor, ReadError> {
        let live = self.live.subscribe();
        let head = live.borrow().head;
        if after > head.seq {
            return Err(ReadError::Beyond { head });
        }
        let place = (after == head.seq).then_some(head.position());
        Ok(Cursor::new(Arc::clone(&self.shared), live, after, place))
    }

    /// No record will follow: cursors end when they have read what there is.
    pub fn close(&self) {
        self.live.send_modify(|live| live.closed = true);
    }

    /// The size that the ring counts as held.
    #[cfg(test)]
    pub(super) fn ring_cost(&self) -> usize {
        self.shared.ring().bytes
    }
}

impl Shared {
    /// The chunk of the ring that holds `seq`.
    pub(super) fn chunk_with(&self, seq: Seq) -> Option<Chunk> {
        let ring = self.ring();
        let index = ring.chunks.partition_point(|chunk| chunk.last < seq);
        ring.chunks
            .get(index)
            .filter(|chunk| chunk.start() <= seq)
            .cloned()
    }

    fn holds(&self, seq: Seq) -> bool {
        self.chunk_with(seq).is_some()
    }

    fn add(&self, chunk: Chunk) {
        let mut ring = self.ring();
        ring.bytes += cost(&chunk);
        ring.chunks.push_back(chunk);
        while ring.bytes > self.ring_bytes
            && let Some(oldest) = ring.chunks.pop_front()
        {
            ring.bytes -= cost(&oldest);
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(chunk: &Chunk) -> usize {
    chunk.bytes.len() + CHUNK_OVERHEAD_BYTES
}
