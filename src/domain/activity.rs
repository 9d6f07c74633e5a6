//! Owns what a CLI says to do that takes long and is no answer: it compacts the conversation, or waits to ask the model API again.

use serde::Serialize;

use super::Timestamp;

/// The work of the CLI between its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Activity {
    /// The kind; there may be more of them one day.
    pub kind: ActivityKind,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// The last try, of `retrying`.
    pub retry: Option<ApiRetry>,
}

/// The kind of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// It makes a summary of the conversation, to go on with that.
    Compacting,
    /// The model API refused or did not answer, and is asked again after a pause.
    Retrying,
}

/// A request to the model API that failed and is made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ApiRetry {
    /// Which retry in a row it is, from 1.
    pub attempt: u64,
    /// The retries that the CLI makes at most.
    pub max_retries: Option<u64>,
    /// The pause before it.
    pub delay_ms: Option<u64>,
    /// The status of the model API; `null` when there was no answer.
    #[schema(example = 529)]
    pub error_status: Option<u64>,
    /// The CLI's word for the error.
    #[schema(example = "overloaded")]
    pub error: Option<String>,
    /// When the CLI said so: the pause begins here.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}
