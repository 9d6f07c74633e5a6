//! Owns the probes.

use axum::{Json, extract::State};
use serde_json::Value;

use crate::http::{
    ApiError, AppState, ErrorCode,
    dto::{Health, Readiness},
};

/// Is the daemon alive?
///
/// Needs no token and looks at nothing.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "daemon", security(()),
    responses((status = 200, description = "It is", body = Health)),
)]
pub(in crate::http) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Can the daemon work?
///
/// Looks for the agent CLI and for the directory of the keepers' sockets, and writes to the database. When it cannot, the
/// problem `not_ready` says why; its member `readiness` is what the answer would have been.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readiness", tag = "daemon",
    responses((status = 200, description = "It can", body = Readiness)),
)]
pub(super) async fn readyz(State(state): State<AppState>) -> Result<Json<Readiness>, ApiError> {
    let readiness = Readiness::from(state.supervisor().health().await);
    if readiness.ready {
        return Ok(Json(readiness));
    }
    Err(ApiError::new(ErrorCode::NotReady)
        .detail(readiness.problems.join("; "))
        .member(
            "readiness",
            serde_json::to_value(readiness).unwrap_or(Value::Null),
        ))
}
