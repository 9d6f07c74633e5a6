//! Owns the controls of background tasks.

use serde::Deserialize;
use utoipa::ToSchema;

use super::Text;

/// Move what runs in the foreground to the background.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct BackgroundTasksControl {
    /// One tool call only; all when absent.
    #[schema(value_type = Option<String>)]
    pub tool_use_id: Option<Text>,
}

/// One background task.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TaskControl {
    /// The task.
    #[schema(value_type = String)]
    pub task_id: Text,
}

/// A success with nothing in it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EmptyPayload {}

/// The output of a background task.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TaskOutputPayload {
    /// The output, or the end of it.
    pub output: Option<String>,
    /// How many bytes it printed.
    pub total_bytes: Option<u64>,
    /// Whether `output` is not all of it.
    pub truncated: Option<bool>,
}

/// A background task that runs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct BackgroundTask {
    /// Its id.
    pub task_id: Option<String>,
    /// The id of its run.
    pub run_id: Option<String>,
    /// `local_bash`, `local_agent`, …
    pub task_type: Option<String>,
    /// The kind of a sub-agent.
    pub subagent_type: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// The task that began it.
    pub parent_task_id: Option<String>,
    /// Whether it belongs to the surroundings and to no prompt.
    pub ambient: Option<bool>,
}
