//! Owns the routes that make, show, change and end sessions.

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use uuid::Uuid;

use super::wait::{self, WaitFor};
use crate::{
    auth::Tenure,
    domain::{SessionId, SessionState},
    http::{
        ApiError, AppState, ErrorCode,
        dto::{CreateRequest, ForkRequest, ResumeRequest, Session, SessionPage, UpdateRequest},
        expected::Expected,
        extract::{Body, Id, Named, OfSession, Params, label, page},
    },
    store::SessionFilter,
    supervisor::SessionView,
};

/// The actor's name in records and decisions.
pub(super) const BY: &str = "rest";

/// Whether to wait, and for what.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Answer only when the session is ready, or when the prompt's turn has ended.
    #[param(inline)]
    wait: Option<WaitFor>,
    /// Most milliseconds to wait. Default: ten minutes.
    #[param(minimum = 1, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
}

/// Make a session.
///
/// Starts the agent CLI in `cwd`. The prompt may be sent before the CLI is ready; it waits.
#[utoipa::path(
    post, path = "/v1/sessions", operation_id = "create_session", tag = "sessions",
    params(WaitParams), request_body = CreateRequest,
    responses((status = 201, description = "The session is made", body = Session,
        headers(("location" = String, description = "The path of the session")))),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Id(request_id): Id,
    Params(params): Params<WaitParams>,
    tenure: Tenure,
    Body(request): Body<CreateRequest>,
) -> Result<Response, ApiError> {
    let request = request.into_session(*request_id.as_uuid())?;
    let prompt = request.prompt.as_ref().and_then(|prompt| prompt.uuid);
    check_wait(&params, prompt)?;
    let view = Box::pin(state.supervisor().create(request, BY)).await?;
    made(&state, view, prompt, &params, &tenure).await
}

/// List sessions.
///
/// Newest activity first. Reading a session does not move it.
#[utoipa::path(
    get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions",
    params(ListParams), responses((status = 200, description = "A page of sessions", body = SessionPage)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Params(params): Params<ListParams>,
) -> Result<Json<SessionPage>, ApiError> {
    let page = page(params.limit, params.cursor)?;
    let label = params.label.as_deref().map(label).transpose()?;
    let cwd = match params.cwd {
        Some(cwd) => Some(state.supervisor().resolved_cwd(cwd).await),
        None => None,
    };
    let filter = SessionFilter {
        state: params.state,
        cwd,
        tag: params.tag,
        label,
        q: params.q,
    };
    let page = state.supervisor().list(&filter, page).await?;
    Ok(Json(SessionPage {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: page.next,
    }))
}

/// Which sessions to list: those that match every filter.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Only sessions in this state.
    state: Option<SessionState>,
    /// Only sessions in this working directory. It may be named through a link.
    cwd: Option<String>,
    /// Only sessions with exactly this tag.
    tag: Option<String>,
    /// Only sessions with this label, as `key=value`.
    #[param(pattern = "=")]
    label: Option<String>,
    /// Only sessions with this text in the title or in the start of a prompt.
    q: Option<String>,
    /// Sessions per page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// Show a session.
///
/// The state of the moment, and how the session was made. A session whose process is gone is shown as it
/// ended.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", operation_id = "get_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session", body = Session,
        headers(("etag" = String, description = "The session's revision")))),
)]
pub(super) async fn get(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Response, ApiError> {
    Ok(with_tag(state.supervisor().session(id).await?.into()))
}

/// Change a session's title, tag, labels or options.
///
/// A member that is left out stays as it is; `null` takes a title or a tag away. Labels replace those that
/// are there. Options are merged, inside `env` too, and `null` takes one away; the next start has them, and `needs_restart` says
/// what the process that runs does not have. With `If-Match` nothing is changed when the session has another `revision`.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}", operation_id = "update_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session"),
        ("If-Match" = Option<String>, Header, description = "The session's `revision` in quotes, as its `ETag`; 412 when it has another one")),
    request_body = UpdateRequest,
    responses((status = 200, description = "The session", body = Session,
        headers(("etag" = String, description = "The session's revision")))),
)]
pub(super) async fn update(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    revision: Expected,
    Body(request): Body<UpdateRequest>,
) -> Result<Response, ApiError> {
    let change = request.into_change(revision.0)?;
    Ok(with_tag(state.supervisor().update(id, change).await?.into()))
}

/// The answer that shows a session, with its revision as its tag.
fn with_tag(session: Session) -> Response {
    let tag = HeaderValue::try_from(format!("\"{}\"", session.revision));
    let mut response = Json(session).into_response();
    if let Ok(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Delete a session.
///
/// Stops its CLI first. Its journal and everything that is known about it go; forks of it stay.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", operation_id = "delete_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 204, description = "The session is gone")),
)]
pub(super) async fn delete(
    State(state): State<AppState>,
    Named(name): Named,
) -> Result<StatusCode, ApiError> {
    let id = name.parse::<SessionId>().ok();
    let is_ours = id.is_some_and(|id| id.to_string() == name);
    // A row that was damaged has what is no id, or is none as we write them; it has no other name.
    if is_ours || !state.supervisor().delete_nameless(&name).await? {
        let id = id.ok_or(ErrorCode::InvalidId)?;
        state.supervisor().delete(id, BY).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Resume a session.
///
/// Starts the CLI again with the conversation and the settings as they were; with `fresh` in the body, with the settings
/// and a new conversation; with `at` after this message, in place. A session that waits for its restart is started at once.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/resume", operation_id = "resume_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session"), WaitParams), request_body = Option<ResumeRequest>,
    responses((status = 200, description = "The session", body = Session)),
)]
pub(super) async fn resume(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<WaitParams>,
    tenure: Tenure,
    request: Option<Body<ResumeRequest>>,
) -> Result<Json<Session>, ApiError> {
    check_wait(&params, None)?;
    let mut request = request.map(|Body(request)| request).unwrap_or_default();
    let cwd = request.cwd.take();
    let how = request.into_resumed()?;
    if let Some(cwd) = &cwd {
        state.supervisor().give_cwd(id, cwd).await?;
    }
    let view = state.supervisor().resume(id, how).await?;
    Ok(Json(ready(&state, view, &params, &tenure).await?.into()))
}

