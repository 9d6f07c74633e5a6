//! Owns `[sessions]`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Problem, check_absolute};

/// Limits and policy of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Directories that sessions may work in or below; empty = anywhere.
    pub cwd_roots: Vec<PathBuf>,
    /// How long a CLI may take to get ready.
    pub start_timeout_ms: u64,
    /// The longest line of the CLI that is kept whole, and the longest that is sent to it.
    pub max_line_bytes: u64,
    /// The newest records of a session that are kept in memory for clients that keep up.
    pub ring_bytes: u64,
    /// The size at which a journal begins a new file.
    pub segment_bytes: u64,
    /// Lines that wait for the CLI's stdin, in bytes, before a sender is refused. One line always fits.
    pub stdin_queue_bytes: u64,
    /// How much of the CLI's last stderr output is kept for error messages.
    pub stderr_tail_bytes: u64,
    /// The longest time that a record may wait to be made safe against power loss; 0 = the system decides.
    pub sync_interval_ms: u64,
    /// How long a request of the CLI that is not known is offered to attached clients.
    pub offer_ms: u64,
    /// How long the client that answers a hook may be away.
    pub return_grace_ms: u64,
    /// How long the program that a session was made for may be away before the session ends with it.
    pub host_grace_ms: u64,
    /// Whether a session may be created in the mode that asks nobody.
    pub allow_bypass_permissions: bool,
    /// Whether a session may pass flags to the CLI that the daemon does not know.
    pub allow_extra_args: bool,
    /// Launch options by a name, for `GET /v1/connect?profile=`.
    pub profiles: BTreeMap<String, Map<String, Value>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            cwd_roots: Vec::new(),
            start_timeout_ms: 120_000,
            max_line_bytes: 64 * 1024 * 1024,
            ring_bytes: 4 * 1024 * 1024,
            segment_bytes: 64 * 1024 * 1024,
            stdin_queue_bytes: 32 * 1024 * 1024,
            stderr_tail_bytes: 16 * 1024,
            sync_interval_ms: 1_000,
            offer_ms: 10_000,
            return_grace_ms: 15_000,
            host_grace_ms: 30_000,
            allow_bypass_permissions: false,
            allow_extra_args: false,
            profiles: BTreeMap::new(),
        }
    }
}

impl Sessions {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        for root in &self.cwd_roots {
            check_absolute(problems, "sessions.cwd_roots", root);
        }
        for (key, value, least) in [
            ("sessions.start_timeout_ms", self.start_timeout_ms, 1_000),
            ("sessions.max_line_bytes", self.max_line_bytes, 64 * 1024),
            ("sessions.ring_bytes", self.ring_bytes, 64 * 1024),
            ("sessions.segment_bytes", self.segment_bytes, 64 * 1024),
            ("sessions.stdin_queue_bytes", self.stdin_queue_bytes, 64 * 1024),
            ("sessions.stderr_tail_bytes", self.stderr_tail_bytes, 1024),
        ] {
            if value < least {
                problems.push(Problem::new(key, format!("must be at least {least}")));
            }
        }
        for name in self.profiles.keys() {
            let is_named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_named) {
                let reason =
                    format!("{name:?} is no name: letters, digits, \".\", \"_\" and \"-\", at most 64");
                problems.push(Problem::new("sessions.profiles", reason));
            }
        }
        if self.stderr_tail_bytes > MOST_STDERR_TAIL_BYTES {
            problems.push(Problem::new(
                "sessions.stderr_tail_bytes",
                format!("must be at most {MOST_STDERR_TAIL_BYTES}, as it is held in memory for each session"),
            ));
        }
    }
}

const MOST_STDERR_TAIL_BYTES: u64 = 1024 * 1024;
