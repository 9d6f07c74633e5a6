//! Reads recorded streams of the real CLI for tests.

use super::{Envelope, envelope};

macro_rules! recording {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/recordings/",
            $name,
            ".ndjson"
        ))
    };
}
pub(crate) use recording;

/// The envelopes of all lines.
pub(crate) fn envelopes(recording: &str) -> Vec<Envelope<'_>> {
    recording
        .lines()
        .map(|line| envelope::scan(line.as_bytes()).unwrap())
        .collect()
}
