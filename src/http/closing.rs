//! Owns what clients are told while the daemon ends: new work is refused, open sockets and streams hear when to come back.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{Request, State},
    http::{HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{ApiError, AppState, ErrorCode, error::status_of};

/// Refuses new work from the beginning of the shutdown on. The daemon answers a request that changes nothing as long as
/// it is there, and so it does one that helps running work to its end.
pub(super) async fn refuse(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if !state.shutdown().is_cancelled() {
        return next.run(request).await;
    }
    let mut response = if is_new_work(&request) {
        ApiError::from(ErrorCode::ShuttingDown).harmless().into_response()
    } else {
        next.run(request).await
    };
    if response.status() == status_of(ErrorCode::ShuttingDown) {
        let seconds = Duration::from_millis(state.config().reconnect_after_ms)
            .as_millis()
            .div_ceil(1000);
        response.headers_mut().insert(
            header::RETRY_AFTER,
            HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)),
        );
    }
    response
}

fn is_new_work(request: &Request) -> bool {
    if request.headers().contains_key(header::UPGRADE) {
        return true;
    }
    let path = request.uri().path();
    let ends_work =
        ["/stop", "/interrupt"].iter().any(|end| path.ends_with(end)) || path.contains("/approvals/");
    match *request.method() {
        Method::GET | Method::HEAD | Method::OPTIONS => false,
        Method::POST => !ends_work,
        _ => true,
    }
}

/// The last frame of a socket before its close.
pub(super) fn frame(reconnect_after_ms: u64) -> String {
    json!({"type": "trunkline.shutdown", "reconnect_after_ms": reconnect_after_ms}).to_string()
}

/// The last event of an event stream. It has no id, so that the client's place stays what it is.
pub(super) fn event(reconnect_after_ms: u64) -> Bytes {
    let data = frame(reconnect_after_ms);
    format!("event: shutdown\nretry: {reconnect_after_ms}\ndata: {data}\n\n").into()
}
