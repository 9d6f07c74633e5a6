//! Owns `[stop]`.

use serde::{Deserialize, Serialize};

use super::Problem;

/// How processes and the daemon end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// How long an idle CLI may take to end by itself once its stdin is closed.
    pub eof_grace_ms: u64,
    /// How long a CLI may take between SIGTERM and SIGKILL.
    pub term_grace_ms: u64,
    /// How long output is still read after the CLI ended, when something it left behind holds the pipe open.
    pub drain_ms: u64,
    /// How long a session lives on, once idle, when the daemon died and none came back.
    pub orphan_grace_ms: u64,
    /// The effect of a daemon's stop on its sessions.
    pub on_shutdown: OnShutdown,
    /// How long turns that run may take to come to their end before a stop of the daemon stops their sessions.
    pub finish_turns_ms: u64,
    /// When clients that are told of the end of the daemon are to come back.
    pub reconnect_after_ms: u64,
    /// How long a stop of the daemon may take altogether.
    pub shutdown_deadline_ms: u64,
}

/// The effect of a daemon's stop on its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnShutdown {
    /// Sessions are stopped too; each can be resumed later.
    Stop,
    /// Sessions run on, and the next daemon takes them over.
    Detach,
}

impl OnShutdown {
    /// As in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Detach => "detach",
        }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            eof_grace_ms: 5_000,
            term_grace_ms: 5_000,
            drain_ms: 1_000,
            orphan_grace_ms: 15 * 60 * 1_000,
            on_shutdown: OnShutdown::Stop,
            finish_turns_ms: 5_000,
            reconnect_after_ms: 2_000,
            shutdown_deadline_ms: 30_000,
        }
    }
}

impl Stop {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let needed = self
            .finish_turns_ms
            .saturating_add(self.eof_grace_ms)
            .saturating_add(self.term_grace_ms)
            .saturating_add(self.drain_ms);
        if self.shutdown_deadline_ms < needed {
            problems.push(Problem::new(
                "stop.shutdown_deadline_ms",
                format!(
                    "must be at least {needed}, which is what waiting for the turn of a session and stopping it may take"
                ),
            ));
        }
        if self.orphan_grace_ms < LEAST_ORPHAN_GRACE_MS {
            problems.push(Problem::new(
                "stop.orphan_grace_ms",
                format!(
                    "must be at least {LEAST_ORPHAN_GRACE_MS}, or a restart of the daemon would lose sessions"
                ),
            ));
        }
    }
}

const LEAST_ORPHAN_GRACE_MS: u64 = 1_000;
