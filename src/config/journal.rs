//! Owns `[journal]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// How long journals are kept, and how large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The age at which the pieces of whole messages are taken out of a closed file of a journal; 0 = never.
    pub compact_after_ms: u64,
    /// The age at which a closed file of a journal is removed; 0 = never.
    pub keep_ms: u64,
    /// The size of a session's journal above which its oldest closed files are removed; 0 = any.
    pub keep_bytes: u64,
    /// Between two looks at all journals.
    pub look_every_ms: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            compact_after_ms: 24 * 60 * 60 * 1_000,
            keep_ms: 0,
            keep_bytes: 0,
            look_every_ms: 60 * 60 * 1_000,
        }
    }
}

impl Journal {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.look_every_ms < LEAST_PAUSE_MS {
            problems.push(Problem::new(
                "journal.look_every_ms",
                format!("must be at least {LEAST_PAUSE_MS}"),
            ));
        }
    }
}

/// A look reads the folder of every session.
const LEAST_PAUSE_MS: u64 = 1_000;
