//! Owns the routes of background tasks.

use axum::{Json, extract::State};

use super::{ask, field};
use crate::{
    claude::control::Fields,
    http::{
        ApiError, AppState,
        dto::{BackgroundRequest, RawList, RawReply, TaskList, documented},
        extract::{Body, OfNamed, OfSession},
    },
    supervisor::Offer,
};

/// List the background tasks that run.
///
/// As the CLI told last; it is not asked. A session without a process has none.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/tasks", operation_id = "list_tasks", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The tasks", body = TaskList)),
)]
pub(in crate::http::routes) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawList>, ApiError> {
    let tasks = state.supervisor().offered(id, Offer::Tasks).await?;
    Ok(Json(tasks.into()))
}

/// Move what runs to the background, so that the turn goes on.
///
/// A command or an agent that the turn waits for runs on by itself; without an id all of them do.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/tasks/background", operation_id = "background_tasks", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = Option<BackgroundRequest>,
    responses((status = 200, description = "The CLI's answer", body = documented::EmptyReply)),
)]
pub(in crate::http::routes) async fn background(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    request: Option<Body<BackgroundRequest>>,
) -> Result<Json<RawReply>, ApiError> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let fields = match request.tool_use_id {
        Some(call) => field("tool_use_id", &call),
        None => Fields::new(),
    };
    ask(&state, id, "background_tasks", &fields).await
}

/// Stop a background task.
///
/// The CLI answers with success for tasks that it does not know, too.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/tasks/{task_id}/stop", operation_id = "stop_task", tag = "controls",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("task_id" = String, Path, description = "The CLI's id of the task"),
    ),
    responses((status = 200, description = "The CLI's answer", body = documented::EmptyReply)),
)]
pub(in crate::http::routes) async fn stop(
    State(state): State<AppState>,
    OfNamed(id, task): OfNamed,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "stop_task", &field("task_id", &task)).await
}

/// Read what a background task printed.
///
/// The output so far, of a task that runs and of one that has ended. The session must have a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/tasks/{task_id}/output", operation_id = "get_task_output", tag = "controls",
    params(
        ("id" = Uuid, Path, description = "The session"),
        ("task_id" = String, Path, description = "The CLI's id of the task"),
    ),
    responses((status = 200, description = "The CLI's answer", body = documented::TaskOutputReply)),
)]
pub(in crate::http::routes) async fn output(
    State(state): State<AppState>,
    OfNamed(id, task): OfNamed,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "get_task_output", &field("task_id", &task)).await
}
