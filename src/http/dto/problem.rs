//! Owns the documented form of a problem. `error` writes it.

use crate::{domain::SessionState, http::ErrorCode};

/// What went wrong (RFC 9457). Codes may be added; read unknown ones by their status.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "documents the members that errors are written with")]
pub(in crate::http) struct Problem {
    /// A URN made from the code.
    #[schema(example = "urn:trunkline:problem:session_not_found")]
    r#type: String,
    /// What the code means.
    title: String,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// The stable, machine-readable code.
    code: ErrorCode,
    /// What is wrong with this very request, or what to do about it.
    detail: String,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// Whether the request may have had an effect all the same.
    side_effect_possible: bool,
    /// The id of the request, as in the `x-request-id` header and in the daemon's log.
    instance: Option<String>,
    /// The path of the field that is wrong.
    field: Option<String>,
    /// The line of the body at which it is wrong, from 1.
    line: Option<u64>,
    /// The column of that line, from 1.
    column: Option<u64>,
    /// The limit that was passed, in bytes.
    limit_bytes: Option<u64>,
    /// The state that the session is in.
    state: Option<SessionState>,
    /// The last record, for `seq_beyond_head`.
    head_seq: Option<u64>,
    /// The oldest record that is kept, for `records_compacted`.
    oldest_seq: Option<u64>,
    /// How the approval was answered, for `already_decided` and `approval_not_pending`.
    approval: Option<super::Approval>,
    /// Why the agent CLI did not start, for `start_failed`.
    reason: Option<String>,
    /// Where the agent CLI was looked for, for `cli_not_found`.
    searched: Option<Vec<String>>,
    /// The CLI's own code, for `control_refused`.
    error_code: Option<String>,
    /// The status of the first answer, for `answer_not_kept`.
    #[schema(example = 201)]
    answered_status: Option<u16>,
    /// The id of the message, for `prompt_conflict` and `wait_timeout`.
    uuid: Option<uuid::Uuid>,
}
