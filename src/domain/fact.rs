//! Owns the facts that a session's journal gives to the store: the contract between `session` and `store`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    AgentKind, Approval, ApprovalId, CliSessionId, FailReason, LastLine, Parked, PromptState, PromptUuid,
    RateLimit, Resolution, RunExit, RunId, Seq, SessionId, SessionState, StartMode, TaskNews, Timestamp,
    TodoChange, TurnEnd, Usd,
};

/// Everything that the records up to `seq` of one session add to the tables. Applied in one transaction together with
/// the new projected `seq`, so a fact is never applied twice.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The session.
    pub session: SessionId,
    /// The last record that this covers.
    pub seq: Seq,
    /// The facts in the records, in their order.
    pub facts: Vec<Fact>,
}

/// The longest title of a session, in bytes.
pub const MAX_TITLE_BYTES: usize = 1024;

/// One thing that a record says. Its JSON is kept for records that are removed: members may be added to it with a default.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The session changed state; `reason` is set for `failed`.
    State {
        state: SessionState,
        reason: Option<FailReason>,
        at: Timestamp,
    },
    /// The session is parked; holds until it is in another state.
    Parked(Parked),
    /// The session's conversation has this id from now on.
    CliSession { id: CliSessionId, at: Timestamp },
    /// A process was asked for.
    RunStarted {
        id: RunId,
        mode: StartMode,
        /// The kind of agent; absent in records of older versions.
        agent: Option<AgentKind>,
        /// The message after which it goes on with the conversation, when not at its end.
        resume_at: Option<Uuid>,
        seq: Seq,
        at: Timestamp,
    },
    /// The process exists and answered `initialize`.
    RunReady {
        id: RunId,
        cli_version: Option<String>,
        at: Timestamp,
    },
    /// The process ended.
    RunExited { id: RunId, exit: RunExit, at: Timestamp },
    /// The CLI reports this model.
    Model(String),
    /// Somebody chose a setting while the process ran; the next start applies it.
    Chosen(Chosen),
    /// Somebody had the CLI rename the session.
    Renamed(String),
    /// The CLI reports this permission mode.
    PermissionMode(String),
    /// A prompt came further. `text` is set when it is first seen: the start of its text, for lists.
    Prompt {
        uuid: PromptUuid,
        state: PromptState,
        text: Option<String>,
        seq: Seq,
        at: Timestamp,
    },
    /// The agent said or did something.
    LastLine(Box<LastLine>),
    /// A turn ended.
    TurnEnded(Box<TurnEnd>),
    /// The CLI's running total for this conversation, to start the next run's first difference from.
    CliTotal {
        cli_session: CliSessionId,
        total: CliTotals,
    },
    /// The CLI told of a task.
    Task {
        news: Box<TaskNews>,
        run: RunId,
        seq: Seq,
        at: Timestamp,
    },
    /// A tool changed the list of what the agent means to do.
    Todos {
        change: Box<TodoChange>,
        seq: Seq,
        at: Timestamp,
    },
    /// The CLI told of a limit of its account.
    RateLimit(Box<RateLimit>),
    /// Something needs a person.
    ApprovalOpened(Box<Approval>),
    /// A rule matched it, another one does, or none does any more.
    ApprovalRuled {
        id: ApprovalId,
        rule: Option<String>,
        deadline: Option<Timestamp>,
    },
    /// It needs nobody any more.
    ApprovalClosed { id: ApprovalId, resolution: Resolution },
    /// A call that it let pass did not run: others held it.
    ApprovalOverruled(ApprovalId),
    /// Records are missing from the journal: the tables alone know what they said.
    RecordsMissing,
}

/// A launch option that was chosen while the process ran. `None` is the CLI's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chosen {
    /// `model`.
    Model(Option<String>),
    /// `max_thinking_tokens`.
    MaxThinkingTokens(Option<u32>),
    /// The permission mode, which the CLI reports as well when it is another one.
    PermissionMode,
}

/// The CLI's running totals of one conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CliTotals {
    /// `total_cost_usd`; `None` when it was never printed.
    pub cost_usd: Option<Usd>,
    /// `modelUsage`.
    pub models: Vec<super::ModelUsage>,
}
