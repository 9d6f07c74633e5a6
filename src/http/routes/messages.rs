//! Owns the routes that send messages and read the conversation.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use uuid::Uuid;

use super::{sessions::BY, wait};
use crate::{
    auth::Tenure,
    domain::Seq,
    http::{
        ApiError, AppState, ErrorCode, conversation, cursor,
        dto::{ConversationPage, SendReply, SendRequest},
        extract::{Body, Id, OfSession, Order, Params, Whole},
    },
};

/// Messages per page when nobody says.
const DEFAULT_LIMIT: usize = 50;
/// Most messages per page.
const MAX_LIMIT: usize = 500;

/// The event that a message waits for.
#[derive(Clone, Copy, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum SendWait {
    /// The turn that answers it has ended.
    Result,
}

/// Whether to wait for the answer.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SendParams {
    /// `result`: answer only when the message's turn has ended.
    #[param(inline)]
    wait: Option<SendWait>,
    /// Most milliseconds to wait. Default: ten minutes.
    #[param(minimum = 1, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
}

/// Send a message to the agent.
///
/// A message that comes during a turn waits for its turn. With `uuid` a repeat is not run again.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/messages", operation_id = "send_message", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), SendParams), request_body = SendRequest,
    responses(
        (status = 202, description = "The message is taken", body = SendReply),
        (status = 200, description = "The message's turn has ended (wait=result)", body = SendReply),
    ),
)]
pub(super) async fn send(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Id(request_id): Id,
    Params(params): Params<SendParams>,
    tenure: Tenure,
    Body(request): Body<SendRequest>,
) -> Result<Response, ApiError> {
    let deadline = wait::deadline(params.timeout_ms)?;
    let message = request.into_message(*request_id.as_uuid())?;
    let uuid = message.uuid;
    let accepted = state.supervisor().send(id, message, BY).await;
    let accepted = accepted.map_err(|error| of_first_try(error.into(), uuid))?;
    if params.wait.is_none() {
        return Ok((StatusCode::ACCEPTED, Json(SendReply::new(&accepted, None))).into_response());
    }
    let outcome = wait::turn(&state, id, accepted.uuid, deadline, &tenure).await;
    let outcome = outcome.map_err(|error| error.member("seq", accepted.seq.get()))?;
    Ok(Json(SendReply::new(&accepted, Some(outcome))).into_response())
}

/// Names the message of a request that may have sent it: under its uuid it is not run twice.
fn of_first_try(error: ApiError, uuid: Option<Uuid>) -> ApiError {
    match uuid {
        Some(uuid) if error.side_effect_possible() => error.member("uuid", uuid.to_string()),
        _ => error,
    }
}

/// Which part of the conversation to read.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Messages per page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before. Not with `order=desc`.
    cursor: Option<String>,
    /// `desc`: the newest message first, and pages towards the first one. Default: `asc`.
    #[param(inline)]
    order: Option<Order>,
    /// Only messages that begin before this record. With `order=desc` only.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    before: Option<Whole>,
}

/// Read the conversation.
///
/// Prompts, answers and tool results in their order. Every message of the model is one item, whatever number of lines
/// it came in.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/messages", operation_id = "list_messages", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), ListParams),
    responses((status = 200, description = "A page of the conversation", body = ConversationPage)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<ListParams>,
) -> Result<Json<ConversationPage>, ApiError> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(
            ApiError::new(ErrorCode::InvalidQuery).detail(format!("limit is outside 1 to {MAX_LIMIT}"))
        );
    }
    if params.order == Some(Order::Desc) {
        if params.cursor.is_some() {
            let detail = "with order=desc the next page begins at before, not at a cursor";
            return Err(ApiError::new(ErrorCode::InvalidQuery).detail(detail));
        }
        let before = params.before.map_or(Seq::MAX, Whole::seq);
        return Ok(Json(conversation::page_back(&state, id, before, limit).await?));
    }
    if params.before.is_some() {
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail("before is of order=desc only"));
    }
    let cursor = cursor::taken(id, params.cursor)?;
    let cursor = cursor.as_deref().map(str::parse).transpose()?;
    let mut page = conversation::page(&state, id, cursor.unwrap_or_default(), limit).await?;
    page.next_cursor = cursor::given(id, page.next_cursor);
    Ok(Json(page))
}
