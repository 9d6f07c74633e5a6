//! Owns how the documents of the API are served: to anybody who reaches the daemon, as they hold no data, and not again to
//! a client that has them.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};

use super::openapi::openapi_json;

/// Bytes of the digest in an entity tag.
const TAG_BYTES: usize = 16;

/// A document of this build.
struct Document {
    content_type: &'static str,
    body: Bytes,
    tag: HeaderValue,
}

// Plain data with string keys always has a JSON form.
static OPENAPI: LazyLock<Document> =
    LazyLock::new(|| Document::new("application/json", openapi_json().unwrap_or_default()));

impl Document {
    fn new(content_type: &'static str, body: String) -> Self {
        let digest = Sha256::digest(body.as_bytes());
        let hex: String = digest
            .iter()
            .take(TAG_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            content_type,
            body: body.into(),
            // Hexadecimal digits are always a header.
            tag: HeaderValue::try_from(format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\"")),
        }
    }

    /// The document, or that the client has it.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let known = (
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        );
        if self.is_known_by(headers) {
            return (StatusCode::NOT_MODIFIED, [known.0, known.1]).into_response();
        }
        let content_type = (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        ([known.0, known.1, content_type], self.body.clone()).into_response()
    }

    /// Whether the client has named this document as one that it has.
    fn is_known_by(&self, headers: &HeaderMap) -> bool {
        let named = headers.get_all(header::IF_NONE_MATCH).iter();
        let mut named = named
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim);
        named.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag)
    }
}

/// Show this document.
///
/// Every route, parameter and shape of this version. Needs no token.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "daemon", security(()),
    responses(
        (status = 200, description = "The OpenAPI document", body = Object, content_type = "application/json"),
        (status = 304, description = "It is the one that `If-None-Match` names"),
    ),
)]
pub(super) async fn openapi(headers: HeaderMap) -> Response {
    OPENAPI.answer(&headers)
}
