//! Owns the routes that steer a running CLI.

use axum::{Json, extract::State};
use serde::Serialize;

use super::sessions::BY;
use crate::{
    claude::{ControlResponse, control::Fields},
    domain::SessionId,
    http::{
        ApiError, AppState, ErrorCode,
        dto::{
            ControlReply, ControlRequest, InterruptRequest, ModelRequest, PermissionModeRequest,
            ThinkingRequest,
        },
        extract::{Body, OfSession},
    },
};

/// Interrupt the turn.
///
/// The session stays. Does nothing when no turn runs.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interrupt", operation_id = "interrupt_session", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = Option<InterruptRequest>,
    responses((status = 200, description = "The CLI's answer", body = ControlReply)),
)]
pub(super) async fn interrupt(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    request: Option<Body<InterruptRequest>>,
) -> Result<Json<ControlReply>, ApiError> {
    let request = request.map(|Body(request)| request).unwrap_or_default();
    let outcome = state
        .supervisor()
        .interrupt(id, request.cancel_queued, BY)
        .await?;
    outcome.map_or_else(|| Ok(Json(ControlReply { response: None })), reply)
}

/// Change the model.
///
/// Holds for later turns and over a resume.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/model", operation_id = "set_model", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = ModelRequest,
    responses((status = 200, description = "The CLI's answer", body = ControlReply)),
)]
pub(super) async fn set_model(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<ModelRequest>,
) -> Result<Json<ControlReply>, ApiError> {
    ask(&state, id, "set_model", &field("model", &request.model)).await
}

/// Change the permission mode.
///
/// Holds for later turns and over a resume.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/permission_mode", operation_id = "set_permission_mode", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = PermissionModeRequest,
    responses((status = 200, description = "The CLI's answer", body = ControlReply)),
)]
pub(super) async fn set_permission_mode(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<PermissionModeRequest>,
) -> Result<Json<ControlReply>, ApiError> {
    ask(&state, id, "set_permission_mode", &field("mode", &request.mode)).await
}

/// Change how much the model thinks.
///
/// Holds for later turns and over a resume.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/thinking", operation_id = "set_thinking", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = ThinkingRequest,
    responses((status = 200, description = "The CLI's answer", body = ControlReply)),
)]
pub(super) async fn set_thinking(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<ThinkingRequest>,
) -> Result<Json<ControlReply>, ApiError> {
    let mut fields = field("max_thinking_tokens", &request.max_thinking_tokens);
    if let Some(display) = &request.display {
        fields.set("thinking_display", display);
    }
    ask(&state, id, "set_max_thinking_tokens", &fields).await
}

/// Send any control request to the CLI.
///
/// The CLI's refusal is a 409 `control_refused`, its silence a 504 `control_deadline`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/control", operation_id = "send_control", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = ControlRequest,
    responses((status = 200, description = "The CLI's answer", body = ControlReply)),
)]
pub(super) async fn control(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<ControlRequest>,
) -> Result<Json<ControlReply>, ApiError> {
    let outcome = state
        .supervisor()
        .control(id, &request.subtype, &request.fields, BY)
        .await?;
    reply(outcome)
}

async fn ask(
    state: &AppState,
    id: SessionId,
    subtype: &str,
    fields: &Fields,
) -> Result<Json<ControlReply>, ApiError> {
    reply(state.supervisor().control(id, subtype, fields, BY).await?)
}

/// One field of a control request.
fn field<T: Serialize>(name: &str, value: &T) -> Fields {
    let mut fields = Fields::new();
    fields.set(name, value);
    fields
}

fn reply(answer: ControlResponse) -> Result<Json<ControlReply>, ApiError> {
    match answer.outcome {
        Ok(response) => Ok(Json(ControlReply { response })),
        Err(refused) => {
            let problem = ApiError::new(ErrorCode::ControlRefused).detail(refused.error);
            Err(match refused.error_code {
                Some(code) => problem.member("error_code", code),
                None => problem,
            })
        }
    }
}
