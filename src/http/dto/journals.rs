//! Owns how the outcome of a look at journals is told.

use serde::{Deserialize, Serialize};

use crate::supervisor::{Collected, Segments};

/// Which journals are compacted now.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CollectJournals {
    /// Only say what would be done. Default: false.
    #[serde(default)]
    pub(in crate::http) dry_run: bool,
}

/// The work done on journals, or to be done.
#[derive(Clone, Copy, Debug, Serialize, utoipa::ToSchema)]
pub struct JournalsCollected {
    /// Sessions that were looked at.
    sessions: u64,
    /// Those of them with something closed that have a process, and so were left as they are.
    live: u64,
    /// Those of them that could not be read or written; the log says why.
    failed: u64,
    /// The size of all their journals before.
    bytes: u64,
    /// The files of journals out of which the pieces of whole messages were taken.
    compacted: JournalFiles,
    /// The files of journals that were removed.
    removed: JournalFiles,
}

/// A sum over files of journals.
#[derive(Clone, Copy, Debug, Serialize, utoipa::ToSchema)]
struct JournalFiles {
    /// How many.
    segments: u64,
    /// The bytes that are free for them.
    bytes: u64,
}

impl From<Segments> for JournalFiles {
    fn from(sum: Segments) -> Self {
        Self {
            segments: sum.segments,
            bytes: sum.bytes,
        }
    }
}

impl From<Collected> for JournalsCollected {
    fn from(done: Collected) -> Self {
        Self {
            sessions: done.sessions,
            live: done.live,
            failed: done.failed,
            bytes: done.bytes,
            compacted: done.compacted.into(),
            removed: done.removed.into(),
        }
    }
}
