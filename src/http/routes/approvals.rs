//! Owns the routes of everything that needs a person.

use axum::{Json, extract::State};
use serde::Deserialize;

use super::sessions::BY;
use crate::{
    domain::{ApprovalKind, ApprovalState, SessionId},
    http::{
        ApiError, AppState, ErrorCode,
        dto::{Approval, ApprovalPage, DecisionRequest},
        extract::{Body, OfApproval, OfSession, Params, page},
    },
    store::ApprovalFilter,
};

/// Which approvals to list: those that match every filter.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Only approvals in this state.
    state: Option<ApprovalState>,
    /// Only approvals of this kind.
    kind: Option<ApprovalKind>,
    /// Approvals per page, 1 to 500. Default: 50.
    limit: Option<u64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// List approvals of all sessions.
///
/// `state=pending` is the inbox of everything that needs a person.
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals",
    params(ListParams), responses((status = 200, description = "A page of approvals", body = ApprovalPage)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Params(params): Params<ListParams>,
) -> Result<Json<ApprovalPage>, ApiError> {
    read(&state, None, params).await
}

/// List approvals of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/approvals", operation_id = "list_session_approvals", tag = "approvals",
    params(("id" = Uuid, Path, description = "The session"), ListParams),
    responses((status = 200, description = "A page of approvals", body = ApprovalPage)),
)]
pub(super) async fn list_of_session(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<ListParams>,
) -> Result<Json<ApprovalPage>, ApiError> {
    state.supervisor().session(id).await?;
    read(&state, Some(id), params).await
}

async fn read(
    state: &AppState,
    session: Option<SessionId>,
    params: ListParams,
) -> Result<Json<ApprovalPage>, ApiError> {
    let page = page(params.limit, params.cursor)?;
    let filter = ApprovalFilter {
        session,
        state: params.state,
        kind: params.kind,
    };
    state.supervisor().catch_up().await?;
    let page = state.supervisor().store().approvals(filter, page).await?;
    Ok(Json(ApprovalPage {
        items: page.items.into_iter().map(Into::into).collect(),
        next_cursor: page.next,
    }))
}

/// Show an approval.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/approvals/{approval_id}", operation_id = "get_approval", tag = "approvals",
    params(("id" = Uuid, Path, description = "The session"), ("approval_id" = Uuid, Path, description = "The approval")),
    responses((status = 200, description = "The approval", body = Approval)),
)]
pub(super) async fn get(
    State(state): State<AppState>,
    OfApproval(session, id): OfApproval,
) -> Result<Json<Approval>, ApiError> {
    state.supervisor().session(session).await?;
    state.supervisor().catch_up().await?;
    let row = state.supervisor().store().approval(id).await?;
    let row = row.filter(|row| row.session == session);
    row.map(|row| Json(row.into()))
        .ok_or_else(|| ErrorCode::ApprovalNotFound.into())
}

/// Decide an approval.
///
/// The first valid decision wins. A later one is a 409 `already_decided` that shows the first.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/approvals/{approval_id}", operation_id = "decide_approval", tag = "approvals",
    params(("id" = Uuid, Path, description = "The session"), ("approval_id" = Uuid, Path, description = "The approval")),
    request_body = DecisionRequest,
    responses((status = 200, description = "The approval as decided", body = Approval)),
)]
pub(super) async fn decide(
    State(state): State<AppState>,
    OfApproval(session, id): OfApproval,
    Body(request): Body<DecisionRequest>,
) -> Result<Json<Approval>, ApiError> {
    let decision = request.into_decision()?;
    let row = state.supervisor().decide(session, id, decision, BY).await?;
    Ok(Json(row.into()))
}
