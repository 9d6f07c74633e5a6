//! Owns what the errors of the modules below mean to a client.

use std::error::Error;

use serde_json::Value;

use super::{ApiError, ErrorCode};
use crate::{
    domain::{FailReason, rule::InvalidRule},
    http::dto,
    journal::ReadError,
    session::{ChoicesError, SessionError, SpentBudget, WakeFailure},
    store::StoreError,
    supervisor::{Refusal, SupervisorError},
    telemetry,
};

impl From<SupervisorError> for ApiError {
    fn from(error: SupervisorError) -> Self {
        use SupervisorError as E;
        let told = Self::new(error.code());
        match error {
            E::SessionNotFound(_)
            | E::TurnNotFound(_)
            | E::ApprovalNotFound(_)
            | E::RuleNotFound(_)
            | E::EmptyPrompt
            | E::WaitTimeout
            | E::NothingToPutOff
            | E::FileNotNamed
            | E::QueueFull
            | E::ApprovalEnded
            | E::NotInitialized
            | E::ShuttingDown => told,
            E::AlreadyDecided(row) => {
                let approval = serde_json::to_value(dto::Approval::from(*row)).unwrap_or(Value::Null);
                told.member("approval", approval)
            }
            E::Session(error) => error.into(),
            E::CwdMissing { .. }
            | E::CwdNotADirectory { .. }
            | E::CwdNotAbsolute
            | E::CwdOutsideRoots { .. }
            | E::CwdUnreadable { .. }
            | E::ForkCwdDiffers
            | E::CwdUnknown
            | E::CwdDiffers => told.detail(error.to_string()).member("field", "cwd"),
            E::FileOutsideRoots { .. } | E::FileUnreadable { .. } => told.detail(error.to_string()),
            E::InvalidOption(error) => told
                .detail(error.to_string())
                .member("field", format!("options.{}", error.field)),
            E::InvalidRule(error) => Self::of_rule(&error, "rules"),
            E::RuleExists(id) => told.member("rule_id", id),
            E::PromptTooLarge { limit, .. } => told.detail(error.to_string()).member("limit_bytes", limit),
            E::InvalidContent => told
                .detail("content: expected an array of objects")
                .member("field", "content"),
            E::CliNotFound { searched } => {
                let searched: Vec<Value> = searched
                    .iter()
                    .map(|path| path.display().to_string().into())
                    .collect();
                told.member("searched", searched)
            }
            E::KeeperIncompatible { theirs, .. } => {
                told.detail(error.to_string()).member("link_version", theirs)
            }
            E::KeeperUnresponsive { detail } => told.detail(detail),
            E::TooFewFiles => told.retry_after_ms(Refusal::RETRY_AFTER_MS),
            E::StartFailed(reason) => of_failed_start(reason),
            E::SessionEnded { state } => told.member("state", state.as_str()),
            E::ConversationNotStarted
            | E::ParentDeleted
            | E::ConversationNotKept
            | E::ConversationNotFound { .. }
            | E::ResumeRejected { .. } => told.detail(error.to_string()),
            E::BudgetSpent(budget) => of_spent_budget(error.to_string(), budget),
            E::ConversationTaken(by) => told
                .detail(error.to_string())
                .member("session_id", by.to_string()),
            E::MessageNotFound(message) | E::MessageNotForkable { message, .. } => {
                told.detail(error.to_string()).member("uuid", message.to_string())
            }
            E::PromptConflict { uuid } | E::PromptGiven { uuid } | E::PromptNotFound { uuid } => {
                told.member("uuid", uuid.to_string())
            }
            E::Read(error) => error.into(),
            E::Store(error) => error.into(),
            E::Choices(error) => error.into(),
            E::StoreBehind | E::StoredOptions | E::StoredRules(_) | E::Files { .. } | E::Processes(_) => {
                told.caused_by(error)
            }
            E::NoRoom(refusal) => of_refusal(refusal),
            E::ConversationInUse(ref process) => told
                .detail(error.to_string())
                .member("pid", process.pid)
                .member("started_at", process.started_at.map(|at| at.to_string()))
                .member("sign", process.evidence.as_str())
                .member("conversation_id", process.conversation.to_string()),
            E::Closing => told.harmless(),
            E::Undone(error) => Self::from(*error).harmless(),
            E::Partly(error) => Self::from(*error).uncertain(),
        }
    }
}

