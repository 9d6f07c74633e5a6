//! Owns what surrounds every request: its id, its one log line, and the last word on errors and panics.

use std::{panic::AssertUnwindSafe, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;

use super::{ApiError, ErrorCode};
use crate::domain::RequestId;

/// Carries the request's id in every response.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request an id, answers panics, puts the id into problems and logs one line. The line has no query, no
/// header and no body: secrets and prompts live there.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let id = RequestId::new();
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id);

    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let panicked = answered.is_err();
    let mut response = answered.unwrap_or_else(|_| ApiError::new(ErrorCode::Internal).into_response());
    let error = response.extensions_mut().remove::<ApiError>();
    if let Some(error) = &error {
        let body = serde_json::Value::Object(error.problem(Some(id))).to_string();
        *response.body_mut() = body.into();
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }

    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let status = response.status().as_u16();
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let code = error.as_ref().map(|error| error.code().as_str());
    let cause = error.as_ref().and_then(ApiError::cause_chain);
    let cause = if panicked {
        Some("the handler panicked".to_owned())
    } else {
        cause
    };
    // A 503 or 504 that nothing failed behind is a state of things, not a failure.
    if cause.is_some() || response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(request.id = %id, %method, route, status, duration_ms, code, cause, "request failed");
    } else {
        tracing::info!(request.id = %id, %method, route, status, duration_ms, code, "request");
    }
    response
}
