//! Owns what is known about a task of the CLI: a command or a sub-agent that runs beside the conversation, or did.

use serde::{Deserialize, Serialize};

use super::{RunId, Seq, Timestamp};

/// The longest text of a task that is kept, in characters; the record has all of it.
pub const MAX_TASK_TEXT_CHARS: usize = 4_000;

/// The use of a task, as the CLI counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskUsage {
    /// Tokens.
    pub total_tokens: u64,
    /// Calls of tools.
    pub tool_uses: u64,
    /// Wall time.
    pub duration_ms: u64,
}

/// A task, as the CLI last spoke of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Task {
    /// The CLI's id of it.
    pub task_id: String,
    /// `local_bash`, `local_agent`, or a newer word of the CLI.
    pub kind: Option<String>,
    /// The kind of a sub-agent.
    pub agent: Option<String>,
    /// The work, in a few words.
    pub description: Option<String>,
    /// `running`, `paused`, `completed`, `failed`, `stopped`, `killed` or a newer word of the CLI; `cut_short` when its process ended
    /// first.
    pub status: String,
    /// Whether the turn went on without it.
    pub is_backgrounded: Option<bool>,
    /// The outcome in words: of a sub-agent its report. At most 4000 characters; the record `last_seq` has all of it.
    pub summary: Option<String>,
    /// The error that ended it.
    pub error: Option<String>,
    /// The file with its output.
    pub output_file: Option<String>,
    /// The tool that it used last.
    pub last_tool: Option<String>,
    /// The task of the sub-agent that began it; `null` when the conversation itself did.
    pub parent_task_id: Option<String>,
    /// How deep a sub-agent is: 1 for one that the conversation began.
    pub depth: Option<u64>,
    /// The call that began it.
    pub tool_use_id: Option<String>,
    /// Its use so far, without that of the tasks that it began; `null` when the CLI did not say. The CLI tells no money per task: that is in the
    /// turns.
    pub usage: Option<TaskUsage>,
    /// The process that ran it.
    pub run_id: RunId,
    /// The first record that tells of it.
    pub first_seq: Seq,
    /// The last record that tells of it.
    pub last_seq: Seq,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it ended; `null` while it runs.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// The news of a task in one record. A member that is absent was not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNews {
    /// The CLI's id of it.
    pub task_id: String,
    /// Whether it begins, perhaps once more.
    pub is_start: bool,
    /// The new state.
    pub status: Option<String>,
    /// Its type.
    pub kind: Option<String>,
    /// The kind of a sub-agent.
    pub agent: Option<String>,
    /// The work, in a few words.
    pub description: Option<String>,
    /// The call that began it.
    pub tool_use_id: Option<String>,
    /// The task that began it.
    pub parent_task_id: Option<String>,
    /// How deep a sub-agent is.
    pub depth: Option<u64>,
    /// Whether the turn went on without it.
    pub is_backgrounded: Option<bool>,
    /// The outcome in words.
    pub summary: Option<String>,
    /// The error that ended it.
    pub error: Option<String>,
    /// The file with its output.
    pub output_file: Option<String>,
    /// The tool that it used last.
    pub last_tool: Option<String>,
    /// Its use so far.
    pub usage: Option<TaskUsage>,
}

impl TaskNews {
    /// Whether a task in this state has ended.
    pub fn is_end(status: &str) -> bool {
        matches!(
            status,
            "completed" | "failed" | "stopped" | "killed" | "cut_short"
        )
    }
}
