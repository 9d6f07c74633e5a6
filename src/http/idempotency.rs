//! Owns `Idempotency-Key`: a POST that comes again with its key is answered as it was, and not run again.
//!
//! A request is written down before it runs and once more when it has ended. One that began and did not end under this
//! daemon or an earlier one has an outcome that nobody knows: its repeat is refused, never run.

mod key;
mod running;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep, timeout_at};

pub(super) use key::MAX_KEY;
pub(super) use running::Running;

use self::{
    key::{KEY, digest, request_key},
    running::{Claim, Claimed},
};
use super::{ApiError, AppState, ErrorCode, error::status_of, extract, serve::DRAIN};
use crate::{
    domain::{Clock, RequestId, SessionId, Timestamp},
    store::{EndedRequest, KeptAnswer, KeyedEnd, KeyedRequest},
    telemetry,
};

/// Says that the answer is the one of the first request with the key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long a key is known after its request has ended.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a repeat waits for the first request, which is what a client that lost its connection wants. It is below the
/// timeout of most clients, so that they learn what is the matter.
const REPEAT_WAIT: Duration = Duration::from_secs(10);
/// Largest body of an answer that is kept. Only an answer with a long result or a file in it is larger.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// Runs a request that has a key once. Requests without one pass.
pub(super) async fn once(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !request.headers().contains_key(&KEY) {
        return next.run(request).await;
    }
    let answered = Box::pin(answer(&state, request, next)).await;
    answered.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(state: &AppState, request: Request, next: Next) -> Result<Response, ApiError> {
    let key = request_key(&request)?;
    if state.shutdown().is_cancelled() {
        // A request that began now might be cut off; the next daemon runs it.
        return Err(ApiError::new(ErrorCode::ShuttingDown).harmless());
    }
    let (parts, body) = request.into_parts();
    let body = extract::read(Request::from_parts(parts.clone(), body), state).await?;
    let digest = digest(parts.uri.query(), &body);
    let deadline = Instant::now() + REPEAT_WAIT;
    let claim = loop {
        match state.running().claim(&key, digest) {
            Claimed::New(claim) => break claim,
            Claimed::Other => return Err(ErrorCode::IdempotencyConflict.into()),
            Claimed::Running(first) => {
                let ended = async {
                    tokio::select! {
                        () = first.ended() => true,
                        () = state.shutdown().cancelled() => false,
                    }
                };
                if timeout_at(deadline, ended).await != Ok(true) {
                    return Err(ApiError::new(ErrorCode::IdempotencyInProgress)
                        .header(header::RETRY_AFTER, HeaderValue::from_static("1")));
                }
            }
        }
    };
    let now = Clock.now();
    let store = state.supervisor().store();
    let begun = store.begin_request(key, digest, now, keep_from(now)).await;
    if let Some(known) = begun.map_err(|error| ApiError::from(error).harmless())? {
        return repeated(&claim, known);
    }
    let request = Request::from_parts(parts, Body::from(body));
    let task = carry_out(state.clone(), claim, request, next);
    match state.tracker().spawn(Box::pin(task)).await {
        Ok(response) => Ok(response),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only the end of the runtime cancels it.
            Err(_) => Err(ErrorCode::ShuttingDown.into()),
        },
    }
}

