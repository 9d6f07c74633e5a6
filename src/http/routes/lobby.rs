//! Owns the route of the lobby: all sessions, and each change of one, as server-sent events.

use std::io;

use axum::{body::Bytes, extract::State, http::HeaderMap, response::Response};

use crate::{
    auth::Tenure,
    http::{
        ApiError, AppState,
        dto::LobbyStreamEvent,
        extract::Params,
        lobby::{LobbyView, WatchParams},
        stream::{self, Format, LAST_EVENT_ID, Source},
    },
};

/// Watch all sessions.
///
/// An event stream. The first event has all sessions that match, in short; then each change of one follows. A client that
/// comes back with the id of the last event gets what followed, or all sessions anew when that is no longer known.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch_sessions", tag = "events",
    params(WatchParams,
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen")),
    responses((status = 200, description = "News: the fields of each event",
        content((LobbyStreamEvent = "text/event-stream")))),
)]
pub(super) async fn watch(
    State(state): State<AppState>,
    Params(mut params): Params<WatchParams>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(seen) = headers.get(LAST_EVENT_ID) {
        params.last_event_id = Some(seen.to_str().unwrap_or_default().to_owned());
    }
    let permit = state.connections().admit_any()?;
    let view = LobbyView::open(&state, params).await?;
    Ok(stream::respond(&state, view, Format::EventStream, permit, tenure))
}

impl Source for LobbyView {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let frames = Self::next(self).await;
        let events = frames
            .iter()
            .map(|(id, frame)| format!("id: {id}\ndata: {}\n\n", frame.to_json()));
        Some(Ok(events.collect::<String>().into()))
    }
}
