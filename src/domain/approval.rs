//! Owns requests that need a person.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ApprovalId, RunId, Seq, Timestamp};

/// The kind of answer that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// May this tool run?
    Tool,
    /// Questions with options or free text.
    Question,
    /// May the plan be carried out?
    Plan,
    /// A form, or a page to visit, of an MCP server.
    Elicitation,
    /// A dialog of the CLI, of a kind that the session's options declare.
    Dialog,
    /// May this tool run, which a hook put off? It outlives the process: the next one asks the hook again.
    Deferred,
    /// A thing that a hook decided or changed and that is no call of a tool and no form. It is only in the log: nobody is asked.
    Hook,
}

impl ApprovalKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Tool,
        Self::Question,
        Self::Plan,
        Self::Elicitation,
        Self::Dialog,
        Self::Deferred,
        Self::Hook,
    ];

    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Question => "question",
            Self::Plan => "plan",
            Self::Elicitation => "elicitation",
            Self::Dialog => "dialog",
            Self::Deferred => "deferred",
            Self::Hook => "hook",
        }
    }

    /// The kind with this JSON name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Where an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has answered.
    Pending,
    /// Somebody allowed it, or answered it.
    Allowed,
    /// Somebody denied it.
    Denied,
    /// Somebody closed the form or the dialog without an answer.
    Cancelled,
    /// The CLI took the request back.
    Withdrawn,
    /// The process ended before an answer came.
    Abandoned,
    /// A hook changed what it was asked about, as the input of a call, and left it to others whether that may go on.
    Changed,
    /// A hook let a call pass, and another hook, a rule of the CLI or a person held it: it did not run.
    Overruled,
}

impl ApprovalState {
    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Withdrawn => "withdrawn",
            Self::Abandoned => "abandoned",
            Self::Changed => "changed",
            Self::Overruled => "overruled",
        }
    }

    /// Whether somebody's answer ended it.
    pub const fn is_answered(self) -> bool {
        matches!(
            self,
            Self::Allowed | Self::Denied | Self::Cancelled | Self::Changed | Self::Overruled
        )
    }

    /// The state with this JSON name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Pending,
            Self::Allowed,
            Self::Denied,
            Self::Cancelled,
            Self::Withdrawn,
            Self::Abandoned,
            Self::Changed,
            Self::Overruled,
        ]
        .into_iter()
        .find(|state| state.as_str() == name)
    }
}

/// The part of a large request that is not held in memory. The record of the request has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The size of the whole `request` object.
    pub bytes: u64,
    /// The members that are left out, such as `input.content`; of very many the first.
    pub members: Vec<String>,
    /// The digest of a tool's whole input, however that is spelled.
    pub meaning: Option<[u8; 32]>,
}

/// A request of the CLI that needs a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Approval {
    /// Our id.
    pub id: ApprovalId,
    /// The process that asks.
    pub run_id: RunId,
    /// The record of the request.
    pub seq: Seq,
    /// The CLI's request id, which the answer must carry.
    pub request_id: String,
    /// The kind of answer that is needed.
    pub kind: ApprovalKind,
    /// The tool, the MCP server of an elicitation, the kind of a dialog, the event of a hook.
    pub subject: String,
    /// The CLI's `request` object, byte for byte; of a large one that is held in memory only the small members.
    pub request: Box<RawValue>,
    /// The part that is missing in `request`; `None` when it is whole.
    pub left_out: Option<Box<LeftOut>>,
    /// SHA-256, in hex, of what was asked, byte for byte: a tool's `input`, else the whole `request` object. `None` for one
    /// that was stored before these were kept.
    pub input_sha256: Option<String>,
    /// When the CLI asked.
    pub requested_at: Timestamp,
    /// When a rule decides if nobody has; `None`: never.
    pub deadline: Option<Timestamp>,
    /// The rule that matched: that decided it, or that has a person asked.
    pub rule: Option<String>,
}

/// By what an approval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalHow {
    /// A person, or a program of theirs, answered.
    Person,
    /// A rule answered at once.
    Rule,
    /// Nobody answered before the deadline of a rule.
    Expiry,
    /// Another answer, or the mode, covers it too.
    Covered,
    /// A hook decided, and nobody was asked, or the hook changed what was asked.
    Hook,
    /// The CLI denied it by itself.
    Cli,
    /// The CLI took the request back.
    Withdrawal,
    /// The process ended first.
    Abandonment,
}

impl ApprovalHow {
    /// How an answer came about, by whoever gave it.
    pub fn of_answer(by: &str) -> Self {
        if by.starts_with("rule:") {
            Self::Rule
        } else if by.starts_with("expiry:") {
            Self::Expiry
        } else if by.starts_with("covered:") {
            Self::Covered
        } else {
            Self::Person
        }
    }

    /// The JSON name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Rule => "rule",
            Self::Expiry => "expiry",
            Self::Covered => "covered",
            Self::Hook => "hook",
            Self::Cli => "cli",
            Self::Withdrawal => "withdrawal",
            Self::Abandonment => "abandonment",
        }
    }
}

/// The kind of the one who ended an approval, by their name in `by`: one of few words, as labels of counters need.
pub fn kind_of_decider(by: &str) -> &'static str {
    let kind = by.split(':').next().unwrap_or_default();
    let kinds = [
        "rest", "login", "ws", "rule", "expiry", "covered", "webhook", "fixed", "cli", "daemon",
    ];
    kinds.into_iter().find(|it| *it == kind).unwrap_or("other")
}

/// How an approval ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resolution {
    /// The state it ended in.
    pub state: ApprovalState,
    /// By what.
    pub how: ApprovalHow,
    /// The one who answered (`rest`, `login:<name>`, `ws:<connection>`, `rule:<rule>`, `expiry:<rule>`, `covered:<by what>`, …); `cli` for a withdrawal, `daemon` for an abandonment.
    pub by: String,
    /// The answer that was given to the CLI, byte for byte.
    pub response: Option<Box<RawValue>>,
    /// Whether the tool got another input than it asked for. Answers to questions count: the CLI takes them as input.
    pub input_changed: bool,
    /// Whether the answer changed permission rules or the mode.
    pub permissions_updated: bool,
    /// SHA-256, in hex, of the input that was let through, byte for byte; `None` where none was, and for one that was stored
    /// before these were kept.
    pub ran_sha256: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}
