//! Owns how the documents of the API are served: to anybody who reaches the daemon, as they hold no data, and not again to
//! a client that has them.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{
    asyncapi::{self, asyncapi_yaml},
    entity_tag::EntityTag,
    openapi::openapi_json,
    page,
};

/// A document of this build.
struct Document {
    content_type: &'static str,
    body: Bytes,
    tag: EntityTag,
    /// The things that a browser lets it do; `None`: nothing.
    policy: Option<HeaderValue>,
}

// Plain data with string keys always has a JSON form.
static OPENAPI: LazyLock<Document> =
    LazyLock::new(|| Document::new("application/json", openapi_json().unwrap_or_default()));
static ASYNCAPI: LazyLock<Document> =
    LazyLock::new(|| Document::new("application/yaml", asyncapi_yaml().unwrap_or_default()));
static PAGE: LazyLock<Document> = LazyLock::new(|| {
    let openapi = openapi_json().and_then(|text| serde_json::from_str(&text));
    let html = page::page(
        &openapi.unwrap_or_default(),
        &asyncapi::document().unwrap_or_default(),
    );
    Document {
        policy: HeaderValue::try_from(page::policy()).ok(),
        ..Document::new("text/html; charset=utf-8", html)
    }
});

impl Document {
    fn new(content_type: &'static str, body: String) -> Self {
        Self {
            content_type,
            tag: EntityTag::of(body.as_bytes()),
            body: body.into(),
            policy: None,
        }
    }

    /// The document, or that the client has it.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let mut answer = if self.tag.is_named_in(headers) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let content_type = HeaderValue::from_static(self.content_type);
            ([(header::CONTENT_TYPE, content_type)], self.body.clone()).into_response()
        };
        let headers = answer.headers_mut();
        headers.insert(header::ETAG, self.tag.value());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Some(policy) = &self.policy {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
        }
        answer
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

/// Show the document of the sockets.
///
/// The sockets and event streams of this version: every frame and record, with examples. Needs no token.
#[utoipa::path(
    get, path = "/asyncapi.yaml", operation_id = "get_asyncapi", tag = "daemon", security(()),
    responses(
        (status = 200, description = "The AsyncAPI document", body = Object, content_type = "application/yaml"),
        (status = 304, description = "It is the one that `If-None-Match` names"),
    ),
)]
pub(super) async fn asyncapi(headers: HeaderMap) -> Response {
    ASYNCAPI.answer(&headers)
}

/// Show both documents to a person.
///
/// One page without a script, which asks for nothing else. Needs no token.
#[utoipa::path(
    get, path = "/docs", operation_id = "get_docs", tag = "daemon", security(()),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 304, description = "It is the one that `If-None-Match` names"),
    ),
)]
pub(super) async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}
