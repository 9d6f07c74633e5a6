//! Owns the name of what was removed from the beginning of a journal for its age or size, so that a reader can tell it from what
//! is lost.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{beside::read_beside, reader::ReadError};
use crate::{domain::Seq, files};

/// All records up to the one in it were removed, or are about to be.
const REMOVED_FILE: &str = "removed.json";
/// All segments up to the one whose last record is in it are compacted.
const COMPACTED_FILE: &str = "compacted.json";

/// The form of these files, which are beside the segments.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct UpTo {
    last_seq: Seq,
}

/// The last record that was removed for its age or size; 0 when none was.
pub(super) fn removed(dir: &Path) -> Seq {
    read(dir, REMOVED_FILE)
}

/// The last record of the segments that need no look for what a compaction takes out.
pub(super) fn compacted(dir: &Path) -> Seq {
    read(dir, COMPACTED_FILE)
}

/// Says that the records up to `last_seq` are removed. The file is durable when this returns.
pub(super) fn name_removed(dir: &Path, last_seq: Seq) -> Result<(), ReadError> {
    write(dir, REMOVED_FILE, last_seq)
}

/// Says that the segments up to `last_seq` are compacted.
pub(super) fn name_seen(dir: &Path, last_seq: Seq) -> Result<(), ReadError> {
    write(dir, COMPACTED_FILE, last_seq)
}

fn read(dir: &Path, name: &str) -> Seq {
    let file = read_beside(dir, name).ok().flatten();
    let up_to = file.and_then(|bytes| serde_json::from_slice::<UpTo>(&bytes).ok());
    up_to.map_or(Seq::ZERO, |up_to| up_to.last_seq)
}

fn write(dir: &Path, name: &str, last_seq: Seq) -> Result<(), ReadError> {
    let path = dir.join(name);
    let failed = |source| ReadError::Io {
        path: path.clone(),
        source,
    };
    let json = serde_json::to_vec(&UpTo { last_seq }).map_err(|error| failed(error.into()))?;
    files::replace_durably(&path, &path.with_extension("new"), &json).map_err(failed)
}
