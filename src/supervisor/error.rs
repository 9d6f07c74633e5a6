//! Owns what can go wrong with a request to the supervisor.

use std::path::PathBuf;

use uuid::Uuid;

use crate::{
    admission::Refusal,
    claude::InvalidOption,
    domain::{
        ApprovalId, ApprovalState, CliSessionId, ErrorCode, FailReason, PromptUuid, SessionId, SessionState,
        rule::InvalidRule,
    },
    journal::ReadError,
    keeper::{self, ForeignProcess},
    session::{ChoicesError, SessionError, SpentBudget},
    store::{ApprovalRow, StoreError},
};

use super::budget::unknown_words;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// There is no such session.
    #[error("there is no session {0}")]
    SessionNotFound(SessionId),
    /// No such turn has ended in this session.
    #[error("no turn {0} has ended")]
    TurnNotFound(u64),
    /// There is no such approval in this session.
    #[error("there is no approval {0}")]
    ApprovalNotFound(ApprovalId),
    /// Somebody else's answer came first, or nobody can answer any more; the row says which.
    #[error("the approval is already {}", .0.state().as_str())]
    AlreadyDecided(Box<ApprovalRow>),
    /// The session itself refused.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The working directory does not exist.
    #[error("the working directory {cwd} does not exist")]
    CwdMissing {
        /// The directory.
        cwd: String,
    },
    /// The working directory is something else.
    #[error("{cwd} is not a directory")]
    CwdNotADirectory {
        /// The path.
        cwd: String,
    },
    /// The working directory is not an absolute path.
    #[error("the working directory must be an absolute path")]
    CwdNotAbsolute,
    /// The configuration does not allow sessions there.
    #[error("sessions are not allowed in {cwd}")]
    CwdOutsideRoots {
        /// The resolved directory.
        cwd: String,
    },
    /// The working directory can't be entered.
    #[error("the working directory {cwd} can't be read")]
    CwdUnreadable {
        /// The directory.
        cwd: String,
    },
    /// A launch option has no valid value.
    #[error("invalid launch option")]
    InvalidOption(#[source] InvalidOption),
    /// The choices of people cannot be read or kept.
    #[error(transparent)]
    Choices(ChoicesError),
    /// A rule cannot be used.
    #[error("invalid rule")]
    InvalidRule(#[source] InvalidRule),
    /// There is no such rule in this session.
    #[error("there is no rule {0}")]
    RuleNotFound(String),
    /// The session has a rule with this id already.
    #[error("there is a rule {0} already")]
    RuleExists(String),
    /// The prompt is too long.
    #[error("the prompt has {bytes} bytes; {limit} are allowed")]
    PromptTooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The prompt says nothing.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The content blocks are no JSON list of objects.
    #[error("the prompt's content is not a list of blocks")]
    InvalidContent,
    /// The process lives, and the keeper that has it is of a version that this one cannot talk to.
    #[error(
        "the session is kept by trunkline {program}, which speaks version {theirs} of the link; this program speaks {} to {}",
        keeper::OLDEST_LINK_VERSION,
        keeper::LINK_VERSION
    )]
    KeeperIncompatible {
        /// The version of the program that runs as keeper.
        program: String,
        /// The newest version of the link that it speaks.
        theirs: u32,
    },
    /// The process lives, and the keeper that has it says nothing; or it may live, as this daemon could not look.
    #[error("{detail}")]
    KeeperUnresponsive {
        /// Which of the two, for people.
        detail: String,
    },
    /// The daemon has hardly any file descriptor left.
    #[error("the daemon has too few file descriptors left for another process")]
    TooFewFiles,
    /// No CLI was found.
    #[error("no claude CLI was found")]
    CliNotFound {
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// The session has no conversation that could be copied yet.
    #[error("the conversation of the session has no turn yet to fork from")]
    ConversationNotStarted,
    /// The CLI was told to keep nothing, so what was said ended with the process.
    #[error(
        "the session keeps no conversation (persist_session is false), so there is nothing to go on from"
    )]
    ConversationNotKept,
    /// The turns of the session have cost what it may cost.
    #[error(
        "the session may cost {} dollars (max_budget_usd) and has cost {}{}",
        .0.limit.as_dollars(),
        .0.spent.as_dollars(),
        unknown_words(.0.unknown_turns)
    )]
    BudgetSpent(SpentBudget),
    /// The session that a fork without a turn would copy was deleted.
    #[error("the session that this fork copies was deleted")]
    ParentDeleted,
    /// Another session has the conversation that a new one was to go on with.
    #[error("session {0} has this conversation")]
    ConversationTaken(SessionId),
    /// The CLI does not know the conversation that a new session was to go on with.
    #[error("the CLI knows no conversation {id}: {detail}")]
    ConversationNotFound {
        /// Its id.
        id: CliSessionId,
        /// The outcome of the start.
        detail: String,
    },
    /// No message of the session has this id.
    #[error("the session has no message {0}")]
    MessageNotFound(Uuid),
    /// No conversation can go on from this message.
    #[error("no conversation can go on from message {message}: {why}")]
    MessageNotForkable {
        /// Its id.
        message: Uuid,
        /// The reason.
        why: &'static str,
    },
    /// More is behind the message than the turn that was to be dropped.
    #[error("{detail}")]
    ResumeRejected {
        /// The words of the CLI.
        detail: String,
    },
    /// No CLI session with a transcript could be copied into another directory.
    #[error("a fork keeps the working directory of its parent")]
    ForkCwdDiffers,
    /// The file of the session was lost, and with it where it works.
    #[error("the file of the session was lost, and no record says where it works")]
    CwdUnknown,
    /// A session stays where it is.
    #[error("the session works in another directory, and stays there")]
    CwdDiffers,
    /// The wait took longer than asked for; what was waited for goes on.
    #[error("the wait timed out")]
    WaitTimeout,
    /// A prompt's id was used for another prompt.
    #[error("prompt {uuid} was sent before with other content")]
    PromptConflict {
        /// The id.
        uuid: PromptUuid,
    },
    /// A start that failed.
    #[error("the session could not be started: {}", .0.detail)]
    StartFailed(FailReason),
    /// The session ended meanwhile.
    #[error("the session is {}", state.as_str())]
    SessionEnded {
        /// The state it is in.
        state: SessionState,
    },
    /// The journal could not be read.
    #[error("the journal could not be read")]
    Read(#[source] ReadError),
    /// The store could not be used.
    #[error("the store could not be used")]
    Store(#[source] StoreError),
    /// The launch options of a session can't be read or written.
    #[error("the stored launch options can't be read")]
    StoredOptions,
    /// The rules of a session can't be read.
    #[error("the stored rules can't be read")]
    StoredRules(#[source] InvalidRule),
    /// Facts could not be written to the store.
    #[error("the store is behind")]
    StoreBehind,
    /// A file or folder of the data directory could not be used.
    #[error("{path} could not be used")]
    Files {
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        error: std::io::Error,
    },
    /// An approval is about no file.
    #[error("the approval is about no file")]
    FileNotNamed,
    /// A file lies outside of the roots.
    #[error("{path} lies outside of sessions.cwd_roots")]
    FileOutsideRoots {
        /// The file.
        path: String,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {why}")]
    FileUnreadable {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The agent no longer waits for the approval.
    #[error("the approval has ended")]
    ApprovalEnded,
    /// The CLI has the message already.
    #[error("the agent CLI was given message {uuid} already")]
    PromptGiven {
        /// Its id.
        uuid: PromptUuid,
    },
    /// No message with this id waits.
    #[error("no message {uuid} waits for the session")]
    PromptNotFound {
        /// The id.
        uuid: PromptUuid,
    },
    /// As many messages wait for the session as may.
    #[error("as many messages wait for the session as may")]
    QueueFull,
    /// The session needs nobody.
    #[error("the session needs nobody")]
    NothingToPutOff,
    /// The CLI has not said yet what it offers.
    #[error("the CLI has not said yet what it offers")]
    NotInitialized,
    /// There is no room for another process.
    #[error(transparent)]
    NoRoom(#[from] Refusal),
    /// A process that is none of the session's works on its conversation.
    #[error("the conversation is in use by another process: {0}")]
    ConversationInUse(ForeignProcess),
    /// The processes of this machine can't be listed.
    #[error("the processes of this machine can't be listed")]
    Processes(#[source] std::io::Error),
    /// The daemon is ending.
    #[error("the daemon is shutting down")]
    ShuttingDown,
    /// The daemon is ending, and has done nothing of what was asked.
    #[error("the daemon is shutting down")]
    Closing,
    /// Part of what was asked was done before this.
    #[error(transparent)]
    Partly(Box<Self>),
    /// The daemon undid the part that was done before this.
    #[error(transparent)]
    Undone(Box<Self>),
}

impl From<StoreError> for SupervisorError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::ConversationTaken(by) => Self::ConversationTaken(by),
            error => Self::Store(error),
        }
    }
}

impl SupervisorError {
    /// The code of the fault, the same on every transport.
    pub fn code(&self) -> ErrorCode {
        use ErrorCode as C;
        match self {
            Self::SessionNotFound(_) => C::SessionNotFound,
            Self::TurnNotFound(_) => C::TurnNotFound,
            Self::ApprovalNotFound(_) => C::ApprovalNotFound,
            Self::AlreadyDecided(row) => code_of_ended(row.state()),
            Self::Session(error) => error.code(),
            Self::CwdMissing { .. } => C::CwdMissing,
            Self::CwdNotADirectory { .. } => C::CwdNotADirectory,
            Self::CwdNotAbsolute => C::CwdNotAbsolute,
            Self::CwdOutsideRoots { .. } => C::CwdOutsideRoots,
            Self::CwdUnreadable { .. } => C::CwdUnreadable,
            Self::ForkCwdDiffers => C::ForkCwdDiffers,
            Self::CwdUnknown => C::CwdUnknown,
            Self::CwdDiffers => C::CwdDiffers,
            Self::InvalidOption(_) => C::InvalidOption,
            Self::InvalidRule(_) => C::InvalidRule,
            Self::RuleNotFound(_) => C::RuleNotFound,
            Self::RuleExists(_) => C::RuleExists,
            Self::PromptTooLarge { .. } => C::PromptTooLarge,
            Self::EmptyPrompt => C::EmptyPrompt,
            Self::InvalidContent => C::InvalidField,
            Self::CliNotFound { .. } => C::CliNotFound,
            Self::KeeperIncompatible { .. } => C::KeeperIncompatible,
            Self::KeeperUnresponsive { .. } => C::KeeperUnresponsive,
            Self::TooFewFiles => C::TooFewFiles,
            Self::StartFailed(reason) => reason.error_code(),
            Self::WaitTimeout => C::WaitTimeout,
            Self::SessionEnded { .. } => C::SessionEnded,
            Self::ConversationNotStarted | Self::ParentDeleted => C::ConversationNotStarted,
            Self::ConversationNotKept => C::ConversationNotKept,
            Self::BudgetSpent(_) => C::BudgetSpent,
            Self::ConversationTaken(_) => C::ConversationTaken,
            Self::ConversationNotFound { .. } => C::ConversationNotFound,
            Self::MessageNotFound(_) => C::MessageNotFound,
            Self::MessageNotForkable { .. } => C::MessageNotForkable,
            Self::ResumeRejected { .. } => C::ResumeRejected,
            Self::PromptConflict { .. } => C::PromptConflict,
            Self::Read(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Choices(error) => error.code(),
            Self::Files { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => {
                C::StorageUnavailable
            }
            Self::StoreBehind => C::StorageUnavailable,
            Self::StoredOptions | Self::StoredRules(_) | Self::Files { .. } => C::StorageFailed,
            Self::NoRoom(refusal) => refusal.code(),
            Self::ConversationInUse(_) => C::ConversationInUse,
            Self::Processes(_) => C::Internal,
            Self::PromptGiven { .. } => C::PromptGiven,
            Self::PromptNotFound { .. } => C::PromptNotFound,
            Self::QueueFull => C::QueueFull,
            Self::FileNotNamed => C::FileNotNamed,
            Self::FileOutsideRoots { .. } => C::FileOutsideRoots,
            Self::FileUnreadable { .. } => C::FileUnreadable,
            Self::ApprovalEnded => C::ApprovalNotPending,
            Self::NothingToPutOff => C::NothingToPutOff,
            Self::NotInitialized => C::NotInitialized,
            Self::ShuttingDown | Self::Closing => C::ShuttingDown,
            Self::Undone(error) | Self::Partly(error) => error.code(),
        }
    }

    /// As it is after all that had been done was undone. Other errors say by themselves what stays.
    pub(super) fn undone(self) -> Self {
        match self {
            Self::Store(_) | Self::StoreBehind | Self::Files { .. } | Self::ShuttingDown => {
                Self::Undone(Box::new(self))
            }
            error => error,
        }
    }

    /// As it is after part of what was asked was done.
    pub(super) fn partly(self) -> Self {
        Self::Partly(Box::new(self))
    }

    pub(super) fn files(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Files { path, error }
    }
}

/// The code for an answer to an approval that has ended like this.
const fn code_of_ended(state: ApprovalState) -> ErrorCode {
    match state {
        ApprovalState::Withdrawn | ApprovalState::Abandoned => ErrorCode::ApprovalNotPending,
        ApprovalState::Pending
        | ApprovalState::Allowed
        | ApprovalState::Denied
        | ApprovalState::Cancelled
        | ApprovalState::Changed
        | ApprovalState::Overruled => ErrorCode::AlreadyDecided,
    }
}
