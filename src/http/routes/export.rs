//! Owns the route that gives a whole conversation as a file.

use axum::{extract::State, response::Response};
use serde::Deserialize;

use crate::{
    auth::Tenure,
    http::{
        ApiError, AppState,
        dto::ExportItem,
        export::{self, ExportFormat},
        extract::{OfSession, Params},
    },
};

/// How the conversation is written.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParams {
    /// `markdown`: a text for people, with whole outputs of tools. `json`: an array of the records. `ndjson`: a record per line, the
    /// bytes of the journal. Default: `markdown`.
    #[param(inline)]
    format: Option<ExportFormat>,
}

/// Export a conversation.
///
/// All records that there are now, or what they say, as a file under the name of the session. Where records are missing, the file
/// says so: in words, or with an item `{"type":"trunkline.gap","first_seq":4,"last_seq":9,"reason":"lost"}`. An export that cannot be finished is broken
/// off, and so is one whose login ends: an answer that ends as HTTP says is whole.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/export", operation_id = "export_session", tag = "messages",
    params(("id" = Uuid, Path, description = "The session"), ExportParams),
    responses((status = 200, description = "The file", content(
        (String = "text/markdown"), (Vec<ExportItem> = "application/json"), (String = "application/x-ndjson")))),
)]
pub(super) async fn export(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<ExportParams>,
    tenure: Tenure,
) -> Result<Response, ApiError> {
    export::open(&state, id, params.format.unwrap_or_default(), tenure).await
}
