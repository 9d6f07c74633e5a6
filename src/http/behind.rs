//! Owns the word that an answer may be older than what happened: the store is behind, and the answer has what it holds.

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method},
    middleware::Next,
    response::Response,
};

use super::AppState;

/// For how many milliseconds the store has taken nothing.
pub(super) const STORE_LAG: HeaderName = HeaderName::from_static("trunkline-store-lag-ms");

/// Marks answers to reads while the store takes nothing.
pub(super) async fn mark(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let before = state.supervisor().store_refuses_for();
    let mut response = next.run(request).await;
    // It may have begun or ended meanwhile.
    let lag = state.supervisor().store_refuses_for().or(before);
    if let Some(lag) = lag.filter(|_| reads && response.status().is_success()) {
        let ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        response.headers_mut().insert(STORE_LAG, HeaderValue::from(ms));
    }
    response
}
