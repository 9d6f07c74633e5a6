//! Owns the routes in which people say what they have seen of a session and what they put off.

use axum::{Json, extract::State};

use crate::{
    domain::Clock,
    http::{
        ApiError, AppState,
        dto::{AttentionState, PutOffRequest, Seen, SeenRequest},
        extract::{Body, OfSession},
    },
};

/// Say how far a person has seen a session.
///
/// All clients learn it through the lobby. A number below the one that is kept changes nothing; a message that is sent marks
/// what came before it as seen.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/seen", operation_id = "set_session_seen", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")), request_body = SeenRequest,
    responses((status = 200, description = "How far the session is seen", body = Seen)),
)]
pub(super) async fn set_seen(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<SeenRequest>,
) -> Result<Json<Seen>, ApiError> {
    Ok(Json(state.supervisor().set_seen(id, request.seq).await?.into()))
}

/// Mark a session as unread.
///
/// The end of its last turn is seen no longer, for all clients, until one says that it is. A session without a turn stays as
/// it is.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/seen", operation_id = "set_session_unread", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "How far the session is seen", body = Seen)),
)]
pub(super) async fn set_unread(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<Seen>, ApiError> {
    Ok(Json(state.supervisor().set_unread(id).await?.into()))
}

/// Put off what a session needs.
///
/// The reasons for which it needs a person now rank no longer, for all clients: left as long as they hold, or snoozed until
/// a time. A new reason, such as another approval, ranks at once. Nothing is decided, and nothing changes for the agent.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/put_off", operation_id = "put_session_off", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")), request_body = PutOffRequest,
    responses((status = 200, description = "The needs of the session", body = AttentionState)),
)]
pub(super) async fn put_off(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<PutOffRequest>,
) -> Result<Json<AttentionState>, ApiError> {
    let how = request.into_parts(Clock.now())?;
    Ok(Json(state.supervisor().put_off(id, Some(how)).await?.into()))
}

/// Put nothing off any more.
///
/// The needs of the session rank again.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/put_off", operation_id = "take_session_up", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The needs of the session", body = AttentionState)),
)]
pub(super) async fn take_up(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<AttentionState>, ApiError> {
    Ok(Json(state.supervisor().put_off(id, None).await?.into()))
}
