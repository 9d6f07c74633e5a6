//! Owns what is known about a turn when it ends.

use serde::{Deserialize, Serialize};

use super::{ModelUsage, PromptUuid, RunId, Seq, Timestamp, TokenUsage, Usd};

/// A finished turn: everything from its first record to its `result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Number of the turn within the session; the first is 1.
    pub number: u64,
    /// The process that ran it.
    pub run_id: RunId,
    /// The first record of the turn.
    pub first_seq: Seq,
    /// The record of its end.
    pub last_seq: Seq,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The prompts that it answered; empty when the CLI began it by itself.
    pub prompts: Vec<PromptUuid>,
    /// The origin of a turn that no prompt began (the CLI's `origin.kind`).
    pub origin: Option<String>,
    /// The CLI's `result` subtype, or `interrupted` when the process ended in mid-turn.
    pub subtype: String,
    /// Whether the turn failed. One that a person interrupted has not.
    pub is_error: bool,
    /// How it ended; see [`TurnEnd::outcome_of`].
    #[serde(default)]
    pub outcome: String,
    /// The CLI's `terminal_reason`.
    pub terminal_reason: Option<String>,
    /// Model calls in the turn, as the CLI counts them.
    pub num_turns: Option<u64>,
    /// Wall time as the CLI measured it.
    pub duration_ms: Option<u64>,
    /// Time spent in the model API.
    pub duration_api_ms: Option<u64>,
    /// The service that the model API gave, such as `standard`; `None` when unknown.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// Cost of this turn alone; `None` when unknown.
    pub cost_usd: Option<Usd>,
    /// Tokens of this turn alone; `None` when unknown.
    pub usage: Option<TokenUsage>,
    /// Per-model share of this turn.
    pub models: Vec<ModelUsage>,
}

impl TurnEnd {
    /// The outcome of a turn that somebody interrupted.
    pub const INTERRUPTED: &'static str = "interrupted";
    /// The outcome of a turn whose prompt a hook kept from the model: nothing was answered.
    pub const BLOCKED: &'static str = "blocked";
    /// The outcome of a turn whose process ended first.
    pub const CUT_SHORT: &'static str = "cut_short";

    /// The outcome by what the CLI says alone: its subtype, but `failed` for a `success` with `is_error`, as it also calls a turn a
    /// success that the model API failed.
    pub fn outcome_of(subtype: &str, is_error: bool) -> &str {
        match subtype {
            "success" if is_error => "failed",
            // Our own word for a turn without a result.
            "interrupted" => Self::CUT_SHORT,
            subtype => subtype,
        }
    }
}
