//! Owns the routes of messages that wait in the daemon.

use axum::{Json, extract::State, http::StatusCode};

use crate::http::{
    ApiError, AppState, ErrorCode,
    dto::{QueueChange, QueueRequest, QueuedPrompt, QueuedPromptList},
    extract::{Body, Id, OfNamed, OfSession},
};

/// List the messages that wait.
///
/// Those that wait in the daemon, in the order in which they will be given. Those that the agent CLI has already are in
/// the session's `open_prompts`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/prompts", operation_id = "list_queued_prompts", tag = "messages",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The messages", body = QueuedPromptList)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<QueuedPromptList>, ApiError> {
    let waiting = state.prompt_queue().list(id).await?;
    Ok(Json(QueuedPromptList {
        items: waiting.into_iter().map(Into::into).collect(),
    }))
}

/// Queue a message.
///
/// It waits in the daemon until the session does nothing, behind those that wait already, and can be changed, held and taken
/// back until then. A held one holds those behind it. Messages wait over restarts of the daemon.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/prompts", operation_id = "queue_prompt", tag = "messages",
    params(("id" = Uuid, Path, description = "The session")), request_body = QueueRequest,
    responses((status = 201, description = "The message waits", body = QueuedPrompt)),
)]
pub(super) async fn add(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Id(request_id): Id,
    Body(request): Body<QueueRequest>,
) -> Result<(StatusCode, Json<QueuedPrompt>), ApiError> {
    let prompt = request.into_prompt(*request_id.as_uuid())?;
    let added = state.prompt_queue().add(id, prompt).await?;
    Ok((StatusCode::CREATED, Json(added.into())))
}

/// Change a message that waits.
///
/// The change is to its words, or to whether it is held. One that the agent CLI was given is refused with
/// `prompt_given`.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}/prompts/{uuid}", operation_id = "change_queued_prompt", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), ("uuid" = Uuid, Path, description = "The message")),
    request_body = QueueChange,
    responses((status = 200, description = "The message", body = QueuedPrompt)),
)]
pub(super) async fn change(
    State(state): State<AppState>,
    OfNamed(id, name): OfNamed,
    Body(change): Body<QueueChange>,
) -> Result<Json<QueuedPrompt>, ApiError> {
    let uuid = name.parse().map_err(|_| ErrorCode::InvalidId)?;
    let waiting = state.prompt_queue().list(id).await?;
    let known = waiting.iter().find(|prompt| prompt.uuid == uuid);
    let body = known.map(|known| change.body(known)).transpose()?.flatten();
    let changed = state.prompt_queue().change(id, uuid, body, change.held).await?;
    Ok(Json(changed.into()))
}

/// Take a message back that waits.
///
/// It is never given. One that the agent CLI was given is refused with `prompt_given`.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/prompts/{uuid}", operation_id = "take_back_prompt", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), ("uuid" = Uuid, Path, description = "The message")),
    responses((status = 204, description = "The message waits no longer")),
)]
pub(super) async fn take_back(
    State(state): State<AppState>,
    OfNamed(id, name): OfNamed,
) -> Result<StatusCode, ApiError> {
    let uuid = name.parse().map_err(|_| ErrorCode::InvalidId)?;
    state.prompt_queue().take_back(id, uuid).await?;
    Ok(StatusCode::NO_CONTENT)
}
