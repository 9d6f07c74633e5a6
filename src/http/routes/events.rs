//! Owns the routes of a session's journal: in pages from either end, as a stream of lines or of server-sent events, and one
//! record alone.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    auth::Tenure,
    domain::{Seq, SessionId, Timestamp},
    http::{
        ApiError, AppState, ErrorCode,
        dto::{EventPage, Record},
        extract::{OfNamed, OfSession, Order, Params, StubAbove, Whole},
        stream::{self, Begin, Format, LAST_EVENT_ID},
        thin::Thinning,
    },
    journal::{Chunk, Missing, MissingReason},
};

/// Records per page when nobody says.
const DEFAULT_LIMIT: usize = 200;
/// Most records per page.
const MAX_LIMIT: usize = 5_000;
/// A page gets no further record once it has this many bytes.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Nor once so many bytes were read for it: stubs are small, and the records that they stand for are not.
const READ_BYTES: usize = 64 * 1024 * 1024;

/// Which part of the journal to read.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParams {
    /// Only records after this number. Default: 0, from the first.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    after: Option<Whole>,
    /// The `ts` of the record `after`, as the client got it: another one there is `history_differs`.
    #[param(value_type = Option<String>, format = DateTime)]
    after_ts: Option<Timestamp>,
    /// Begin with the newest so many records, in the place of `after`.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    tail: Option<Whole>,
    /// Only records of these kinds: sources such as `daemon`, or a source and a type such as `cli.assistant`, separated by commas.
    /// Streams only: they tell of numbers that they leave out.
    #[param(
        pattern = r"^(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?(,(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?)*$"
    )]
    only: Option<String>,
    /// No records of these kinds, such as `cli.stream_event`. Streams only.
    #[param(
        pattern = r"^(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?(,(cli|client|daemon|stdout_text|stderr)(\.[^,]*)?)*$"
    )]
    without: Option<String>,
    /// Join the pieces of a message that come within so many milliseconds, 10 to 10000. Streams only.
    #[param(minimum = 10, maximum = 10_000)]
    coalesce: Option<u64>,
    /// Only records before this number. Pages only.
    #[param(value_type = Option<u64>, maximum = 9_007_199_254_740_991_i64)]
    before: Option<Whole>,
    /// `desc`: the newest record first, and pages towards the first one. Default: `asc`. Pages only.
    #[param(inline)]
    order: Option<Order>,
    /// Records per page, 1 to 5000. Default: 200. Pages only.
    #[param(minimum = 1, maximum = 5_000)]
    limit: Option<usize>,
    /// Whether a stream of lines goes on with new records. Default: false. `application/x-ndjson` only.
    follow: Option<bool>,
    /// A record of more than this many bytes (1024 at the least) comes as a stub with its size. Default: every record whole.
    #[param(value_type = Option<u64>, minimum = 1024, maximum = 4_294_967_295_i64)]
    stub_above: Option<StubAbove>,
}

/// Read the journal.
///
/// Everything that the CLI printed, that was sent to it and that the daemon noted, byte for byte. `Accept` chooses the
/// form: a page (`application/json`), a stream of lines (`application/x-ndjson`), or a live stream
/// (`text/event-stream`, with `Last-Event-ID`).
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", operation_id = "list_events", tag = "events",
    params(("id" = Uuid, Path, description = "The session"), EventParams,
        ("last-event-id" = Option<u64>, Header, maximum = 9_007_199_254_740_991_i64,
            description = "The last record that an event stream gave; wins over after. Event streams only")),
    responses((status = 200, description = "Records", content(
        (EventPage = "application/json"), (String = "application/x-ndjson"), (String = "text/event-stream")))),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    OfSession(id): OfSession,
    Params(params): Params<EventParams>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let thinning = Thinning::of(params.only.as_deref(), params.without.as_deref(), params.coalesce)?;
    let thinning = thinning.stubbing(params.stub_above);
    let format = wanted(&headers);
    let told = last_event_id(&headers)?;
    let seen = told.filter(|_| format == Some(Format::EventStream));
    let after = match seen {
        // A browser that comes back asks with the same query.
        Some(seen) => seen,
        None => {
            let place = Begin {
                after: params.after.map(Whole::get),
                after_ts: params.after_ts,
                tail: params.tail.map(Whole::get),
            };
            stream::begin(&state, id, place).await?.unwrap_or(Seq::ZERO)
        }
    };
    let wrong = |detail: &str| Err(ApiError::new(ErrorCode::InvalidQuery).detail(detail));
    let Some(format) = format else {
        if params.only.is_some() || params.without.is_some() || params.coalesce.is_some() {
            return wrong("only, without and coalesce are of streams only");
        }
        let wanted = Page {
            after,
            before: params.before.map(Whole::seq),
            limit: checked_limit(params.limit)?,
            stub_above: params.stub_above,
        };
        return match params.order.unwrap_or_default() {
            Order::Asc => page(&state, id, &wanted).await,
            Order::Desc => page_back(&state, id, &wanted).await,
        };
    };
    if params.before.is_some() || params.order.is_some() {
        return wrong("before and order are of pages only: accept application/json");
    }
    let follow = format == Format::EventStream || params.follow.unwrap_or(false);
    stream::open(&state, id, after, format, follow, thinning, tenure).await
}

