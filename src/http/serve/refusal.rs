//! Owns the answers to what is no request. Those of the parser have no body, and a client of this API reads problems.

use axum::{
    body::Bytes,
    http::{StatusCode, header},
};
use serde_json::Value;

use crate::{
    domain::RequestId,
    http::{ApiError, ErrorCode, PROBLEM_JSON, error::status_of, observe::REQUEST_ID},
};

/// The codes of what the parser refuses.
const CODES: [ErrorCode; 3] = [
    ErrorCode::MalformedRequest,
    ErrorCode::UriTooLong,
    ErrorCode::HeadersTooLarge,
];

/// The problem in the place of an answer without a body, if these bytes are one of the parser: ours have the id of their request.
pub(super) fn in_place_of(bytes: &[u8]) -> Option<Bytes> {
    let head = std::str::from_utf8(bytes.get(..bytes.len().min(1024))?).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let code = CODES
        .into_iter()
        .find(|code| status_of(*code).as_str() == status)?;
    let is_bare = head.ends_with("\r\n\r\n")
        && head.contains("content-length: 0\r\n")
        && !head.contains(REQUEST_ID.as_str());
    is_bare.then(|| problem(code))
}

fn problem(code: ErrorCode) -> Bytes {
    let (id, status) = (RequestId::new(), status_of(code));
    let body = Value::Object(ApiError::new(code).problem(Some(id))).to_string();
    let reason = StatusCode::canonical_reason(&status).unwrap_or_default();
    let head = [
        (header::CONTENT_TYPE, PROBLEM_JSON.to_owned()),
        (header::CONTENT_LENGTH, body.len().to_string()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::CONNECTION, "close".to_owned()),
        (REQUEST_ID, id.to_string()),
    ];
    let head: String = head
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    tracing::debug!(request = %id, code = code.as_str(), "what came is no request");
    format!("HTTP/1.1 {} {reason}\r\n{head}\r\n{body}", status.as_str()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_answers_of_the_parser_get_a_body() {
        let bare = |status: &str, more: &str| {
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n{more}\r\n");
            in_place_of(head.as_bytes()).is_some()
        };
        assert!(bare("400 Bad Request", "") && bare("414 URI Too Long", ""));
        assert!(bare("431 Request Header Fields Too Large", "date: today\r\n"));
        assert!(!bare("404 Not Found", "") && !bare("200 OK", ""));
        assert!(!bare("400 Bad Request", "x-request-id: 1\r\n"));
        assert!(in_place_of(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}").is_none());
    }
}
