//! Owns the launch plan: everything a keeper is told about the session and the process it starts.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::domain::{RunId, Seq, SessionId};

/// The orders for a keeper that starts one run. It travels as one JSON document on the keeper's stdin, so nothing of it
/// is in an argv or on a disk. All paths are absolute.
#[derive(Clone, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The session that the run belongs to.
    pub session: SessionId,
    /// The run: one life of one process. Also the value of the environment marker `TRUNKLINE_RUN`.
    pub run: RunId,
    /// The program to start.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<String>,
    /// Its whole environment; only the marker `TRUNKLINE_RUN` is added.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The folder of the session's journal.
    pub journal_dir: PathBuf,
    /// A record up to which the journal had numbers; see [`crate::journal::WriterOptions`].
    #[serde(default)]
    pub journal_floor: Seq,
    /// Where the keeper listens; see [`fits_socket_path`].
    pub socket: PathBuf,
    /// Where the keeper says how to reach it.
    pub identity_file: PathBuf,
    /// A file whose lock the keeper holds while it lives, if the caller wants one.
    pub lease_file: Option<PathBuf>,
    /// The data of the first record of the run: the text of one JSON object.
    pub start_note: String,
    /// The first lines for stdin, in this order, before any that comes over the link.
    pub first_lines: Vec<StdinLine>,
    /// Sizes and times.
    #[serde(default)]
    pub limits: KeeperLimits,
}

impl fmt::Debug for LaunchPlan {
    /// Leaves out arguments, environment and lines: they may hold secrets and prompts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchPlan")
            .field("session", &self.session)
            .field("run", &self.run)
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// One line for stdin.
#[derive(Clone, Serialize, Deserialize)]
pub struct StdinLine {
    /// The writer of the note; becomes `by` of its record.
    pub by: Option<String>,
    /// The text of one JSON object, without the newline.
    pub line: String,
}

impl fmt::Debug for StdinLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinLine")
            .field("by", &self.by)
            .field("bytes", &self.line.len())
            .finish()
    }
}

/// Sizes in bytes and times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeeperLimits {
    /// The longest line in either direction; a longer one from the process becomes a notice. Default 64 MiB.
    pub max_line_bytes: usize,
    /// The bytes that may wait for stdin. A line that would exceed it is refused as busy; a single line of any allowed
    /// length always fits an empty queue. Default 32 MiB.
    pub stdin_queue_bytes: usize,
    /// How much of the newest stderr is kept for the exit record. Default 16 KiB.
    pub stderr_tail_bytes: usize,
    /// How much stderr is journaled per minute. Default 64 KiB.
    pub stderr_journal_bytes_per_minute: usize,
    /// The size at which the journal begins a new segment. Default 64 MiB.
    pub segment_bytes: u64,
    /// From the close of stdin to SIGTERM, when the keeper stops the process by its own decision; from the end of stdout to such
    /// a stop as well. Default 10 s.
    pub eof_grace_ms: u64,
    /// From SIGTERM to SIGKILL, when the keeper stops the process by its own decision. Default 5 s.
    pub term_grace_ms: u64,
    /// How long the pipes are read after the process ended, if somebody still holds them open. Default 1 s.
    pub drain_ms: u64,
    /// How long a keeper without daemon waits after the last line of stdout before it stops the process. 0 = for ever.
    /// Default 15 min.
    pub orphan_grace_ms: u64,
    /// The longest time that a record waits for `fdatasync`. 0 = never synced. Default 1 s.
    pub sync_interval_ms: u64,
    /// Lines of stdout that hold one of these texts are synced at once. One that only quotes it costs a sync and does no harm.
    /// Default: what a `result` line holds, wherever in it.
    pub sync_after: Vec<String>,
    /// Lines of stdout with one of these as their `type` say nothing and are not recorded. Default: `keep_alive`.
    pub unrecorded: Vec<String>,
    /// The soft limit of open files of the keeper and its process; `None` leaves the daemon's own.
    pub open_files: Option<u64>,
    /// How long the exit record of an ended process is retried on a disk that refuses it. Default 60 s.
    pub journal_give_up_ms: u64,
}

impl Default for KeeperLimits {
    fn default() -> Self {
        Self {
            max_line_bytes: 64 << 20,
            stdin_queue_bytes: 32 << 20,
            stderr_tail_bytes: 16 << 10,
            stderr_journal_bytes_per_minute: 64 << 10,
            segment_bytes: 64 << 20,
            eof_grace_ms: 10_000,
            term_grace_ms: 5_000,
            drain_ms: 1_000,
            orphan_grace_ms: 900_000,
            sync_interval_ms: 1_000,
            sync_after: vec![r#""type":"result""#.to_owned()],
            unrecorded: vec!["keep_alive".to_owned()],
            open_files: None,
            journal_give_up_ms: 60_000,
        }
    }
}

/// The name of the environment variable that marks every process of a run; its value is the run's id.
pub const RUN_MARKER: &str = "TRUNKLINE_RUN";

/// The environment variable that says which data directory a process's session is of.
pub const DATA_MARKER: &str = "TRUNKLINE_DATA_MARK";

/// The environment variable that tells a process which session it belongs to.
pub const SESSION_MARKER: &str = "TRUNKLINE_SESSION";

/// The size of `sun_path` with its closing zero: 108 on Linux, 104 on macOS. The smaller one holds everywhere.
const SUN_PATH_BYTES: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

/// Whether a Unix socket can have this path.
pub fn fits_socket_path(path: &Path) -> bool {
    path.as_os_str().len() < SUN_PATH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_path_leaves_room_for_its_closing_zero() {
        assert!(fits_socket_path(Path::new(&"x".repeat(SUN_PATH_BYTES - 1))));
        assert!(!fits_socket_path(Path::new(&"x".repeat(SUN_PATH_BYTES))));
    }

    #[test]
    fn debug_shows_no_secret() {
        let plan = LaunchPlan {
            session: SessionId::new(),
            run: RunId::new(),
            program: "/bin/true".into(),
            args: vec!["s3cret-arg".to_owned()],
            env: vec![("TOKEN".to_owned(), "s3cret-env".to_owned())],
            cwd: "/".into(),
            journal_dir: "/j".into(),
            journal_floor: Seq::ZERO,
            socket: "/s".into(),
            identity_file: "/i".into(),
            lease_file: None,
            start_note: r#"{"x":"s3cret-note"}"#.to_owned(),
            first_lines: vec![StdinLine {
                by: None,
                line: r#""s3cret-line""#.to_owned(),
            }],
            limits: KeeperLimits::default(),
        };
        let text = format!("{plan:?} {:?}", plan.first_lines);
        assert!(!text.contains("s3cret"), "{text}");
    }
}
