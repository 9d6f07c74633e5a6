//! Owns when the silence of a CLI is too long, and what is done about it.

use serde::{Deserialize, Serialize};

/// When silence is too long, and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// How long a CLI that owes output may be silent; 0 = for ever.
    pub after_ms: u64,
    /// The action then.
    pub action: SilenceAction,
}

/// The action against a CLI that is silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SilenceAction {
    /// It is reported.
    Report,
    /// It is reported, and the turn is interrupted.
    Interrupt,
    /// It is reported, and the process is stopped and started again.
    Restart,
}