/// Runs the request to its end, also when the client leaves, and writes the end down.
async fn carry_out(state: AppState, claim: Claim, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let id = request.extensions().get::<RequestId>().copied();
    let cut = async {
        state.shutdown().cancelled().await;
        sleep(DRAIN).await;
    };
    let response = tokio::select! {
        response = next.run(request) => response,
        // The effect of the request is unknown, so its record stays.
        () = cut => return ApiError::from(ErrorCode::OutcomeUnknown).into_response(),
    };
    let (mut parts, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            return ApiError::new(ErrorCode::Internal)
                .caused_by(error)
                .into_response();
        }
    };
    let error = parts.extensions.get::<ApiError>();
    let problem = error.map(|error| Value::Object(error.problem(id)));
    let written = match error.map_or(Fate::Kept, |error| {
        fate(error.code(), error.side_effect_possible())
    }) {
        Fate::Forgotten => {
            let key = claim.key().clone();
            state.supervisor().store().forget_request(key).await
        }
        Fate::Unknown => Ok(()),
        Fate::Kept => {
            let session = session_of(&uri, parts.status, &parts.headers, problem.as_ref());
            let body = problem.map_or_else(|| body.clone(), |problem| problem.to_string().into());
            let ended = EndedRequest {
                key: claim.key().clone(),
                digest: claim.digest(),
                at: Clock.now(),
                session,
                end: end(parts.status, &parts.headers, &body),
            };
            state.supervisor().store().end_request(ended).await
        }
    };
    if let Err(error) = written {
        let error = telemetry::chain(&error);
        tracing::warn!(error, "the end of a request with a key was not written down");
    }
    drop(claim);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body))
}

/// The fate of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// Repeats get it.
    Kept,
    /// Nothing was done, and a repeat may fare better: it is run.
    Forgotten,
    /// The daemon failed or ended on the way. The effect until then is unknown.
    Unknown,
}

fn fate(code: ErrorCode, side_effect_possible: bool) -> Fate {
    let may_fare_better = code.retryable() || matches!(status_of(code).as_u16(), 429 | 503);
    match code {
        // A refusal that did nothing; the limit may be another one the next time.
        ErrorCode::BudgetSpent => Fate::Forgotten,
        _ if may_fare_better && !side_effect_possible => Fate::Forgotten,
        // A request that is wrong by itself has done nothing: mended, it may come with the same key.
        _ if is_refused_as_it_is(code) && !side_effect_possible => Fate::Forgotten,
        // These come from any depth, also after something was done. Another login must not be told of one that has ended.
        ErrorCode::StorageUnavailable | ErrorCode::ShuttingDown | ErrorCode::LoginInvalid => Fate::Unknown,
        _ => Fate::Kept,
    }
}

/// Whether the request could not be read, or asks for what cannot be.
fn is_refused_as_it_is(code: ErrorCode) -> bool {
    matches!(status_of(code).as_u16(), 400 | 413 | 415 | 422)
}

/// The session that an answer tells about: the one that was made, else the one in the path.
fn session_of(
    uri: &Uri,
    status: StatusCode,
    headers: &HeaderMap,
    problem: Option<&Value>,
) -> Option<SessionId> {
    if status == StatusCode::NOT_FOUND {
        return None;
    }
    let made = headers
        .get(header::LOCATION)
        .and_then(|value| value.to_str().ok());
    let made = made.and_then(session_in);
    let named = problem.and_then(|problem| problem.get("session_id")?.as_str()?.parse().ok());
    made.or(named).or_else(|| session_in(uri.path()))
}

fn session_in(path: &str) -> Option<SessionId> {
    let rest = path.strip_prefix("/v1/sessions/")?;
    rest.split('/').next()?.parse().ok()
}

fn end(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> KeyedEnd {
    let text = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let answer = (body.len() <= MAX_KEPT_BYTES).then(|| KeptAnswer {
        content_type: text(header::CONTENT_TYPE),
        location: text(header::LOCATION),
        body: body.to_vec(),
    });
    KeyedEnd {
        status: status.as_u16(),
        answer,
    }
}

/// The answer to a request whose key was used before. Nothing runs under the key now: the caller holds the claim.
fn repeated(claim: &Claim, known: KeyedRequest) -> Result<Response, ApiError> {
    if known.digest != claim.digest() {
        return Err(ErrorCode::IdempotencyConflict.into());
    }
    let end = known.end.ok_or(ErrorCode::OutcomeUnknown)?;
    let not_kept = || ApiError::new(ErrorCode::ResponseNotKept).member("response_status", end.status);
    let answer = end.answer.ok_or_else(not_kept)?;
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(end.status)
        .map_err(|error| ApiError::new(ErrorCode::StorageFailed).caused_by(error))?;
    for (name, value) in [
        (header::CONTENT_TYPE, answer.content_type),
        (header::LOCATION, answer.location),
    ] {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            response.headers_mut().insert(name, value);
        }
    }
    let replayed = HeaderValue::from_static("true");
    response.headers_mut().insert(REPLAYED, replayed);
    Ok(response)
}

