//! The compression of answers: large ones in JSON, for clients that take it, and nothing else.

use std::io::Read as _;

use axum::{
    body::Body,
    http::{HeaderMap, Method, header},
};
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::http::harness::Bed;

/// The headers and the bytes of an answer to a client that takes gzip.
async fn zipped(bed: &Bed, path: &str) -> (HeaderMap, Vec<u8>) {
    let request = bed
        .request(Method::GET, path)
        .header(header::ACCEPT_ENCODING, "gzip, br");
    let response = bed
        .router()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    (parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn large_lists_are_compressed_for_those_who_take_it() {
    let bed = Bed::start().await;
    for _ in 0..20 {
        bed.session(&[]).await;
    }
    let plain = bed.get("/v1/sessions").await;
    assert!(!plain.headers.contains_key(header::CONTENT_ENCODING));
    let (headers, bytes) = zipped(&bed, "/v1/sessions").await;
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
    assert!(
        bytes.len() * 4 < plain.text.len(),
        "{} of {}",
        bytes.len(),
        plain.text.len()
    );
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text);
}

#[tokio::test]
async fn an_export_of_a_conversation_comes_compressed_to_its_end() {
    let bed = Bed::start().await;
    let path = format!("/v1/sessions/{}/export?format=json", bed.session(&[]).await);
    let plain = bed.get(&path).await.text;
    let (headers, bytes) = zipped(&bed, &path).await;
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain);
}

#[tokio::test]
async fn small_answers_and_streams_are_not() {
    let bed = Bed::start().await;
    let text = format!(r#"{{"type":"x","text":"{}"}}"#, "a".repeat(8_000));
    let id = bed
        .session(&[(trunkline::journal::Source::Cli, text.as_str())])
        .await;
    let (headers, _) = zipped(&bed, "/readyz").await;
    assert!(!headers.contains_key(header::CONTENT_ENCODING));
    let request = bed
        .request(Method::GET, &format!("/v1/sessions/{id}/events"))
        .header(header::ACCEPT_ENCODING, "gzip")
        .header(header::ACCEPT, "application/x-ndjson");
    let response = bed
        .router()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
    let (headers, _) = zipped(&bed, &format!("/v1/sessions/{id}/events")).await;
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
}
