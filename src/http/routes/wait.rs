//! Owns `?wait=` and `?timeout_ms=`: how long a request stays open for work that goes on without it.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    auth::Tenure,
    domain::{PromptUuid, SessionId},
    http::{ApiError, AppState, ErrorCode, dto::TurnResult, guard},
    session::SessionError,
    supervisor::{SessionView, SupervisorError},
};

/// Milliseconds that a request waits when nobody says.
const DEFAULT_TIMEOUT_MS: u64 = 600_000;
/// Most milliseconds that a request may wait: one day.
const MAX_TIMEOUT_MS: u64 = 86_400_000;

/// The event that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WaitFor {
    /// The session takes prompts, or failed to start.
    Ready,
    /// The turn that answers the prompt has ended.
    Result,
}

/// How long to wait.
pub(super) fn deadline(timeout_ms: Option<u64>) -> Result<Duration, ApiError> {
    let ms = timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
    if (1..=MAX_TIMEOUT_MS).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(ApiError::new(ErrorCode::InvalidQuery).detail(format!("timeout_ms is outside 1 to {MAX_TIMEOUT_MS}")))
}

/// Waits until the session is not starting any more. A shutdown and the end of the login that asks end the wait; what was asked
/// for is done already, so the answer must not say that nothing was.
pub(super) async fn ready(
    state: &AppState,
    id: SessionId,
    deadline: Duration,
    tenure: &Tenure,
) -> Result<SessionView, ApiError> {
    tokio::select! {
        view = state.supervisor().wait_ready(id, deadline) => Ok(view?),
        () = state.shutdown().cancelled() => Err(ErrorCode::WaitTimeout.into()),
        () = tenure.over() => Err(login_ended()),
    }
}

/// Nobody is told any more what a login that has ended asked for.
fn login_ended() -> ApiError {
    guard::refusal(ErrorCode::LoginInvalid)
        .detail("the login ended during the wait; what was asked for is under way")
        .uncertain()
}

/// Waits for the turn that answers `prompt`. The error names the prompt, so that a client can wait again.
pub(super) async fn turn(
    state: &AppState,
    id: SessionId,
    prompt: PromptUuid,
    deadline: Duration,
    tenure: &Tenure,
) -> Result<TurnResult, ApiError> {
    let outcome = tokio::select! {
        outcome = state.supervisor().wait_turn(id, prompt, deadline) => outcome,
        () = state.shutdown().cancelled() => Err(SupervisorError::WaitTimeout),
        () = tenure.over() => return Err(login_ended().member("uuid", prompt.to_string())),
    };
    let error = match outcome {
        Ok(outcome) => return Ok(outcome.as_ref().into()),
        Err(error) => error,
    };
    let dropped = matches!(
        error,
        SupervisorError::Session(
            SessionError::PromptDropped { .. } | SessionError::NotLive { .. } | SessionError::Died { .. }
        )
    );
    // The message was taken before the wait began.
    let mut problem = ApiError::from(error)
        .uncertain()
        .member("uuid", prompt.to_string());
    if dropped
        && let Ok(view) = state.supervisor().session(id).await
        && let Some(reason) = view.live.reason
    {
        problem = problem.detail(reason.detail).member("reason", reason.code);
    }
    Err(problem)
}
