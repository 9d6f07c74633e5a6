//! Owns `[park]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// When the processes of sessions that do nothing are ended to save memory. The next process is given what was set at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    /// How long nothing is asked of a session before it is parked; 0 = for ever.
    pub idle_ms: u64,
    /// How long nothing is asked of a session at least, before it is parked to make room or to save memory.
    pub grace_ms: u64,
    /// Whether the session that was used the longest ago is parked when `[limits]` leave no room for another process.
    pub make_room: bool,
    /// The memory that the processes of all sessions may take: over it, those that were used the longest ago are parked; 0 =
    /// any, and nothing is measured.
    pub memory_budget_bytes: u64,
    /// Between two measurements.
    pub measure_ms: u64,
}

impl Default for Park {
    fn default() -> Self {
        Self {
            // Longer than people leave a conversation that they work in, and than the model's prompt cache lives; a hundred
            // agents that nobody needs do not keep their memory overnight.
            idle_ms: 30 * 60 * 1_000,
            // A person who reads an answer is about to write the next message.
            grace_ms: 30_000,
            make_room: true,
            memory_budget_bytes: 0,
            measure_ms: 10_000,
        }
    }
}

impl Park {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.idle_ms > 0 && self.idle_ms < LEAST_IDLE_MS {
            problems.push(Problem::new(
                "park.idle_ms",
                format!("must be 0, or at least {LEAST_IDLE_MS}"),
            ));
        }
        if self.measure_ms < LEAST_MEASURE_MS {
            problems.push(Problem::new(
                "park.measure_ms",
                format!("must be at least {LEAST_MEASURE_MS}"),
            ));
        }
    }
}

/// Less would end processes between two messages.
const LEAST_IDLE_MS: u64 = 100;
/// A measurement costs milliseconds per process.
const LEAST_MEASURE_MS: u64 = 100;
