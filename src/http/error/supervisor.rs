//! Owns what the errors of the modules below mean to a client.

use std::error::Error;

use axum::http::{HeaderValue, header};
use serde_json::Value;

use super::{ApiError, ErrorCode};
use crate::{
    domain::{ApprovalState, FailReason, rule::InvalidRule},
    http::dto,
    journal::ReadError,
    session::{ChoicesError, SessionError, Silence, SpentBudget, WakeFailure},
    store::{ApprovalRow, StoreError},
    supervisor::{Refusal, SupervisorError},
    telemetry,
};

impl From<SupervisorError> for ApiError {
    fn from(error: SupervisorError) -> Self {
        use SupervisorError as E;
        let new = Self::new;
        let of_cwd = |code, detail: &E| Self::new(code).detail(detail.to_string()).member("field", "cwd");
        match error {
            E::SessionNotFound(_) => new(ErrorCode::SessionNotFound),
            E::ApprovalNotFound(_) => new(ErrorCode::ApprovalNotFound),
            E::AlreadyDecided(row) => of_ended_approval(*row),
            E::Session(error) => error.into(),
            E::CwdMissing { .. } => of_cwd(ErrorCode::CwdMissing, &error),
            E::CwdNotADirectory { .. } => of_cwd(ErrorCode::CwdNotADirectory, &error),
            E::CwdNotAbsolute => of_cwd(ErrorCode::CwdNotAbsolute, &error),
            E::CwdOutsideRoots { .. } => of_cwd(ErrorCode::CwdOutsideRoots, &error),
            E::CwdUnreadable { .. } => of_cwd(ErrorCode::CwdUnreadable, &error),
            E::ForkCwdDiffers => of_cwd(ErrorCode::ForkCwdDiffers, &error),
            E::InvalidOption(error) => new(ErrorCode::InvalidOption)
                .detail(error.to_string())
                .member("field", format!("options.{}", error.field)),
            E::InvalidRule(error) => Self::of_rule(&error, "rules"),
            E::RuleNotFound(_) => new(ErrorCode::RuleNotFound),
            E::RuleExists(id) => new(ErrorCode::RuleExists).member("rule_id", id),
            E::PromptTooLarge { limit, .. } => new(ErrorCode::PromptTooLarge)
                .detail(error.to_string())
                .member("limit_bytes", limit),
            E::EmptyPrompt => new(ErrorCode::EmptyPrompt),
            E::InvalidContent => new(ErrorCode::InvalidField)
                .detail("content: expected an array of objects")
                .member("field", "content"),
            E::CliNotFound { searched } => {
                let searched: Vec<Value> = searched
                    .iter()
                    .map(|path| path.display().to_string().into())
                    .collect();
                new(ErrorCode::CliNotFound).member("searched", searched)
            }
            E::KeeperIncompatible { theirs, .. } => new(ErrorCode::KeeperIncompatible)
                .detail(error.to_string())
                .member("link_version", theirs),
            E::KeeperUnresponsive { detail } => new(ErrorCode::KeeperUnresponsive).detail(detail),
            E::TooFewFiles => of_too_few_files(),
            E::StartFailed(reason) => of_failed_start(reason),
            E::WaitTimeout => new(ErrorCode::WaitTimeout),
            E::SessionEnded { state } => new(ErrorCode::SessionEnded).member("state", state.as_str()),
            E::ConversationNotStarted | E::ParentDeleted => {
                new(ErrorCode::ConversationNotStarted).detail(error.to_string())
            }
            E::ConversationNotKept => new(ErrorCode::ConversationNotKept).detail(error.to_string()),
            E::BudgetSpent(budget) => of_spent_budget(error.to_string(), budget),
            E::ConversationTaken(by) => new(ErrorCode::ConversationTaken)
                .detail(error.to_string())
                .member("session_id", by.to_string()),
            E::ConversationNotFound { .. } => new(ErrorCode::ConversationNotFound).detail(error.to_string()),
            E::MessageNotFound(at) => new(ErrorCode::MessageNotFound)
                .detail(error.to_string())
                .member("uuid", at.to_string()),
            E::MessageNotForkable { message, .. } => new(ErrorCode::MessageNotForkable)
                .detail(error.to_string())
                .member("uuid", message.to_string()),
            E::PromptConflict { uuid } => new(ErrorCode::PromptConflict).member("uuid", uuid.to_string()),
            E::Read(error) => error.into(),
            E::Store(error) => error.into(),
            E::Files { error: ref cause, .. } if cause.kind() == std::io::ErrorKind::StorageFull => {
                new(ErrorCode::StorageUnavailable).caused_by(error)
            }
            E::Choices(error) => of_choices(error),
            E::StoreBehind => new(ErrorCode::StorageUnavailable).caused_by(error),
            E::StoredOptions | E::StoredRules(_) | E::Files { .. } => {
                new(ErrorCode::StorageFailed).caused_by(error)
            }
            E::NoRoom(refusal) => of_refusal(refusal),
            E::ConversationInUse(ref outsider) => new(ErrorCode::ConversationInUse)
                .detail(error.to_string())
                .member("pid", outsider.pid)
                .member("started_at", outsider.started_at.map(|at| at.to_string()))
                .member("sign", outsider.sign.as_str())
                .member("conversation_id", outsider.conversation.to_string()),
            E::Processes(_) => new(ErrorCode::Internal).caused_by(error),
            E::NotInitialized => new(ErrorCode::NotInitialized),
            E::ShuttingDown => new(ErrorCode::ShuttingDown),
            E::Closing => new(ErrorCode::ShuttingDown).harmless(),
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

const fn of_silence(why: Silence) -> ErrorCode {
    match why {
        Silence::Keeper => ErrorCode::KeeperUnresponsive,
        Silence::Disk => ErrorCode::StorageUnavailable,
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        use SessionError as E;
        let new = Self::new;
        match error {
            E::NotLive { state } => new(ErrorCode::SessionNotLive)
                .detail(error.to_string())
                .member("state", state.as_str()),
            E::NotParkable(obstacle) => new(ErrorCode::SessionNotParkable)
                .detail(error.to_string())
                .member("obstacle", obstacle.as_str()),
            E::NotWoken(failure) => of_failed_wake(*failure),
            E::AlreadyLive { state } => new(ErrorCode::SessionAlreadyLive)
                .detail(error.to_string())
                .member("state", state.as_str()),
            E::CallDeferred => new(ErrorCode::CallDeferred),
            E::Stopping => new(ErrorCode::SessionStopping),
            E::StartFailed(reason) => of_failed_start(reason),
            E::StopTimedOut => new(ErrorCode::StopTimedOut).caused_by(error),
            E::KeeperSilent(why) => new(of_silence(why)).detail(error.to_string()).harmless(),
            E::MayBeTaken { why, prompt } => {
                let problem = new(of_silence(why)).detail(error.to_string()).uncertain();
                match prompt {
                    Some(uuid) => problem.member("uuid", uuid.to_string()),
                    None => problem,
                }
            }
            E::Busy => new(ErrorCode::Busy),
            E::ControlDeadline { .. } | E::CallNotAsked => {
                new(ErrorCode::ControlDeadline).detail(error.to_string())
            }
            E::ApprovalNotPending(_) => new(ErrorCode::ApprovalNotPending),
            E::AlreadyDecided(_) => new(ErrorCode::AlreadyDecided),
            E::InvalidDecision(_) => new(ErrorCode::InvalidDecision).detail(cause_of(&error)),
            E::InvalidLine(_) => new(ErrorCode::InvalidLine).detail(cause_of(&error)),
            E::ControlNotAllowed { .. } => new(ErrorCode::ControlNotAllowed).detail(error.to_string()),
            E::RequestNotPending
            | E::RequestOfAnotherClient
            | E::RequestIdInUse
            | E::RequestTakenBack
            | E::SecretNotTaken => new(ErrorCode::InvalidLine).detail(error.to_string()),
            E::PromptConflict(uuid) => new(ErrorCode::PromptConflict).member("uuid", uuid.to_string()),
            E::PromptTooLarge { limit, .. } => new(ErrorCode::PromptTooLarge)
                .detail(error.to_string())
                .member("limit_bytes", limit),
            E::EmptyPrompt => new(ErrorCode::EmptyPrompt),
            E::PromptDropped { .. } => new(ErrorCode::PromptDropped).detail(error.to_string()),
            E::PromptNotOpen(_) => new(ErrorCode::PromptNotOpen),
            E::Journal(error) => error.into(),
            E::Choices(error) => of_choices(error),
            E::JournalWrite(_) => new(ErrorCode::StorageUnavailable).caused_by(error),
            E::Ended => new(ErrorCode::SessionEnded),
            E::LetGo => new(ErrorCode::ShuttingDown).harmless(),
            E::CutOff => new(ErrorCode::ShuttingDown),
            E::Died { state } => new(ErrorCode::SessionNotLive)
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
    let (code, limit, most) = match refusal {
        Refusal::Live { most } => (ErrorCode::TooManySessions, "live_processes", most),
        Refusal::LivePerCwd { most } => (ErrorCode::TooManySessions, "live_per_cwd", most),
        Refusal::Waiting { most } => (ErrorCode::StartQueueFull, "queued_starts", most),
    };
    ApiError::new(code)
        .detail(refusal.to_string())
        .member("limit", format!("limits.{limit}"))
        .member("limit_value", most)
        .header(
            header::RETRY_AFTER,
            HeaderValue::from(Refusal::RETRY_AFTER_MS / 1_000),
        )
}

fn of_too_few_files() -> ApiError {
    ApiError::new(ErrorCode::TooFewFiles).header(
        header::RETRY_AFTER,
        HeaderValue::from(Refusal::RETRY_AFTER_MS / 1_000),
    )
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
    let code = ErrorCode::named(failure.code).unwrap_or(ErrorCode::Internal);
    if code == ErrorCode::TooFewFiles {
        return of_too_few_files();
    }
    // Messages that were held back for the process are not sent any more.
    let error = ApiError::new(code).detail(failure.detail);
    if code == ErrorCode::StartFailed {
        return error;
    }
    error.harmless()
}

fn of_spent_budget(detail: String, budget: SpentBudget) -> ApiError {
    ApiError::new(ErrorCode::BudgetSpent)
        .detail(detail)
        .member("limit_usd", budget.limit.as_dollars())
        .member("cost_usd", budget.spent.as_dollars())
        .member("turns_with_unknown_cost", budget.unknown_turns)
}

fn of_failed_start(reason: FailReason) -> ApiError {
    if reason.code == FailReason::TOO_FEW_PROCESSES {
        return ApiError::new(ErrorCode::TooFewProcesses)
            .detail(reason.detail)
            .header(
                header::RETRY_AFTER,
                HeaderValue::from(Refusal::RETRY_AFTER_MS / 1_000),
            );
    }
    let code = match reason.code.as_str() {
        FailReason::STORAGE_UNAVAILABLE => ErrorCode::StorageUnavailable,
        FailReason::CONVERSATION_TAKEN => ErrorCode::ConversationTaken,
        _ => ErrorCode::StartFailed,
    };
    ApiError::new(code)
        .detail(reason.detail)
        .member("reason", reason.code)
}

fn of_ended_approval(row: ApprovalRow) -> ApiError {
    let code = match row.state() {
        ApprovalState::Withdrawn | ApprovalState::Abandoned => ErrorCode::ApprovalNotPending,
        ApprovalState::Pending
        | ApprovalState::Allowed
        | ApprovalState::Denied
        | ApprovalState::Cancelled
        | ApprovalState::Changed
        | ApprovalState::Overruled => ErrorCode::AlreadyDecided,
    };
    let approval = serde_json::to_value(dto::Approval::from(row)).unwrap_or(Value::Null);
    ApiError::new(code).member("approval", approval)
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Beyond { head } => Self::new(ErrorCode::SeqBeyondHead)
                .detail(format!("the last record is {}", head.seq))
                .member("head_seq", head.seq.get()),
            ReadError::Compacted { oldest } => Self::new(ErrorCode::RecordsCompacted)
                .detail(format!("the oldest record that is kept is {oldest}"))
                .member("oldest_seq", oldest.get()),
            error => Self::new(ErrorCode::StorageFailed).caused_by(error),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownSession(_) => Self::new(ErrorCode::SessionNotFound),
            StoreError::BadCursor => Self::new(ErrorCode::InvalidCursor),
            StoreError::Closed => Self::new(ErrorCode::ShuttingDown),
            StoreError::ReadOnly { .. } | StoreError::Moved { .. } => {
                Self::new(ErrorCode::StorageUnavailable).caused_by(error)
            }
            error if error.is_transient() => Self::new(ErrorCode::StorageUnavailable).caused_by(error),
            error => Self::new(ErrorCode::StorageFailed).caused_by(error),
        }
    }
}

fn of_choices(error: ChoicesError) -> ApiError {
    match error {
        ChoicesError::Damaged { .. } => ApiError::new(ErrorCode::ChoicesDamaged).detail(error.to_string()),
        ChoicesError::Missing { .. } => ApiError::new(ErrorCode::ChoicesMissing).detail(error.to_string()),
        ChoicesError::Unwritten(_) => ApiError::new(ErrorCode::StorageUnavailable).caused_by(error),
    }
}
