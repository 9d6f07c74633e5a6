//! Owns requests that need a person.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ApprovalId, RunId, Seq, Timestamp};

/// What kind of answer is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// May this tool run?
    Tool,
    /// Questions with options or free text.
    Question,
    /// May the plan be carried out?
    Plan,
}

impl ApprovalKind {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Question => "question",
            Self::Plan => "plan",
        }
    }

    /// The kind with this JSON name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Tool, Self::Question, Self::Plan]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// Where an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has answered.
    Pending,
    /// Somebody allowed it.
    Allowed,
    /// Somebody denied it.
    Denied,
    /// The CLI took the request back.
    Withdrawn,
    /// The process ended before an answer came.
    Abandoned,
}

impl ApprovalState {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Withdrawn => "withdrawn",
            Self::Abandoned => "abandoned",
        }
    }

    /// The state with this JSON name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Pending,
            Self::Allowed,
            Self::Denied,
            Self::Withdrawn,
            Self::Abandoned,
        ]
        .into_iter()
        .find(|state| state.as_str() == name)
    }
}

/// A request of the CLI that needs a person.
#[derive(Clone, Debug)]
pub struct Approval {
    /// Our id.
    pub id: ApprovalId,
    /// The process that asks.
    pub run_id: RunId,
    /// The record of the request.
    pub seq: Seq,
    /// The CLI's request id, which the answer must carry.
    pub request_id: String,
    /// What kind of answer is needed.
    pub kind: ApprovalKind,
    /// The tool's name.
    pub tool_name: String,
    /// The CLI's whole `request` object, byte for byte.
    pub request: Box<RawValue>,
    /// When the CLI asked.
    pub requested_at: Timestamp,
}

/// How an approval ended.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// The state it ended in.
    pub state: ApprovalState,
    /// Who answered (`rest`, `ws:<connection>`, …); `cli` for a withdrawal, `daemon` for an abandonment.
    pub by: String,
    /// The answer that was given to the CLI, byte for byte.
    pub response: Option<Box<RawValue>>,
    /// When it ended.
    pub at: Timestamp,
}
