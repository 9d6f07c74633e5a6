//! Owns `[restart]`.

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::domain::RestartPolicy;

/// When processes that died are started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Restarts of a session within the window; 0 = never.
    pub max_restarts: u32,
    /// The window.
    pub window_ms: u64,
    /// The longest pause before the first restart in a row; each further one doubles it.
    pub first_delay_ms: u64,
    /// The longest pause before any restart.
    pub longest_delay_ms: u64,
    /// A process that was ready for this long ends the row.
    pub stable_ms: u64,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            max_restarts: 3,
            window_ms: 10 * 60 * 1_000,
            first_delay_ms: 1_000,
            longest_delay_ms: 60_000,
            stable_ms: 5 * 60 * 1_000,
        }
    }
}

impl Restart {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let most = RestartPolicy::MOST_RESTARTS;
        if self.max_restarts > most {
            problems.push(Problem::new(
                "restart.max_restarts",
                format!("must be at most {most}"),
            ));
        }
        if self.longest_delay_ms < self.first_delay_ms {
            problems.push(Problem::new(
                "restart.longest_delay_ms",
                "must be at least restart.first_delay_ms",
            ));
        }
    }
}
