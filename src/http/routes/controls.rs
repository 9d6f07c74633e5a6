//! Owns the routes that steer a running CLI. Its files own those of one subject each.

pub(super) mod files;
pub(super) mod mcp;
pub(super) mod offers;
pub(super) mod tasks;

use axum::{Json, extract::State};
use bytes::Bytes;
use serde::Serialize;

use super::sessions::BY;
use crate::{
    claude::{ControlResponse, control::Fields, controls::*},
    domain::SessionId,
    http::{
        ApiError, AppState, ErrorCode,
        dto::{
            AnyReply, ControlReply, ControlRequest, InterruptRequest, ModelRequest, PermissionModeRequest,
            RawReply, ThinkingRequest, documented,
        },
        extract::{Body, OfSession, parse},
    },
};

/// Interrupt the turn.
///
/// The session stays. Does nothing when no turn runs.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interrupt", operation_id = "interrupt_session", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = Option<InterruptRequest>,
    responses((status = 200, description = "The CLI's answer", body = documented::InterruptReply)),
)]
pub(super) async fn interrupt(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    request: Option<Body<InterruptRequest>>,
) -> Result<Json<RawReply>, ApiError> {
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
    responses((status = 200, description = "The CLI's answer", body = documented::SetModelReply)),
)]
pub(super) async fn set_model(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<ModelRequest>,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "set_model", &field("model", &request.model)).await
}

/// Change the permission mode.
///
/// Holds for later turns and over a resume.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/permission_mode", operation_id = "set_permission_mode", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = PermissionModeRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::SetPermissionModeReply)),
)]
pub(super) async fn set_permission_mode(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<PermissionModeRequest>,
) -> Result<Json<RawReply>, ApiError> {
    ask(&state, id, "set_permission_mode", &field("mode", &request.mode)).await
}

/// Change how much the model thinks.
///
/// Holds for later turns and over a resume.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/thinking", operation_id = "set_thinking", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = ThinkingRequest,
    responses((status = 200, description = "The CLI's answer", body = documented::NoReply)),
)]
pub(super) async fn set_thinking(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<ThinkingRequest>,
) -> Result<Json<RawReply>, ApiError> {
    let mut fields = field("max_thinking_tokens", &request.max_thinking_tokens);
    if let Some(display) = &request.display {
        fields.set("thinking_display", display);
    }
    ask(&state, id, "set_max_thinking_tokens", &fields).await
}

/// Send any control request to the CLI.
///
/// Known fields of known subtypes are checked for their type, all others pass. The CLI's refusal is a 409
/// `control_refused`, its silence a 504 `control_timeout`. A request that only the CLI sends, or that would mislead
/// the daemon, is a 422 `control_not_allowed`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/control", operation_id = "send_control", tag = "controls",
    params(("id" = Uuid, Path, description = "The session")), request_body = ControlRequest,
    responses((status = 200, description = "The CLI's answer", body = AnyReply)),
)]
pub(super) async fn control(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(ControlRequest { subtype, request }): Body<ControlRequest>,
) -> Result<Json<AnyReply>, ApiError> {
    check(&subtype, request.get())?;
    let bytes = Bytes::from(request.get().to_owned());
    let answer = state.supervisor().relay(id, &subtype, bytes, BY).await?;
    let response = reply(answer)?.0.response;
    Ok(Json(AnyReply { subtype, response }))
}

macro_rules! checks {
    ($($subtype:literal: $request:ty => $response:ty,)*) => {
        /// Checks the known fields of a known subtype.
        fn check(subtype: &str, request: &str) -> Result<(), ApiError> {
            match subtype {
                $($subtype => parse::<$request>(request.as_bytes()).map(drop),)*
                _ => Ok(()),
            }
        }
    };
}
with_typed_controls!(checks);

async fn ask(
    state: &AppState,
    id: SessionId,
    subtype: &str,
    fields: &Fields,
) -> Result<Json<RawReply>, ApiError> {
    reply(state.supervisor().control(id, subtype, fields, BY).await?)
}

/// One field of a control request.
fn field<T: Serialize>(name: &str, value: &T) -> Fields {
    let mut fields = Fields::new();
    fields.set(name, value);
    fields
}

fn reply(answer: ControlResponse) -> Result<Json<RawReply>, ApiError> {
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
