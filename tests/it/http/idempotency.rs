//! Requests with an idempotency key that do not begin, and what a replayed problem looks like.

use axum::{
    body::Body,
    http::{Method, Request, header},
};
use serde_json::json;
use trunkline::{
    domain::Timestamp,
    store::{RequestKey, Store},
};

use crate::http::harness::{Bed, MAX_PROMPT_BYTES};

fn keyed(bed: &Bed, path: &str, body: String) -> Request<Body> {
    bed.request(Method::POST, path)
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", "k")
        .body(Body::from(body))
        .unwrap()
}

/// Whether the key was never used for this path.
async fn is_free(store: &Store, path: &str) -> bool {
    let key = RequestKey {
        method: "POST".to_owned(),
        path: path.to_owned(),
        key: "k".to_owned(),
    };
    let start_of_time = Timestamp::from_micros(0);
    let begun = store.begin_request(key, [0; 32], start_of_time, start_of_time);
    begun.await.unwrap().is_none()
}

#[tokio::test]
async fn a_request_that_comes_during_a_shutdown_is_left_to_the_next_daemon() {
    let bed = Bed::start().await;
    let path = format!("/v1/sessions/{}/stop", bed.session(&[]).await);
    bed.shutdown.cancel();
    let refused = bed.send(keyed(&bed, &path, String::new())).await;
    let problem = refused.problem(503, "shutting_down");
    assert_eq!(problem["retryable"], true);
    assert!(is_free(&bed.store, &path).await);
}

#[tokio::test]
async fn a_request_that_cannot_be_written_down_is_not_run() {
    let bed = Bed::start().await;
    let cwd = bed.dir.path().display().to_string();
    bed.store.close().await;
    let body = json!({"cwd": cwd}).to_string();
    // Without a CLI it would be a cli_not_found, if it were run.
    bed.send(keyed(&bed, "/v1/sessions", body))
        .await
        .problem(503, "shutting_down");
}

#[tokio::test]
async fn what_is_refused_for_its_body_does_not_take_the_key() {
    let bed = Bed::start().await;
    let path = format!("/v1/sessions/{}/messages", bed.session(&[]).await);
    let large = "x".repeat(MAX_PROMPT_BYTES + 2 * 1024 * 1024);
    bed.send(keyed(&bed, &path, large))
        .await
        .problem(413, "body_too_large");
    assert!(is_free(&bed.store, &path).await);
    let path = format!("/v1/sessions/{}/interrupt", bed.session(&[]).await);
    let large = format!("\"{}\"", "x".repeat(2 * 1024 * 1024));
    bed.send(keyed(&bed, &path, large))
        .await
        .problem(413, "body_too_large");
    assert!(is_free(&bed.store, &path).await);
}

#[tokio::test]
async fn a_replayed_problem_is_the_first_one_to_the_byte() {
    let bed = Bed::start().await;
    let id = bed.session(&[]).await;
    let path = format!("/v1/sessions/{id}/messages");
    let body = json!({"text": "hello"}).to_string();
    let first = bed.send(keyed(&bed, &path, body.clone())).await;
    let again = bed.send(keyed(&bed, &path, body)).await;
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    for name in ["content-type", "cache-control"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(first.header("idempotency-replayed"), "");
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    first.problem(409, "session_not_live");
}

#[tokio::test]
async fn methods_that_may_be_repeated_ignore_the_key() {
    let bed = Bed::start().await;
    let path = format!("/v1/sessions/{}", bed.session(&[]).await);
    for title in ["one", "two"] {
        let request = bed
            .request(Method::PATCH, &path)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", "k");
        let body = json!({"title": title}).to_string();
        let changed = bed.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(changed.expect(200)["title"], title);
    }
}
