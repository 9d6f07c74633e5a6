//! Owns the routes of rules: those of the configuration, those of a session, and the dry run.

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;

use crate::{
    domain::RuleSpec,
    http::{
        ApiError, AppState,
        dto::{RuleList, RuleTestRequest, RuleVerdict},
        extract::{Body, OfNamed, OfSession, Params},
    },
    supervisor::{RuleTest, SupervisorError},
};

/// Where a rule is added.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AddParams {
    /// The place in the list, from 0. Default: the end.
    #[param(maximum = 65_535)]
    position: Option<u16>,
}

/// List the rules of the configuration.
///
/// They hold for every session, after its own.
#[utoipa::path(
    get, path = "/v1/rules", operation_id = "list_rules", tag = "rules",
    responses((status = 200, description = "The rules", body = RuleList)),
)]
pub(super) async fn list(State(state): State<AppState>) -> Json<RuleList> {
    let items = state.supervisor().config_rules().specs();
    Json(RuleList { items })
}

/// Try the rules of the configuration.
///
/// Tells which rule would decide, and why those before it would not. Nothing is decided.
#[utoipa::path(
    post, path = "/v1/rules/test", operation_id = "test_rules", tag = "rules", request_body = RuleTestRequest,
    responses((status = 200, description = "The verdict of the rules", body = RuleVerdict)),
)]
pub(super) async fn test(
    State(state): State<AppState>,
    Body(request): Body<RuleTestRequest>,
) -> Result<Json<RuleVerdict>, ApiError> {
    let asked = request.into_asked();
    let session = None;
    let verdict = state.supervisor().test_rules(RuleTest { asked, session }).await?;
    Ok(Json(verdict.into()))
}

/// List the rules of a session.
///
/// In the order in which they are asked: the first one that matches decides. Those of the configuration are
/// not in the list.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/rules", operation_id = "list_session_rules", tag = "rules",
    params(("id" = Uuid, Path, description = "The session")),
    responses((status = 200, description = "The rules", body = RuleList)),
)]
pub(super) async fn list_of_session(
    State(state): State<AppState>,
    OfSession(id): OfSession,
) -> Result<Json<RuleList>, ApiError> {
    let items = state.supervisor().rules(id).await?;
    Ok(Json(RuleList { items }))
}

/// Replace the rules of a session.
///
/// The whole list, in its order. The rules look at pending approvals again.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/rules", operation_id = "set_session_rules", tag = "rules",
    params(("id" = Uuid, Path, description = "The session")), request_body = RuleList,
    responses((status = 200, description = "The rules", body = RuleList)),
)]
pub(super) async fn set(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<RuleList>,
) -> Result<Json<RuleList>, ApiError> {
    let set = state.supervisor().set_rules(id, request.items).await;
    let items = set.map_err(|error| match error {
        SupervisorError::InvalidRule(error) => ApiError::of_rule(&error, "items"),
        error => error.into(),
    })?;
    Ok(Json(RuleList { items }))
}

/// Add a rule to a session.
///
/// At the end, or at `position`. The rules look at pending approvals again.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/rules", operation_id = "add_session_rule", tag = "rules",
    params(("id" = Uuid, Path, description = "The session"), AddParams), request_body = RuleSpec,
    responses((status = 201, description = "The rule, with its id", body = RuleSpec)),
)]
pub(super) async fn add(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<AddParams>,
    Body(rule): Body<RuleSpec>,
) -> Result<(StatusCode, Json<RuleSpec>), ApiError> {
    let rule = state
        .supervisor()
        .add_rule(id, rule, params.position.map(usize::from))
        .await?;
    Ok((StatusCode::CREATED, Json(rule)))
}

/// Remove a rule of a session.
///
/// Approvals that it has decided stay decided.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/rules/{rule_id}", operation_id = "remove_session_rule", tag = "rules",
    params(("id" = Uuid, Path, description = "The session"), ("rule_id" = String, Path, description = "The rule")),
    responses((status = 204, description = "The rule is gone")),
)]
pub(super) async fn remove(
    State(state): State<AppState>,
    OfNamed(id, rule): OfNamed,
) -> Result<StatusCode, ApiError> {
    state.supervisor().remove_rule(id, &rule).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Try the rules that hold for a session.
///
/// Tells which rule would decide, and why those before it would not. Nothing is decided.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/rules/test", operation_id = "test_session_rules", tag = "rules",
    params(("id" = Uuid, Path, description = "The session")), request_body = RuleTestRequest,
    responses((status = 200, description = "The verdict of the rules", body = RuleVerdict)),
)]
pub(super) async fn test_of_session(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Body(request): Body<RuleTestRequest>,
) -> Result<Json<RuleVerdict>, ApiError> {
    let asked = request.into_asked();
    let session = Some(id);
    let verdict = state.supervisor().test_rules(RuleTest { asked, session }).await?;
    Ok(Json(verdict.into()))
}