/// Restart a session.
///
/// Stops its CLI, if one runs, and starts it again with the conversation and the settings as they were; with `fresh` in the
/// body, with the settings and a new conversation; with `at` after this message, in place. The restart cuts its work short.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/restart", operation_id = "restart_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session"), WaitParams), request_body = Option<ResumeRequest>,
    responses((status = 200, description = "The session", body = Session)),
)]
pub(super) async fn restart(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<WaitParams>,
    tenure: Tenure,
    request: Option<Body<ResumeRequest>>,
) -> Result<Json<Session>, ApiError> {
    check_wait(&params, None)?;
    let mut request = request.map(|Body(request)| request).unwrap_or_default();
    let cwd = request.cwd.take();
    let how = request.into_resumed()?;
    if let Some(cwd) = &cwd {
        state.supervisor().give_cwd(id, cwd).await?;
    }
    let view = state.supervisor().restart_session(id, how, BY).await?;
    Ok(Json(ready(&state, view, &params, &tenure).await?.into()))
}

/// Fork a session.
///
/// A new session that begins as a copy of this one's conversation. This one is not touched. Answers when the CLI has said
/// whether it can, and after `sessions.start_timeout_ms` at the latest; then the fork is `starting`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/fork", operation_id = "fork_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session to fork"), WaitParams), request_body = Option<ForkRequest>,
    responses((status = 201, description = "The fork is made", body = Session,
        headers(("location" = String, description = "The path of the fork")))),
)]
pub(super) async fn fork(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Id(request_id): Id,
    Params(params): Params<WaitParams>,
    tenure: Tenure,
    request: Option<Body<ForkRequest>>,
) -> Result<Response, ApiError> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let request = request.into_fork(*request_id.as_uuid())?;
    let prompt = request.prompt.as_ref().and_then(|prompt| prompt.uuid);
    check_wait(&params, prompt)?;
    let view = Box::pin(state.supervisor().fork(id, request, BY)).await?;
    made(&state, view, prompt, &params, &tenure).await
}

/// Stop a session.
///
/// Answers when the CLI and everything that it started are gone. A session that is stopped stays so.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/stop", operation_id = "stop_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session", body = Session)),
)]
pub(super) async fn stop(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(state.supervisor().stop(id, BY).await?.into()))
}

/// Park a session.
///
/// Ends the CLI of a session that does nothing, to save what it takes; answers when it is gone. The next message starts it
/// again, with the conversation and the settings as they were.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/park", operation_id = "park_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session", body = Session)),
)]
pub(super) async fn park(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(state.supervisor().park(id).await?.into()))
}

/// Refuses a wait that could not end before anything is done.
fn check_wait(params: &WaitParams, prompt: Option<Uuid>) -> Result<(), ApiError> {
    wait::deadline(params.timeout_ms)?;
    if params.wait == Some(WaitFor::Result) && prompt.is_none() {
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail("wait=result needs a prompt"));
    }
    Ok(())
}

/// Waits until the session is ready, if that is wanted.
async fn ready(
    state: &AppState,
    view: SessionView,
    params: &WaitParams,
    tenure: &Tenure,
) -> Result<SessionView, ApiError> {
    if params.wait.is_none() {
        return Ok(view);
    }
    wait::ready(state, view.row.id, wait::deadline(params.timeout_ms)?, tenure).await
}

/// The answer to a request that made a session, after the wait that it asked for.
async fn made(
    state: &AppState,
    view: SessionView,
    prompt: Option<Uuid>,
    params: &WaitParams,
    tenure: &Tenure,
) -> Result<Response, ApiError> {
    let id = view.row.id;
    // However the wait ends, the client must learn which session there is now.
    let waited = Box::pin(waited(state, view, prompt, params, tenure))
        .await
        .map_err(|error| error.member("session_id", id.to_string()))?;
    let mut response = (StatusCode::CREATED, Json(waited)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn waited(
    state: &AppState,
    view: SessionView,
    prompt: Option<Uuid>,
    params: &WaitParams,
    tenure: &Tenure,
) -> Result<Session, ApiError> {
    let id = view.row.id;
    let (view, outcome) = match (params.wait, prompt) {
        (Some(WaitFor::Result), Some(prompt)) => {
            let deadline = wait::deadline(params.timeout_ms)?;
            let outcome = wait::turn(state, id, prompt, deadline, tenure).await?;
            (state.supervisor().session(id).await?, Some(outcome))
        }
        _ => (ready(state, view, params, tenure).await?, None),
    };
    let mut session = Session::from(view);
    session.prompt_uuid = prompt;
    session.outcome = outcome;
    Ok(session)
}