/// Read one record.
///
/// The whole of it, byte for byte, however large it is.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events/{seq}", operation_id = "get_event", tag = "events",
    params(("id" = Uuid, Path, description = "The session"),
        ("seq" = u64, Path, description = "The number of the record, from 1", minimum = 1, maximum = 9_007_199_254_740_991_i64)),
    responses((status = 200, description = "The record", body = Record)),
)]
pub(super) async fn get(
    State(state): State<AppState>,
    OfNamed(id, seq): OfNamed,
) -> Result<Response, ApiError> {
    let seq = seq.parse::<u64>().ok().filter(|seq| *seq > 0);
    let seq = seq.and_then(|seq| Whole::try_from(seq).ok()).map(Whole::seq);
    let seq =
        seq.ok_or_else(|| ApiError::new(ErrorCode::InvalidId).detail("seq: expected a number from 1 on"))?;
    let before = Seq::new(seq.get() - 1);
    let chunk = state.supervisor().page(id, before, 1).await?;
    let Some(chunk) = chunk else {
        let head = state.supervisor().session(id).await?.live.head_seq;
        return Err(ApiError::new(ErrorCode::SeqBeyondHead).member("head_seq", head.get()));
    };
    if chunk
        .missing
        .is_some_and(|gap| gap.reason == MissingReason::Compacted && seq <= gap.last_seq)
    {
        return Err(ApiError::new(ErrorCode::RecordsCompacted).detail("a compaction took the record out"));
    }
    let record = chunk.records().find(|record| record.seq == seq);
    let line = record.ok_or(ErrorCode::RecordNotFound)?.line.to_vec();
    Ok(json(line))
}

fn json(body: Vec<u8>) -> Response {
    let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([content_type], Body::from(body)).into_response()
}

fn checked_limit(limit: Option<usize>) -> Result<usize, ApiError> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=MAX_LIMIT).contains(&limit) {
        return Ok(limit);
    }
    Err(ApiError::new(ErrorCode::InvalidQuery).detail(format!("limit is outside 1 to {MAX_LIMIT}")))
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
    // As the document has it, none may be written as null.
    let value = headers.get(LAST_EVENT_ID);
    let Some(value) = value.filter(|value| !value.is_empty() && *value != "null") else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .and_then(|number| Whole::try_from(number).ok())
        .map(|number| Some(number.seq()))
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidQuery).detail("last-event-id: expected a number"))
}

/// Which records a page is to have.
struct Page {
    after: Seq,
    before: Option<Seq>,
    limit: usize,
    stub_above: Option<StubAbove>,
}

impl Page {
    fn holds(&self, seq: Seq) -> bool {
        self.after < seq && self.before.is_none_or(|before| seq < before)
    }

    fn shown(&self, chunk: Chunk) -> Chunk {
        StubAbove::apply(self.stub_above, chunk)
    }
}

/// The body of a page, as it grows.
struct Items {
    json: Vec<u8>,
    /// The bytes that were read for it.
    read: usize,
    count: usize,
    missing: Vec<Missing>,
}

impl Items {
    fn new() -> Self {
        Self {
            json: br#"{"items":["#.to_vec(),
            read: 0,
            count: 0,
            missing: Vec::new(),
        }
    }

