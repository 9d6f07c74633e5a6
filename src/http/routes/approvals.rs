//! Owns the routes of everything that needs, or needed, a person: the inbox and the audit log.

mod export;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;

use self::export::Form;
use super::sessions::BY;
use crate::{
    auth::Tenure,
    domain::{ApprovalHow, ApprovalKind, ApprovalState, SessionId, Timestamp},
    http::{
        ApiError, AppState, ErrorCode, cursor,
        dto::{Approval, ApprovalPage, DecisionRequest, FileBefore},
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
    /// Only approvals of this session.
    session: Option<SessionId>,
    /// Only approvals about this tool, MCP server, kind of dialog or event of a hook.
    tool: Option<String>,
    /// Only approvals that ended in this way.
    how: Option<ApprovalHow>,
    /// Only approvals that this hand ended: `rest`, `login:<name>`, `ws:<connection id>`, `rule:<rule id>`, `expiry:<rule id>`,
    /// `covered:<approval id or mode>`, `cli`,
    /// `daemon`.
    by: Option<String>,
    /// Only approvals that were asked for at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Only approvals that were asked for before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// Approvals per page, 1 to 500. Default: 50. Pages only.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// The `next_cursor` of the page before. Pages only.
    cursor: Option<String>,
}

/// List approvals of all sessions.
///
/// `state=pending` is the inbox of everything that needs a person. The rest is the audit log: who decided what, when and
/// how. A page has only the small members of a request, or an answer, with more than 64 KiB, and says so; the approval's own
/// route and the exports have the whole. `Accept` chooses the form: a page (`application/json`), or an export of all that match, as lines
/// (`application/x-ndjson`) or as a table (`text/csv`).
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals",
    params(ListParams), responses((status = 200, description = "Approvals", content(
        (ApprovalPage = "application/json"), (String = "application/x-ndjson"), (String = "text/csv")))),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Params(params): Params<ListParams>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    read(&state, params, tenure, &headers).await
}

/// List approvals of a session.
///
/// As for all sessions, exports included.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/approvals", operation_id = "list_session_approvals", tag = "approvals",
    params(("id" = Uuid, Path, description = "The session"), ListParams),
    responses((status = 200, description = "Approvals", content(
        (ApprovalPage = "application/json"), (String = "application/x-ndjson"), (String = "text/csv")))),
)]
pub(super) async fn list_of_session(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(mut params): Params<ListParams>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if params.session.is_some_and(|session| session != id) {
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail("session: the path names another one"));
    }
    state.supervisor().session(id).await?;
    params.session = Some(id);
    read(&state, params, tenure, &headers).await
}

async fn read(
    state: &AppState,
    params: ListParams,
    tenure: Tenure,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let filter = ApprovalFilter {
        session: params.session,
        state: params.state,
        kind: params.kind,
        subject: params.tool,
        how: params.how,
        by: params.by,
        from: params.from,
        to: params.to,
    };
    if let Some(form) = Form::wanted(headers) {
        if params.limit.is_some() || params.cursor.is_some() {
            let wrong = ApiError::new(ErrorCode::InvalidQuery);
            return Err(wrong.detail("limit and cursor do not go with an export, which holds all that match"));
        }
        state.supervisor().settled().await;
        return export::open(state, filter, form, tenure).await;
    }
    let session = params.session;
    let cursor = match session {
        Some(session) => cursor::taken(session, params.cursor)?,
        None => params.cursor,
    };
    let page = page(params.limit, cursor)?;
    let page = state.supervisor().approvals(filter, page).await?;
    let page = ApprovalPage {
        items: page.items.into_iter().map(Approval::listed).collect(),
        next_cursor: match session {
            Some(session) => cursor::given(session, page.next),
            None => page.next,
        },
    };
    Ok(Json(page).into_response())
}

/// Show an approval.
///
/// The whole request and, once it has ended, who decided it, when and how.
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
    Ok(Json(state.supervisor().approval(session, id).await?.into()))
}

/// Show a file before a tool changes it.
///
/// The content of the file that an open approval of `Write`, `Edit`, `MultiEdit` or `NotebookEdit` is about: its first
/// MiB, if it is text. Only that file, only while the approval is open, and only inside `sessions.cwd_roots`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/approvals/{approval_id}/file", operation_id = "get_approval_file", tag = "approvals",
    params(("id" = Uuid, Path, description = "The session"), ("approval_id" = Uuid, Path, description = "The approval")),
    responses((status = 200, description = "The file", body = FileBefore)),
)]
pub(super) async fn file_before(
    State(state): State<AppState>,
    OfApproval(session, id): OfApproval,
) -> Result<Json<FileBefore>, ApiError> {
    Ok(Json(state.supervisor().file_before(session, id).await?.into()))
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
    tenure: Tenure,
    Body(request): Body<DecisionRequest>,
) -> Result<Json<Approval>, ApiError> {
    let decision = request.into_decision()?;
    let author = tenure.author();
    let by = author.as_deref().unwrap_or(BY);
    let row = state.supervisor().decide(session, id, decision, by).await?;
    Ok(Json(row.into()))
}
