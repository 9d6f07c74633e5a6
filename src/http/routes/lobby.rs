//! Owns the route of the lobby: all sessions, and each change of one, as server-sent events.

use std::io;

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName},
    response::Response,
};
use serde::Deserialize;

use super::label;
use crate::{
    domain::SessionState,
    http::{
        ApiError, AppState, ErrorCode,
        dto::LobbyFrame,
        extract::Params,
        stream::{self, Format, Source},
    },
    supervisor::{EventId, LobbyFilter, LobbyNews, LobbyWatch},
};

/// The id that a browser says it has seen when it comes back to an event stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Sessions in a snapshot when the client does not say.
const DEFAULT_LIMIT: usize = 500;
/// Most sessions in a snapshot.
const MAX_LIMIT: usize = 10_000;

/// Which sessions to watch: those that match every filter.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchParams {
    /// Only sessions in this state.
    state: Option<SessionState>,
    /// Only sessions in exactly this working directory.
    cwd: Option<String>,
    /// Only sessions with exactly this tag.
    tag: Option<String>,
    /// Only sessions with this label, as `key=value`.
    label: Option<String>,
    /// Only sessions that need a person, or only those that need nobody.
    needs_person: Option<bool>,
    /// Most sessions in a snapshot, 1 to 10000: those with the newest activity. Default: 500. Changes come of all that match.
    limit: Option<usize>,
    /// The `event_id` that was seen last, for clients that cannot set the header `Last-Event-ID`, which wins.
    last_event_id: Option<String>,
}

/// Watch all sessions.
///
/// An event stream. The first event has all sessions that match, in short; then each change of one follows. A client that
/// comes back with the id of the last event gets what followed, or all sessions anew when that is no longer known.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch_sessions", tag = "events",
    params(WatchParams,
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen")),
    responses((status = 200, description = "News, one JSON object in the data of each event",
        content((LobbyFrame = "text/event-stream")))),
)]
pub(super) async fn watch(
    State(state): State<AppState>,
    Params(params): Params<WatchParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(
            ApiError::new(ErrorCode::InvalidQuery).detail(format!("limit is outside 1 to {MAX_LIMIT}"))
        );
    }
    let seen = headers
        .get(LAST_EVENT_ID)
        .map(|value| value.to_str().unwrap_or("?"));
    // A place that cannot be read is one that is not known: all sessions come anew.
    let seen = seen.or(params.last_event_id.as_deref());
    let seen = seen.and_then(|text| text.parse::<EventId>().ok());
    let filter = LobbyFilter {
        state: params.state,
        cwd: params.cwd,
        tag: params.tag,
        label: params.label.as_deref().map(label).transpose()?,
        needs_person: params.needs_person,
    };
    let permit = state.connections().admit_any()?;
    let watch = state.lobby().watch(filter, seen).await?;
    let news = News { watch, limit };
    Ok(stream::respond(&state, news, Format::EventStream, permit))
}

struct News {
    watch: LobbyWatch,
    limit: usize,
}

impl Source for News {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let events = match self.watch.next().await {
            LobbyNews::Snapshot(id, sessions) => event(id, &LobbyFrame::snapshot(id, &sessions, self.limit)),
            LobbyNews::Events(events) => events
                .iter()
                .map(|(id, change)| event(*id, &LobbyFrame::change(*id, change)))
                .collect(),
        };
        Some(Ok(events.into()))
    }
}

fn event(id: EventId, frame: &LobbyFrame) -> String {
    format!("id: {id}\ndata: {}\n\n", frame.to_json())
}
