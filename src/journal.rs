//! Owns the journal of a session: one folder of append-only NDJSON segments, one writer, any number of readers.
//!
//! A record is one line, `{"seq":42,"ts":"…","src":"cli","data":…}`, with `"by":"…"` before `data` when it is set. `seq`
//! starts at 1 and has no gap. A segment is named by the `seq` of its first record. There is no index file: a position is
//! found by bisection over the records themselves.

mod backwards;
mod beside;
mod chunk;
mod cursor;
mod feed;
mod history;
mod position;
mod reader;
mod record;
mod salvage;
mod segment;
mod storage;
mod stub;
mod writer;

#[cfg(test)]
mod tests;

pub use beside::{read_beside, replace_beside};
pub use chunk::{Chunk, Missing, Records};
pub use cursor::Cursor;
pub use feed::Feed;
pub use history::{encode_history, is_history, unfold};
pub use position::{Head, Position};
pub use reader::{ReadError, Reader};
pub use record::{RecordRef, Source};
pub use storage::free_bytes;
pub use writer::{CommitError, OpenError, PushError, Recovery, Writer, WriterOptions, is_locked, lock_file};
