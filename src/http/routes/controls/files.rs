//! Owns the routes that give files back their earlier content, and those of settings.

use axum::{Json, extract::State};

use super::{ask, field};
use crate::{
    claude::control::Fields,
    http::{
        ApiError, AppState,
        dto::{RawReply, RewindRequest, SettingsRequest, documented},
        extract::{Body, OfSession},
    },
};

/// Give files back the content that they had before a message.
///
/// Needs the launch option `enable_file_checkpointing`. With `dry_run` nothing is changed.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/rewind", operation_id = "rewind_files", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = RewindRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::RewindFilesReply)),
)]
pub(in crate::http::routes) async fn rewind(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<RewindRequest>,
) -> Result<Json<RawReply>, ApiError> {
    let mut fields = field("user_message_id", &request.user_message_id);
    fields.set("dry_run", &request.dry_run);
    ask(&state, id, "rewind_files", &fields).await
}

/// Show the CLI's settings.
///
/// The settings in effect, and the files that they come from. The session must have a process.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/settings", operation_id = "get_settings", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The CLI's answer", body = documented::SettingsReply)),
)]
pub(in crate::http::routes) async fn settings(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "get_settings", &Fields::new()).await
}

/// Change the CLI's settings.
///
/// They hold for later processes too, until somebody changes them.
#[utoipa::path(
    patch, path = "/v1/sessions/{id}/settings", operation_id = "apply_settings", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = SettingsRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::NoReply)),
)]
pub(in crate::http::routes) async fn apply_settings(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<SettingsRequest>,
) -> Result<Json<RawReply>, ApiError> {
    ask(
        &state,
        id,
        "apply_flag_settings",
        &field("settings", &request.settings),
    )
    .await
}
