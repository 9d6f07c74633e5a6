//! Owns the words of the lobby: why a session needs a person, and in which respects it can change.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// The share of its budget that a session may spend before a person is told, in percent.
pub const BUDGET_WARNING_PERCENT: i64 = 80;

/// Why a session needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Attention {
    /// The most urgent reason.
    pub reason: AttentionReason,
    /// Its urgency: 1 is the highest, 4 the lowest.
    pub rank: u8,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When a rule decides if nobody has; of `decision` with rank 1.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
}

/// A reason for which a session needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionReason {
    /// An approval waits: rank 1 with a deadline, 2 without.
    Decision,
    /// The session has failed, and no restart is due: rank 3.
    Failed,
    /// The CLI has said nothing for longer than it may: rank 4.
    Silent,
    /// A tool changed a file in a mode that asks, and nobody was asked: rank 4.
    UnaskedEdit,
    /// Four fifths of the budget are spent: rank 4.
    Budget,
}

/// The reasons of a session that a person put off: those that it had at that moment. Another reason is not put off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOff {
    /// How.
    pub how: PutOffHow,
    /// Until when; with `None` as long as the reasons hold.
    pub until: Option<Timestamp>,
    /// When it was put off.
    pub at: Timestamp,
    /// The reasons, each by a name that no other occurrence has.
    pub reasons: Vec<String>,
}

/// How a person puts off what a session needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PutOffHow {
    /// The person leaves it as it is, as long as the reason holds.
    Left,
    /// The person comes back to it: at a time, or when there is a new reason.
    Snoozed,
}

/// A respect in which a session can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LobbyChange {
    /// State, reason, the restart that is due, parking, its place in the queue of starts, or what it does between its answers.
    State,
    /// Title, tag or labels.
    Title,
    /// Model or permission mode.
    Model,
    /// A turn began or ended.
    Turn,
    /// The last line of the agent.
    LastLine,
    /// The start of the last prompt, or how many wait in the daemon.
    Prompt,
    /// The cost.
    Cost,
    /// An approval opened.
    ApprovalOpened,
    /// An approval was decided or withdrawn.
    ApprovalClosed,
    /// Whether, why or since when it needs a person, what of that is put off, or what a person has seen.
    Attention,
}
