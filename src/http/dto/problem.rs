//! Owns the documented form of a problem. `error` writes it.

use crate::{domain::SessionState, http::ErrorCode};

/// A problem (RFC 9457). Codes may be added; read unknown ones by their status.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "documents the members that errors are written with")]
pub(in crate::http) struct Problem {
    /// A URN made from the code.
    #[schema(example = "urn:trunkline:problem:session_not_found")]
    r#type: String,
    /// The meaning of the code.
    title: String,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// The stable, machine-readable code.
    code: ErrorCode,
    /// The fault of this very request, or advice on it.
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
    /// The status of the first answer, for `response_not_kept`.
    #[schema(example = 201)]
    response_status: Option<u16>,
    /// The id of the message, for `prompt_conflict`, `message_not_found` and others that name one.
    uuid: Option<uuid::Uuid>,
    /// When another try makes sense, as in the header `Retry-After`.
    #[schema(example = 5000)]
    retry_after_ms: Option<u64>,
    /// The setting whose limit is reached, for `too_many_sessions` and `start_queue_full`.
    #[schema(example = "limits.live_processes")]
    limit: Option<String>,
    /// The value of that limit.
    limit_value: Option<u64>,
    /// The limit on costs, for `budget_spent`.
    limit_usd: Option<f64>,
    /// The costs so far, for `budget_spent`.
    cost_usd: Option<f64>,
    /// The turns whose costs are not known, for `budget_spent`.
    turns_with_unknown_cost: Option<u64>,
    /// The client's role, for `role_forbidden`.
    role: Option<String>,
    /// The obstacle, for `session_not_parkable`.
    obstacle: Option<String>,
    /// The session in question, where the error names one.
    session_id: Option<uuid::Uuid>,
    /// The id under which the agent CLI knows the control request, where it was sent.
    request_id: Option<String>,
    /// The id of the rule, for `rule_exists`.
    rule_id: Option<String>,
    /// The conversation that another process works on, for `conversation_in_use`.
    conversation_id: Option<uuid::Uuid>,
    /// The process that uses the conversation, for `conversation_in_use`.
    pid: Option<u32>,
    /// The newest version of the link that the keeper speaks, for `keeper_incompatible`.
    link_version: Option<u32>,
}
