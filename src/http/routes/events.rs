//! Owns the route of a session's journal: in pages, or as a stream of lines or of server-sent events.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    domain::{Seq, SessionId},
    http::{
        ApiError, AppState, ErrorCode,
        dto::EventPage,
        extract::{OfSession, Params},
        stream::{self, Format, LAST_EVENT_ID},
        thin::Thinning,
    },
};

/// Records per page when nobody says.
const DEFAULT_LIMIT: usize = 200;
/// Most records per page.
const MAX_LIMIT: usize = 5_000;
/// A page gets no further record once it has this many bytes.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Which part of the journal to read.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Only records after this number. Default: 0, from the first.
    after: Option<u64>,
    /// Begin with the newest so many records, in the place of `after`.
    tail: Option<u64>,
    /// Only records of these kinds: sources such as `daemon`, or a source and a type such as `cli.assistant`, separated by commas.
    /// Of streams only: they tell of numbers that they leave out.
    only: Option<String>,
    /// No records of these kinds, such as `cli.stream_event`. Of streams only.
    without: Option<String>,
    /// Join the pieces of a message that come within so many milliseconds, 10 to 10000. Of streams only.
    coalesce: Option<u64>,
    /// Records per page, 1 to 5000. Default: 200. Pages only.
    limit: Option<usize>,
    /// Whether a stream of lines goes on with new records. Default: false. `application/x-ndjson` only.
    follow: Option<bool>,
}

/// Read the journal.
///
/// Everything that the CLI printed, that was sent to it and that the daemon noted, byte for byte. `Accept` chooses the
/// form: a page (`application/json`), a stream of lines (`application/x-ndjson`), or a live stream
/// (`text/event-stream`, with `Last-Event-ID`).
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", operation_id = "list_events", tag = "events",
    params(("id" = Uuid, Path, description = "The session"), EventParams,
        ("last-event-id" = Option<u64>, Header, description = "The last record that an event stream gave; wins over after")),
    responses((status = 200, description = "Records", content(
        (EventPage = "application/json"), (String = "application/x-ndjson"), (String = "text/event-stream")))),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let thinning = Thinning::of(params.only.as_deref(), params.without.as_deref(), params.coalesce)?;
    let format = wanted(&headers);
    let seen = match format {
        Some(Format::EventStream) => last_event_id(&headers)?,
        Some(Format::Lines) | None => None,
    };
    let after = match seen {
        // A browser that comes back asks with the same query.
        Some(seen) => seen,
        None => stream::begin(&state, id, params.after, params.tail)
            .await?
            .unwrap_or(Seq::ZERO),
    };
    match format {
        Some(Format::EventStream) => {
            stream::open(&state, id, after, Format::EventStream, true, thinning).await
        }
        Some(Format::Lines) => {
            let follow = params.follow.unwrap_or(false);
            stream::open(&state, id, after, Format::Lines, follow, thinning).await
        }
        None if params.only.is_some() || params.without.is_some() || params.coalesce.is_some() => {
            Err(ApiError::new(ErrorCode::InvalidQuery)
                .detail("only, without and coalesce are of streams only"))
        }
        None => page(&state, id, after, params.limit.unwrap_or(DEFAULT_LIMIT)).await,
    }
}

/// The stream that the client prefers; `None` for a page.
fn wanted(headers: &HeaderMap) -> Option<Format> {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|range| match range.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Some(Some(Format::EventStream)),
            "application/x-ndjson" => Some(Some(Format::Lines)),
            "application/json" => Some(None),
            _ => None,
        })
        .flatten()
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .map(|number| Some(Seq::new(number)))
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidQuery).detail("last-event-id: expected a number"))
}

async fn page(state: &AppState, id: SessionId, after: Seq, limit: usize) -> Result<Response, ApiError> {
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(
            ApiError::new(ErrorCode::InvalidQuery).detail(format!("limit is outside 1 to {MAX_LIMIT}"))
        );
    }
    let mut body = br#"{"items":["#.to_vec();
    let (mut last, mut count) = (after, 0);
    let mut missing = Vec::new();
    while count < limit && body.len() < PAGE_BYTES {
        let Some(chunk) = state.supervisor().page(id, last, PAGE_BYTES - body.len()).await? else {
            break;
        };
        if chunk.is_empty() {
            break;
        }
        if let Some(gap) = chunk.missing {
            last = gap.last_seq;
            missing.push(gap);
        }
        for record in chunk.records().take(limit - count) {
            if count > 0 {
                body.push(b',');
            }
            body.extend_from_slice(record.line);
            last = record.seq;
            count += 1;
        }
    }
    // Asked last: reading opened the session, so this is what its journal says.
    let head = state.supervisor().session(id).await?.live.head_seq.max(last);
    body.extend_from_slice(format!(r#"],"next_after":{last},"head_seq":{head}"#).as_bytes());
    if !missing.is_empty() {
        let missing = serde_json::to_string(&missing).unwrap_or_default();
        body.extend_from_slice(format!(r#","missing":{missing}"#).as_bytes());
    }
    body.push(b'}');
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([content_type], Body::from(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_chooses_the_form() {
        let form = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            wanted(&headers)
        };
        assert_eq!(form("text/event-stream"), Some(Format::EventStream));
        assert_eq!(form("application/x-ndjson; q=1, */*"), Some(Format::Lines));
        assert_eq!(form("application/json, text/event-stream"), None);
        assert_eq!(form("*/*"), None);
        assert_eq!(wanted(&HeaderMap::new()), None);
    }
}
