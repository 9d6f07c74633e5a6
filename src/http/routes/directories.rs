//! Owns the route that completes directories.

use axum::{Json, extract::State};
use serde::Deserialize;

use crate::http::{ApiError, AppState, ErrorCode, dto::DirectoryList, extract::Params};

/// Directories when nobody says how many.
const DEFAULT_LIMIT: usize = 50;
/// Most directories.
const MAX_LIMIT: usize = 500;

/// The completion that is wanted.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CompleteParams {
    /// The start of an absolute path. Default: empty, which gives the allowed roots, or the home directory when there are none.
    prefix: Option<String>,
    /// Most directories, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// Complete a directory.
///
/// The directories inside `sessions.cwd_roots` whose paths begin with the prefix: of `/home/me/co` those in `/home/me` whose names
/// begin with `co`. A hidden one only when the prefix has its dot. A directory that is not there, or lies outside, has none.
#[utoipa::path(
    get, path = "/v1/directories", operation_id = "complete_directories", tag = "sessions",
    params(CompleteParams), responses((status = 200, description = "The directories", body = DirectoryList)),
)]
pub(super) async fn complete(
    State(state): State<AppState>,
    Params(params): Params<CompleteParams>,
) -> Result<Json<DirectoryList>, ApiError> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let detail = format!("limit is outside 1 to {MAX_LIMIT}");
        return Err(ApiError::new(ErrorCode::InvalidQuery).detail(detail));
    }
    let prefix = params.prefix.unwrap_or_default();
    let found = state.supervisor().complete_directories(&prefix, limit).await?;
    Ok(Json(found.into()))
}
