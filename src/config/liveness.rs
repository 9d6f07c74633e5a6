//! Owns `[liveness]`.

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::domain::SilenceAction;

/// The action against a CLI that says nothing although it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Liveness {
    /// How long a CLI that works may be silent; 0 = for ever.
    pub after_ms: u64,
    /// The action then.
    pub action: SilenceAction,
}

impl Default for Liveness {
    fn default() -> Self {
        Self {
            after_ms: 10 * 60 * 1_000,
            action: SilenceAction::Report,
        }
    }
}

impl Liveness {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if self.after_ms > 0 && self.after_ms < LEAST_AFTER_MS {
            problems.push(Problem::new(
                "liveness.after_ms",
                format!("must be 0, or at least {LEAST_AFTER_MS}"),
            ));
        }
    }
}

/// A CLI that thinks is silent for seconds.
const LEAST_AFTER_MS: u64 = 100;