    fn has_room(&self, limit: usize) -> bool {
        self.count < limit && self.json.len() < PAGE_BYTES && self.read < READ_BYTES
    }

    fn room(&self) -> usize {
        PAGE_BYTES - self.json.len()
    }

    fn push(&mut self, line: &[u8]) {
        if self.count > 0 {
            self.json.push(b',');
        }
        self.json.extend_from_slice(line);
        self.count += 1;
    }

    fn finish(mut self, next: &str, head: Seq) -> Response {
        let json = &mut self.json;
        json.extend_from_slice(format!(r#"],{next},"head_seq":{head}"#).as_bytes());
        if !self.missing.is_empty() {
            let missing = serde_json::to_string(&self.missing).unwrap_or_default();
            json.extend_from_slice(format!(r#","missing":{missing}"#).as_bytes());
        }
        json.push(b'}');
        self::json(self.json)
    }
}

async fn page(state: &AppState, id: SessionId, wanted: &Page) -> Result<Response, ApiError> {
    let mut body = Items::new();
    let mut last = wanted.after;
    'read: while body.has_room(wanted.limit) {
        let Some(chunk) = state.supervisor().page(id, last, body.room()).await? else {
            break;
        };
        if chunk.is_empty() {
            break;
        }
        body.read += chunk.bytes.len();
        if let Some(gap) = chunk.missing {
            if !wanted.holds(gap.first_seq) {
                break;
            }
            last = gap.last_seq;
            body.missing.push(gap);
        }
        for record in wanted.shown(chunk).records().take(wanted.limit - body.count) {
            if !wanted.holds(record.seq) {
                break 'read;
            }
            body.push(record.line);
            last = record.seq;
        }
    }
    // Asked last: reading opened the session, so this is what its journal says.
    let head = state.supervisor().session(id).await?.live.head_seq.max(last);
    Ok(body.finish(&format!(r#""next_after":{last}"#), head))
}

/// A page from its end: the newest record first.
async fn page_back(state: &AppState, id: SessionId, wanted: &Page) -> Result<Response, ApiError> {
    if wanted.after > Seq::ZERO {
        // A number that the session has not given is refused as forwards.
        state.supervisor().page(id, wanted.after, 1).await?;
    }
    let mut body = Items::new();
    let mut newest = None;
    let mut at = wanted.before.unwrap_or(Seq::MAX);
    while body.has_room(wanted.limit) && at > wanted.after.next() {
        let most = wanted.limit - body.count;
        let chunks = state.supervisor().page_before(id, at, most, body.room()).await?;
        let Some(start) = chunks.first().map(Chunk::start) else {
            let not_kept = Some(at).filter(|at| *at < Seq::MAX);
            let not_kept = not_kept.map(|at| state.supervisor().not_kept(id, at));
            body.missing.extend(not_kept.map(|gap| Missing {
                first_seq: gap.first_seq.max(wanted.after.next()),
                ..gap
            }));
            at = Seq::ZERO;
            break;
        };
        for chunk in chunks.into_iter().rev() {
            body.read += chunk.bytes.len();
            // A gap may go on beyond what is asked for, or was told in part by the look before.
            let missing = chunk.missing.map(|gap| Missing {
                first_seq: gap.first_seq.max(wanted.after.next()),
                last_seq: gap.last_seq.min(Seq::new(at.get() - 1)),
                ..gap
            });
            let missing = missing.filter(|gap| gap.first_seq <= gap.last_seq);
            let chunk = wanted.shown(chunk);
            let records: Vec<_> = chunk.records().collect();
            let records = records.into_iter().rev();
            for record in records.filter(|record| record.seq < at && wanted.holds(record.seq)) {
                newest.get_or_insert(record.seq);
                body.push(record.line);
            }
            body.missing.extend(missing);
        }
        at = start;
    }
    let head = state.supervisor().session(id).await?.live.head_seq;
    let newest = newest.unwrap_or(wanted.after).max(wanted.after);
    let next = match at > wanted.after.next() {
        true => format!(r#""next_after":{newest},"next_before":{at}"#),
        false => format!(r#""next_after":{newest}"#),
    };
    Ok(body.finish(&next, head))
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
