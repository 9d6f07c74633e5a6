//! Owns the journal of a session: one folder of append-only NDJSON segments, one writer, any number of readers.
//!
//! A record is one line, `{"seq":42,"ts":"…","src":"cli","data":…}`, with `"by":"…"` before `data` when it is set. `seq`
//! starts at 1 and has no gap. A segment is named by the `seq` of its first record. There is no index file: a position is
//! found by bisection over the records themselves. A sealed segment may be compacted: a line that is no record stands in the place
//! of each range that was taken out, and the first and the last record stay.

mod backwards;
mod beside;
mod chunk;
mod compaction;
mod cursor;
mod feed;
mod history;
mod lock;
mod position;
mod reader;
mod record;
mod removed;
mod salvage;
mod segment;
mod storage;
mod stub;
mod writer;

#[cfg(test)]
mod tests;

pub use beside::{read_beside, replace_beside};
pub use chunk::{Chunk, Missing, MissingReason, Records};
pub use compaction::{Compacted, Compactor, Sealed};
pub use cursor::Cursor;
pub use feed::Feed;
pub use history::{encode_history, is_history, unfold};
pub use lock::{FolderLock, is_locked, lock_file};
pub use position::{Head, Position};
pub use reader::{ReadError, Reader};
pub use record::{RecordRef, Source};
pub use storage::free_bytes;
pub use writer::{CommitError, OpenError, PushError, Recovery, Writer, WriterOptions};
