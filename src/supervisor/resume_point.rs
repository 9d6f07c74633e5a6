//! Owns the message in place at which a conversation goes on: what is known of it before a start, and what the CLI says to it.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    claude::Start,
    domain::{FailReason, SessionState},
    session::SessionHandle,
    store::SessionRow,
};

use super::{
    ResumePoint, Supervisor, SupervisorError,
    adoption::adopted,
    fork_point::{self, Found},
};

/// The message after which the conversation of a session goes on since an earlier start, while nothing was said behind it. One that the
/// CLI refused counts no more.
pub(super) fn pending_point(row: &SessionRow) -> Option<Uuid> {
    let code = row.state_reason.as_ref().map(|reason| reason.code.as_str());
    let is_refused = matches!(
        code,
        Some(FailReason::MESSAGE_NOT_FOUND | FailReason::RESUME_REJECTED)
    );
    row.resume_at.filter(|_| !is_refused)
}

/// The same start at this place, if any.
pub(super) fn at_point(start: Start, point: Option<ResumePoint>) -> Start {
    match (start, point) {
        (Start::Resume { id, .. }, Some(point)) => Start::Resume {
            id,
            at: Some(point.at),
            drops: point.drops_turn,
        },
        (start, _) => start,
    }
}

/// Refuses a place at which the conversation cannot go on, as far as that is known before a start.
///
/// # Errors
/// `ConversationNotStarted`, `MessageNotForkable`, `Read`.
pub(super) async fn check_point(
    supervisor: &Supervisor,
    row: &SessionRow,
    point: ResumePoint,
) -> Result<(), SupervisorError> {
    if row.turns == 0 && adopted(row)?.is_none() {
        return Err(SupervisorError::ConversationNotStarted);
    }
    let found = supervisor
        .read_whole(row.id, move |dir, head| fork_point::find(dir, head, point.at))
        .await?;
    let why = match found {
        Found::In(Some(conversation)) if conversation != row.cli_session_id => {
            "it is in a conversation that the session has left; fork the session there"
        }
        Found::Compacted => "the conversation was compacted behind it",
        Found::OfSubAgent => "it is of a sub-agent",
        // The CLI knows more: of what came before the session, of records that were removed, and of what is in no record.
        Found::In(_) | Found::Unknown | Found::Nowhere | Found::Removed => return Ok(()),
    };
    Err(SupervisorError::MessageNotForkable {
        message: point.at,
        why,
    })
}

/// Waits for the word of the CLI on the place, for as long as a start may take.
///
/// # Errors
/// `MessageNotFound`, `ResumeRejected`, `Session`.
pub(super) async fn settle_point(
    supervisor: &Supervisor,
    session: &SessionHandle,
    point: ResumePoint,
) -> Result<(), SupervisorError> {
    let longest = Duration::from_millis(supervisor.shared.settings.start_timeout_ms);
    let Ok(started) = tokio::time::timeout(longest, session.wait_started()).await else {
        return Ok(());
    };
    let started = started?;
    let reason = started.reason.clone();
    let Some(reason) = reason.filter(|_| started.state == SessionState::Failed) else {
        return Ok(());
    };
    match reason.code.as_str() {
        FailReason::MESSAGE_NOT_FOUND => Err(SupervisorError::MessageNotFound(point.at)),
        FailReason::RESUME_REJECTED => Err(SupervisorError::ResumeRejected {
            detail: reason.detail,
        }),
        _ => Ok(()),
    }
}
