//! Owns `[park]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// When the processes of sessions that do nothing are ended to save memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    /// How long nothing is asked of a session before it is parked; 0 = for ever.
    pub idle_ms: u64,
}

impl Default for Park {
    fn default() -> Self {
        Self {
            // Longer than people leave a conversation that they work in, and than the model's prompt cache lives; a hundred
            // agents that nobody needs do not keep their memory overnight.
            idle_ms: 30 * 60 * 1_000,
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
    }
}

/// Who reads an answer is about to write the next message.
const LEAST_IDLE_MS: u64 = 100;
