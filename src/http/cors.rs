//! Owns what browsers are told about pages of other origins: those of `server.allowed_origins` may call and read answers,
//! and nobody else is told anything. Cookies are never let in: the token is what opens the API.

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};

use super::AppState;

/// Methods of the API.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Request headers that the API reads, beside those that every page may send.
const ALLOWED: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, last-event-id");
/// Response headers that clients need, beside those that every page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "allow, idempotency-replayed, location, retry-after, trunkline-store-lag-ms, x-request-id",
);
/// For how many seconds a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// A browser asks this before a page of the internet reaches an address of this machine or network.
const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Lets pages of allowed origins read the answer, whatever it is.
pub(super) async fn allow(State(state): State<AppState>, request: Request, next: Next) -> Response {
    if !state.hosts().has_origins() {
        return next.run(request).await;
    }
    let origin = state.hosts().allowed_origin(request.headers());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// The answer to a browser that asks, for a page of an allowed origin, whether a request may be made. It carries no token.
pub(super) fn preflight(state: &AppState, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let asks = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && state.hosts().allowed_origin(headers).is_some();
    asks.then(|| permission(headers))
}

fn permission(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if asked.get(&ASKS_PRIVATE).is_some_and(|value| value == "true") {
        headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    response
}
