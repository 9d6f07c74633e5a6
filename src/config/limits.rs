//! Owns `[limits]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// How many processes there may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Sessions that have a process at the same time, or wait for one.
    pub live_processes: u32,
    /// The same, in one working directory; 0 = no limit of its own.
    pub live_per_cwd: u32,
    /// Processes that start at the same time: from their spawn until they are ready or gone.
    pub parallel_starts: u32,
    /// Starts that wait for their turn.
    pub queued_starts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // An idle CLI takes about 100 MB of its own: 12 GB altogether, and room for a hundred agents.
            live_processes: 128,
            live_per_cwd: 0,
            // A start keeps more than one core busy for about a second.
            parallel_starts: 4,
            queued_starts: 256,
        }
    }
}

impl Limits {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        for (key, value) in [
            ("limits.live_processes", self.live_processes),
            ("limits.parallel_starts", self.parallel_starts),
        ] {
            if value == 0 {
                problems.push(Problem::new(key, "must be at least 1, or nothing could start"));
            }
        }
    }
}