impl ApiError {
    /// The error of a rule in the list of this name.
    pub(in crate::http) fn of_rule(error: &InvalidRule, list: &str) -> Self {
        let path = error.path_in(list);
        Self::new(ErrorCode::InvalidRule)
            .detail(format!("{path}: {}", error.reason))
            .member("field", path)
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        use SessionError as E;
        let told = Self::new(error.code());
        match error {
            E::CallDeferred
            | E::Stopping
            | E::Busy
            | E::ApprovalNotPending(_)
            | E::AlreadyDecided(_)
            | E::EmptyPrompt
            | E::PromptNotOpen(_)
            | E::Ended
            | E::CutOff => told,
            E::NotLive { state } | E::AlreadyLive { state } => {
                told.detail(error.to_string()).member("state", state.as_str())
            }
            E::NotParkable(obstacle) => told
                .detail(error.to_string())
                .member("obstacle", obstacle.as_str()),
            E::NotWoken(failure) => of_failed_wake(*failure),
            E::StartFailed(reason) => of_failed_start(reason),
            E::StopTimedOut | E::JournalWrite(_) => told.caused_by(error),
            E::KeeperSilent(_) => told.detail(error.to_string()).harmless(),
            E::MayBeTaken { prompt, .. } => {
                let told = told.detail(error.to_string()).uncertain();
                match prompt {
                    Some(uuid) => told.member("uuid", uuid.to_string()),
                    None => told,
                }
            }
            E::InvalidDecision(_) | E::InvalidLine(_) => told.detail(cause_of(&error)),
            E::ControlDeadline { .. }
            | E::CallNotAsked
            | E::ControlNotAllowed { .. }
            | E::RequestNotPending
            | E::RequestOfAnotherClient
            | E::RequestIdInUse
            | E::RequestTakenBack
            | E::SecretNotTaken
            | E::PromptDropped { .. } => told.detail(error.to_string()),
            E::PromptConflict(uuid) => told.member("uuid", uuid.to_string()),
            E::PromptTooLarge { limit, .. } => told.detail(error.to_string()).member("limit_bytes", limit),
            E::Journal(error) => error.into(),
            E::Choices(error) => error.into(),
            E::LetGo => told.harmless(),
            E::Died { state } => told
                .detail(error.to_string())
                .member("state", state.as_str())
                .uncertain(),
            E::Sent(sent) => Self::from(sent.error)
                .uncertain()
                .member("request_id", sent.request_id),
        }
    }
}

/// The words of what lies behind an error, without the error's own.
fn cause_of(error: &SessionError) -> String {
    error.source().map_or_else(|| error.to_string(), telemetry::chain)
}

fn of_refusal(refusal: Refusal) -> ApiError {
    let (limit, most) = match refusal {
        Refusal::Live { most } => ("live_processes", most),
        Refusal::LivePerCwd { most } => ("live_per_cwd", most),
        Refusal::Waiting { most } => ("queued_starts", most),
    };
    ApiError::new(refusal.code())
        .detail(refusal.to_string())
        .member("limit", format!("limits.{limit}"))
        .member("limit_value", most)
        .retry_after_ms(Refusal::RETRY_AFTER_MS)
}

fn of_failed_wake(failure: WakeFailure) -> ApiError {
    if let Some(refusal) = failure.room {
        return of_refusal(refusal);
    }
    if let Some(reason) = failure.reason {
        return of_failed_start(reason);
    }
    if let Some(budget) = failure.budget {
        return of_spent_budget(failure.detail, budget).harmless();
    }
    let error = ApiError::new(failure.code);
    match failure.code {
        ErrorCode::TooFewFiles => error.retry_after_ms(Refusal::RETRY_AFTER_MS),
        ErrorCode::StartFailed => error.detail(failure.detail),
        // Messages that were held back for the process are not sent any more.
        _ => error.detail(failure.detail).harmless(),
    }
}

fn of_spent_budget(detail: String, budget: SpentBudget) -> ApiError {
    ApiError::new(ErrorCode::BudgetSpent)
        .detail(detail)
        .member("limit_usd", budget.limit.as_dollars())
        .member("cost_usd", budget.spent.as_dollars())
        .member("turns_with_unknown_cost", budget.unknown_turns)
}

fn of_failed_start(reason: FailReason) -> ApiError {
    let error = ApiError::new(reason.error_code()).detail(reason.detail);
    if error.code() == ErrorCode::TooFewProcesses {
        return error.retry_after_ms(Refusal::RETRY_AFTER_MS);
    }
    error.member("reason", reason.code)
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let told = Self::new(error.code());
        match error {
            ReadError::Beyond { head } => told
                .detail(format!("the last record is {}", head.seq))
                .member("head_seq", head.seq.get()),
            ReadError::Compacted { oldest } => told
                .detail(format!("the oldest record that is kept is {oldest}"))
                .member("oldest_seq", oldest.get()),
            error => told.caused_by(error),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let told = Self::new(error.code());
        match error {
            StoreError::UnknownSession(_) | StoreError::BadCursor | StoreError::Closed => told,
            StoreError::RevisionDiffers(revision) => {
                told.detail(error.to_string()).member("revision", revision)
            }
            error => told.caused_by(error),
        }
    }
}

impl From<ChoicesError> for ApiError {
    fn from(error: ChoicesError) -> Self {
        let told = Self::new(error.code());
        match error {
            ChoicesError::Damaged { .. } | ChoicesError::Missing { .. } => told.detail(error.to_string()),
            ChoicesError::Unwritten(_) => told.caused_by(error),
        }
    }
}
