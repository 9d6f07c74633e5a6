//! Owns the list of the limits of accounts.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::{self, Seq, SessionId, Timestamp};

/// The last words about one limit of an account, and the session that they came from.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AccountRateLimit {
    /// The session whose CLI said it. Sessions may use different accounts.
    session_id: SessionId,
    /// The limit, such as `five_hour` or `seven_day`; `null` when the CLI named none.
    #[schema(example = "five_hour")]
    kind: Option<String>,
    /// `allowed`, `allowed_warning`, `rejected`, or a newer word of the CLI.
    #[schema(example = "allowed_warning")]
    status: String,
    /// The part of the limit that is used, from 0 to 1; `null` when the CLI did not say.
    #[schema(example = 0.91)]
    utilization: Option<f64>,
    /// When the limit begins anew; `null` when the CLI did not say.
    #[schema(value_type = Option<String>, format = DateTime)]
    resets_at: Option<Timestamp>,
    /// All that the CLI said about it, in the CLI's words (`rate_limit_info`).
    #[schema(value_type = Object, example = json!({"status": "allowed_warning", "rateLimitType": "five_hour", "utilization": 0.91}))]
    info: Map<String, Value>,
    /// The record of the session that says it.
    seq: Seq,
    /// When it was said.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<(SessionId, domain::RateLimit)> for AccountRateLimit {
    fn from((session_id, limit): (SessionId, domain::RateLimit)) -> Self {
        Self {
            session_id,
            kind: limit.kind,
            status: limit.status,
            utilization: limit.utilization,
            resets_at: limit.resets_at,
            info: limit.info,
            seq: limit.seq,
            at: limit.at,
        }
    }
}

/// The limits, with what was said last of all first.
#[derive(Serialize, utoipa::ToSchema)]
pub(in crate::http) struct RateLimitList {
    /// The limits.
    pub(in crate::http) items: Vec<AccountRateLimit>,
    /// Always `null`: the list is whole.
    pub(in crate::http) next_cursor: Option<String>,
}
