//! Owns how a run (one CLI process) starts and ends.

use serde::{Deserialize, Serialize};

/// How the CLI is told which conversation to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartMode {
    /// A new conversation with our id.
    New,
    /// The stored conversation goes on.
    Resume,
    /// A new conversation that begins as a copy of another.
    Fork,
}

/// Whether we asked for the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopIntent {
    /// Nobody asked; the process ended by itself.
    None,
    /// A client or the daemon asked for the stop.
    Stop,
    /// The keeper stopped it because no daemon came back within the orphan grace.
    Orphaned,
}

/// One step of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StopStep {
    /// The action that was taken.
    pub step: StopAction,
    /// When, in milliseconds after the stop began.
    pub after_ms: u64,
}

/// The actions of a stop, in this order. A needless one is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopAction {
    /// The group got SIGINT, with stdin open: the process may still ask its host.
    Sigint,
    /// Stdin was closed.
    CloseStdin,
    /// The group got SIGTERM.
    Sigterm,
    /// The group got SIGKILL.
    Sigkill,
    /// The process ended.
    Exited,
}

impl StopAction {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sigint => "sigint",
            Self::CloseStdin => "close_stdin",
            Self::Sigterm => "sigterm",
            Self::Sigkill => "sigkill",
            Self::Exited => "exited",
        }
    }
}

/// The end of a process, as its keeper saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunExit {
    /// Exit code, when the process ended by itself.
    pub code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub signal: Option<i32>,
    /// Whether we asked for it.
    pub intent: StopIntent,
    /// Whether the last rung of the stop ladder (SIGKILL) was needed.
    pub killed: bool,
    /// The last bytes of stderr, as text.
    pub stderr_tail: String,
    /// The process could not be started at all: the operating system's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_error: Option<String>,
    /// Lines that have a record and had not been written whole when the process ended: the newest client records.
    #[serde(default)]
    pub unwritten_lines: u32,
    /// The steps of the stop, each with its time. None when nobody asked for the end, or an older keeper wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_steps: Vec<StopStep>,
}
