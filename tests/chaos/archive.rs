//! Owns copies of journals, made before something is taken out of them: by these the test judges what went.

use std::{collections::BTreeMap, fs, io, path::Path};

use crate::journal::is_segment;

/// Copies what has been written to the journals since the last time.
pub(crate) fn keep(sessions: &Path, archive: &Path) {
    for session in fs::read_dir(sessions).unwrap() {
        let session = session.unwrap();
        let place = archive.join(session.file_name());
        // It may be deleted meanwhile, and its files compacted.
        for segment in fs::read_dir(session.path()).into_iter().flatten().flatten() {
            if !is_segment(&segment.path()) {
                continue;
            }
            let kept = place.join(segment.file_name());
            let size = |found: io::Result<fs::Metadata>| found.map_or(0, |found| found.len());
            if size(segment.metadata()) > size(fs::metadata(&kept)) {
                fs::create_dir_all(&place).unwrap();
                fs::copy(segment.path(), kept).ok();
            }
        }
    }
}

/// The records of a session that were kept, by their numbers.
pub(crate) fn records(archive: &Path, session: &str) -> BTreeMap<u64, String> {
    let mut records = BTreeMap::new();
    let segments = fs::read_dir(archive.join(session)).into_iter().flatten();
    for segment in segments.flatten() {
        let bytes = fs::read(segment.path()).unwrap();
        // The copy may end in the middle of a record.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
        for line in String::from_utf8_lossy(&bytes[..end]).lines() {
            // A line that stands for several has no time.
            let number = line
                .strip_prefix(r#"{"seq":"#)
                .and_then(|rest| rest.split_once(r#","ts":"#));
            if let Some(seq) = number.and_then(|(seq, _)| seq.parse().ok()) {
                records.insert(seq, line.to_owned());
            }
        }
    }
    records
}
