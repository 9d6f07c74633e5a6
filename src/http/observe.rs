//! Owns what surrounds every request: its id, its one log line, and the last word on errors and panics.

use std::{panic::AssertUnwindSafe, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;

use super::{ApiError, ErrorCode};
use crate::{domain::RequestId, metrics::RequestMetrics};

/// Carries the request's id in every response.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives the request an id, answers panics, puts the id into problems, counts and logs one line. The line has no query, no
/// header and no body: secrets and prompts live there.
pub(super) async fn observe(
    State(requests): State<RequestMetrics>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::new();
    let started = Instant::now();
    let method = request.method().clone();
    let reads = matches!(method, Method::GET | Method::HEAD);
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id);

    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let panicked = answered.is_err();
    let mut response = answered.unwrap_or_else(|_| ApiError::new(ErrorCode::Internal).into_response());
    let error = response.extensions_mut().remove::<ApiError>();
    let error = error.map(|error| if reads { of_reading(error) } else { error });
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
    let took = started.elapsed();
    requests.answered(method.as_str(), route, status, took);
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
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

/// A fault of the daemon while it reads has changed nothing. The CLI may have, when it was asked.
fn of_reading(error: ApiError) -> ApiError {
    use ErrorCode as E;
    match error.code() {
        E::ShuttingDown | E::StorageUnavailable | E::StorageFailed | E::Internal => error.harmless(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::metrics::{Levels, Metrics};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    async fn faulty() -> &'static str {
        panic!("planted-secret")
    }

    async fn broken() -> ApiError {
        ApiError::new(ErrorCode::StorageFailed).caused_by(io::Error::other("disk 7 is gone"))
    }

    /// Status, body and log of one request.
    async fn observed(uri: &str) -> (u16, String, String) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let metrics = Metrics::new("1");
        let router = Router::new()
            .route("/faulty", get(faulty))
            .route("/broken", get(broken))
            .route("/good/{id}", get(async || "fine"))
            .layer(from_fn_with_state(metrics.requests().clone(), observe));
        let request = Request::builder()
            .uri(uri)
            .header(header::AUTHORIZATION, "Bearer planted-token")
            .body(Body::empty())
            .unwrap();
        let response = router.oneshot(request).await.unwrap();
        let id = response.headers()[REQUEST_ID].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        drop(guard);
        let counted = metrics.text(&Levels::default()).unwrap();
        let of_status = format!(r#"status="{status}"}} 1"#);
        assert!(counted.contains(&of_status), "{counted}");
        assert!(!counted.contains("planted"), "{counted}");
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains(&id), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
        (status, String::from_utf8(body.to_vec()).unwrap(), log)
    }

    #[tokio::test]
    async fn a_panic_becomes_a_problem_that_says_nothing_of_it() {
        let (status, body, log) = observed("/faulty").await;
        assert_eq!(status, 500);
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(
            !body.contains("planted") && !log.contains("planted"),
            "{body} {log}"
        );
    }

    #[tokio::test]
    async fn a_cause_is_logged_once_and_not_shown() {
        let (status, body, log) = observed("/broken").await;
        assert_eq!(status, 500);
        assert!(!body.contains("disk 7"), "{body}");
        assert_eq!(log.matches("disk 7 is gone").count(), 1, "{log}");
        assert!(log.contains("ERROR") && log.contains("storage_failed"), "{log}");
    }

    #[tokio::test]
    async fn the_log_line_has_the_route_and_no_secret() {
        let (status, _, log) = observed("/good/planted-id?token=planted-query").await;
        assert_eq!(status, 200);
        assert!(log.contains("/good/{id}") && log.contains("duration_ms"), "{log}");
        assert!(!log.contains("planted"), "{log}");
    }
}
