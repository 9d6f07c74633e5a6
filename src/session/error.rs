//! Owns what can go wrong with a request to a session.

use crate::{
    claude::{BadAnswer, BadLine},
    domain::{ApprovalId, ErrorCode, FailReason, ParkObstacle, PromptState, PromptUuid, SessionState},
    journal::ReadError,
};

use super::{choices::ChoicesError, park::WakeFailure};

/// The obstacle for a keeper that does not say that it has what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It does nothing.
    Keeper,
    /// The disk takes no record.
    Disk,
}

impl Silence {
    /// The code of the fault.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Keeper => ErrorCode::KeeperUnresponsive,
            Self::Disk => ErrorCode::StorageUnavailable,
        }
    }
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keeper => "the keeper of the session's process lives and does not answer",
            Self::Disk => "the disk has no room for the session's journal",
        })
    }
}

/// Why a session did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no process to talk to.
    #[error("the session is {}", state.as_str())]
    NotLive {
        /// The state it is in.
        state: SessionState,
    },
    /// There is a process already.
    #[error("the session is already {}", state.as_str())]
    AlreadyLive {
        /// The state it is in.
        state: SessionState,
    },
    /// The process cannot be ended to save memory.
    #[error("the session {}", .0.words())]
    NotParkable(ParkObstacle),
    /// The session is parked, and no process could be started for what was sent to it.
    #[error("the parked session could not be woken: {}", .0.detail)]
    NotWoken(Box<WakeFailure>),
    /// A hook put the call of a tool off, and the CLI would drop it at the next message.
    #[error("the call of a tool that a hook put off is to be decided first")]
    CallDeferred,
    /// The process that was to ask about a call which a hook had put off has not asked.
    #[error("the CLI was started and has not asked about the call that was put off; it can be decided again")]
    CallNotAsked,
    /// The process is being stopped.
    #[error("the session is being stopped")]
    Stopping,
    /// No process could be started.
    #[error("the session could not be started: {}", .0.detail)]
    StartFailed(FailReason),
    /// The stop did not finish within its deadline.
    #[error("the session did not stop in time")]
    StopTimedOut,
    /// The keeper lives and says nothing; nothing was given to it.
    #[error("{0}")]
    KeeperSilent(Silence),
    /// The keeper was given it and says nothing.
    #[error("{why}; what was given may be taken later")]
    MayBeTaken {
        /// The obstacle.
        why: Silence,
        /// The message, if it is one. It is taken once, however often it is sent under this id.
        prompt: Option<PromptUuid>,
    },
    /// More waits for stdin than the limit allows.
    #[error("too much waits to be written to the CLI")]
    Busy,
    /// The CLI did not answer a control request in time.
    #[error("the CLI did not answer {subtype} within {ms} ms")]
    ControlDeadline {
        /// The subtype of the request.
        subtype: String,
        /// The deadline.
        ms: u64,
    },
    /// No such approval is pending here.
    #[error("no approval {0} is pending")]
    ApprovalNotPending(ApprovalId),
    /// Somebody else's answer came first.
    #[error("the approval is already decided")]
    AlreadyDecided(ApprovalId),
    /// The answer would not be accepted by the CLI.
    #[error("invalid decision")]
    InvalidDecision(#[source] BadAnswer),
    /// A client's line can't be given to the CLI.
    #[error("invalid line")]
    InvalidLine(#[source] BadLine),
    /// The same prompt id came with other content.
    #[error("prompt {0} was sent before with other content")]
    PromptConflict(PromptUuid),
    /// The prompt is over the limit.
    #[error("the message has {bytes} bytes, the limit is {limit}")]
    PromptTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The prompt says nothing.
    #[error("the message has no content")]
    EmptyPrompt,
    /// The prompt ended without a turn.
    #[error("the prompt was {state}")]
    PromptDropped {
        /// How it ended.
        state: PromptState,
    },
    /// No such prompt is open.
    #[error("message {0} has no pending turn")]
    PromptNotOpen(PromptUuid),
    /// No request of the CLI with this id waits for an answer.
    #[error("no request of the CLI with this id is pending")]
    RequestNotPending,
    /// No client may send this control request, or not this way.
    #[error("{subtype} cannot be sent: {why}")]
    ControlNotAllowed {
        /// The subtype of the request.
        subtype: String,
        /// Why.
        why: &'static str,
    },
    /// A client took a request back that had not been sent.
    #[error("the client cancelled the request before the CLI got it")]
    RequestTakenBack,
    /// The request waits for the answer of another client, or of no client.
    #[error("another client answers this request")]
    RequestOfAnotherClient,
    /// The keeper is of an older version, which would journal what a client gives.
    #[error("the secret could not be kept out of the journal; restart the session, so that it can be")]
    SecretNotTaken,
    /// A client repeated the id of a request that is still open.
    #[error("a request of this client with the same id is still open")]
    RequestIdInUse,
    /// The choices of people cannot be read or kept.
    #[error(transparent)]
    Choices(#[from] ChoicesError),
    /// The journal could not be read.
    #[error("the journal could not be read")]
    Journal(#[source] ReadError),
    /// The journal could not be written.
    #[error("the journal could not be written: {0}")]
    JournalWrite(String),
    /// The session is gone.
    #[error("the session has ended")]
    Ended,
    /// The daemon ends and has let go of the session; nothing was done.
    #[error("the daemon is shutting down")]
    LetGo,
    /// The daemon ended while the session worked on what was asked.
    #[error("the daemon is shutting down, and what became of the request is not known")]
    CutOff,
    /// The process ended after it was asked.
    #[error("the session is {state}, and what became of the request is not known", state = state.as_str())]
    Died {
        /// The state it is in.
        state: SessionState,
    },
    /// A control request that was sent has no answer.
    #[error(transparent)]
    Sent(Box<SentError>),
}

/// Why there is no answer to a control request that was sent.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct SentError {
    /// The id under which the CLI knows the request.
    pub request_id: String,
    /// Why.
    #[source]
    pub error: SessionError,
}

impl SessionError {
    /// As it is for a control request that was sent under this id.
    pub(super) fn of_sent(self, request_id: &str) -> Self {
        Self::Sent(Box::new(SentError {
            request_id: request_id.to_owned(),
            error: self,
        }))
    }

    /// Whether there is no process that could do anything, or there soon will be none.
    pub(crate) fn is_of_no_process(&self) -> bool {
        match self {
            Self::NotLive { .. } | Self::Died { .. } | Self::Stopping => true,
            Self::Sent(sent) => sent.error.is_of_no_process(),
            _ => false,
        }
    }

    /// The code of the fault, the same on every transport.
    pub fn code(&self) -> ErrorCode {
        use ErrorCode as C;
        match self {
            Self::NotLive { .. } | Self::Died { .. } => C::SessionNotLive,
            Self::AlreadyLive { .. } => C::SessionAlreadyLive,
            Self::NotParkable(_) => C::SessionNotParkable,
            Self::NotWoken(failure) => failure.code,
            Self::CallDeferred => C::CallDeferred,
            Self::Stopping => C::SessionStopping,
            Self::StartFailed(reason) => reason.error_code(),
            Self::StopTimedOut => C::StopTimeout,
            Self::KeeperSilent(why) | Self::MayBeTaken { why, .. } => why.code(),
            Self::Busy => C::InputBlocked,
            Self::ControlDeadline { .. } | Self::CallNotAsked => C::ControlTimeout,
            Self::ApprovalNotPending(_) => C::ApprovalNotPending,
            Self::AlreadyDecided(_) => C::AlreadyDecided,
            Self::InvalidDecision(_) => C::InvalidDecision,
            Self::InvalidLine(_) => C::InvalidLine,
            Self::PromptConflict(_) => C::PromptConflict,
            Self::PromptTooLarge { .. } => C::PromptTooLarge,
            Self::EmptyPrompt => C::EmptyPrompt,
            Self::PromptDropped { .. } => C::PromptDropped,
            Self::PromptNotOpen(_) => C::PromptNotPending,
            Self::RequestNotPending => C::RequestNotPending,
            Self::ControlNotAllowed { .. } => C::ControlNotAllowed,
            Self::RequestTakenBack => C::RequestCancelled,
            Self::RequestOfAnotherClient => C::RequestNotOwned,
            Self::SecretNotTaken => C::SecretRefused,
            Self::RequestIdInUse => C::RequestIdInUse,
            Self::Choices(error) => error.code(),
            Self::Journal(error) => error.code(),
            Self::JournalWrite(_) => C::StorageUnavailable,
            Self::Ended => C::SessionEnded,
            Self::LetGo | Self::CutOff => C::ShuttingDown,
            Self::Sent(sent) => sent.error.code(),
        }
    }

    /// Whether a client's answer came after the request had ended.
    pub fn is_late_answer(&self) -> bool {
        matches!(
            self,
            Self::RequestNotPending | Self::ApprovalNotPending(_) | Self::AlreadyDecided(_)
        )
    }
}
