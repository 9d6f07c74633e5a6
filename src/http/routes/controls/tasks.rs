//! Owns the routes of background tasks.

use axum::{Json, extract::State};

use super::{ask, field};
use crate::{
    claude::control::Fields,
    http::{
        ApiError, AppState,
        dto::{BackgroundRequest, RawReply, TaskList, Tasks, TodoList, documented},
        extract::{Body, OfNamed, OfSession},
    },
    supervisor::Offer,
};

/// List the tasks of a session.
///
/// Commands in the background and sub-agents, as the CLI told of them; it is not asked. `items` are those that run now: a session
/// without a process has none. `history` keeps those that ended, and `agents` shows who began whom.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/tasks", operation_id = "list_tasks", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The tasks", body = TaskList)),
)]
pub(in crate::http::routes) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<Tasks>, ApiError> {
    let running = state.supervisor().offered(id, Offer::Tasks).await?;
    state.supervisor().settled().await;
    let history = state.supervisor().store().tasks(id).await?;
    Ok(Json(Tasks::of(running, history)))
}

/// Read what the agent means to do.
///
/// The list that its tools keep: `TodoWrite`, or `TaskCreate` and `TaskUpdate`. A `/clear` empties it.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/todos", operation_id = "list_todos", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The list", body = TodoList)),
)]
pub(in crate::http::routes) async fn todos(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<TodoList>, ApiError> {
    state.supervisor().session(id).await?;
    state.supervisor().settled().await;
    Ok(Json(state.supervisor().store().todos(id).await?.into()))
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
