//! Owns the route that finds words in a conversation.

use axum::{Json, extract::State};
use serde::Deserialize;

use crate::{
    domain::Words,
    http::{
        ApiError, AppState, ErrorCode, cursor,
        dto::FindPage,
        extract::{OfSession, Params},
        find,
    },
};

/// Hits per page when nobody says.
const DEFAULT_LIMIT: usize = 50;
/// Most hits per page.
const MAX_LIMIT: usize = 500;

/// The words, and which part of the hits to read.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FindParams {
    /// The words, as they stand in the text; their case does not matter, in no script. At most 200 characters.
    #[param(min_length = 1, max_length = 200, pattern = r"\S", example = "hello")]
    q: String,
    /// Hits per page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before, with the same words.
    cursor: Option<String>,
}

/// Find words in a conversation.
///
/// Looks through the whole journal from its end: what a person said, what the agent answered, thought and called tools with, and
/// what these gave back, whole records of any size included. A request looks for about two seconds and then answers with what it has
/// found and a `next_cursor`, with which the search goes on.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/find", operation_id = "find_in_session", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), FindParams),
    responses((status = 200, description = "A page of hits", body = FindPage)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<FindParams>,
) -> Result<Json<FindPage>, ApiError> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(
            ApiError::new(ErrorCode::InvalidQuery).detail(format!("limit is outside 1 to {MAX_LIMIT}"))
        );
    }
    let words = Words::new(&params.q)
        .map_err(|error| ApiError::new(ErrorCode::InvalidQuery).detail(format!("q: {error}")))?;
    let place = cursor::taken(id, params.cursor)?;
    let place = place.as_deref().map(str::parse).transpose()?;
    let found = find::find(&state, id, words, place.unwrap_or_default(), limit);
    let mut page = Box::pin(found).await?;
    page.next_cursor = cursor::given(id, page.next_cursor);
    Ok(Json(page))
}
