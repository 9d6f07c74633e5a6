//! Owns what a CLI last said about a limit of its account.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Seq, Timestamp};

/// The longest name of a limit that is kept, in bytes; a longer one is no name.
pub const MAX_LIMIT_NAME_BYTES: usize = 64;

/// The last words of the CLI about one limit of the account that it uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RateLimit {
    /// The limit, such as `five_hour` or `seven_day`; `null` when the CLI named none.
    #[schema(example = "five_hour")]
    pub kind: Option<String>,
    /// `allowed`, `allowed_warning`, `rejected`, or a newer word of the CLI.
    #[schema(example = "allowed_warning")]
    pub status: String,
    /// The part of the limit that is used, from 0 to 1; `null` when the CLI did not say.
    #[schema(example = 0.91)]
    pub utilization: Option<f64>,
    /// When the limit begins anew; `null` when the CLI did not say.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resets_at: Option<Timestamp>,
    /// All that the CLI said about it, in the CLI's words (`rate_limit_info`).
    #[schema(value_type = Object, example = json!({"status": "allowed_warning", "rateLimitType": "five_hour", "utilization": 0.91}))]
    pub info: Map<String, Value>,
    /// The record that says it.
    pub seq: Seq,
    /// When it was said.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}