/// Keys that ended before this instant are free again.
fn keep_from(now: Timestamp) -> Timestamp {
    let retention = i64::try_from(RETENTION.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(retention))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_that_nothing_was_done_is_run_again() {
        use ErrorCode as E;
        for code in E::ALL.iter().copied() {
            let expected = match code {
                E::StorageUnavailable | E::ShuttingDown | E::LoginInvalid => Fate::Unknown,
                E::InputBlocked
                | E::SessionStopping
                | E::CliNotFound
                | E::NotReady
                | E::Rebuilding
                | E::BodyUnreadable => Fate::Forgotten,
                E::TooManyClients | E::TooManyConnections | E::TooManyTickets | E::NotInitialized => {
                    Fate::Forgotten
                }
                E::TooManySessions
                | E::StartQueueFull
                | E::QueueFull
                | E::ConversationInUse
                | E::BudgetSpent
                | E::SessionNotParkable
                | E::CallDeferred
                | E::KeeperUnresponsive
                | E::TooManySearches
                | E::TooFewFiles => Fate::Forgotten,
                E::InvalidField | E::InvalidQuery | E::InvalidJson | E::EmptyPrompt | E::CwdMissing => {
                    Fate::Forgotten
                }
                code if is_refused_as_it_is(code) => Fate::Forgotten,
                _ => Fate::Kept,
            };
            assert_eq!(
                fate(code, code.side_effect_possible()),
                expected,
                "{}",
                code.as_str()
            );
        }
    }

    /// The daemon tells the caller to repeat what it undid, or never began.
    #[test]
    fn what_was_undone_is_run_again_under_its_key() {
        use crate::supervisor::SupervisorError as E;
        let undone = |error| E::Undone(Box::new(error));
        for (error, expected) in [
            (undone(E::StoreBehind), Fate::Forgotten),
            (undone(E::ShuttingDown), Fate::Forgotten),
            (E::Closing, Fate::Forgotten),
            (E::StoreBehind, Fate::Unknown),
            (E::ShuttingDown, Fate::Unknown),
            (E::Partly(Box::new(E::Closing)), Fate::Unknown),
        ] {
            let said = format!("{error:?}");
            let error = ApiError::from(error);
            let told = fate(error.code(), error.side_effect_possible());
            assert_eq!(told, expected, "{said}");
            assert_eq!(told == Fate::Forgotten, !error.side_effect_possible(), "{said}");
        }
    }

    #[test]
    fn an_answer_belongs_to_the_session_that_was_made_else_to_the_one_in_the_path() {
        let [parent, child] = [SessionId::new(), SessionId::new()];
        let fork: Uri = format!("/v1/sessions/{parent}/fork").parse().unwrap();
        let create = Uri::from_static("/v1/sessions");
        let mut made = HeaderMap::new();
        let location = format!("/v1/sessions/{child}");
        made.insert(header::LOCATION, location.parse().unwrap());
        let none = HeaderMap::new();
        let problem = serde_json::json!({"session_id": child.to_string()});
        for (uri, status, headers, problem, expected) in [
            (&fork, 201, &made, None, Some(child)),
            (&fork, 504, &none, Some(&problem), Some(child)),
            (&fork, 409, &none, None, Some(parent)),
            (&fork, 404, &none, None, None),
            (&create, 201, &made, None, Some(child)),
            (&create, 422, &none, None, None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let found = session_of(uri, status, headers, problem);
            assert_eq!(found, expected, "{uri} {status}");
        }
    }
}
