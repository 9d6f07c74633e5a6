//! Owns the one error of the HTTP side and its form on the wire: `application/problem+json` (RFC 9457).

mod status;
mod supervisor;

use std::{error::Error, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

use crate::{
    domain::{ErrorCode, RequestId},
    telemetry,
};
pub(super) use status::status_of;

/// The media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A failure of a request. Every layer answers with it.
#[derive(Clone, Debug)]
pub struct ApiError {
    code: ErrorCode,
    detail: Option<String>,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether this very request may have had an effect, where that is known better than by the code.
    effect: Option<bool>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl ApiError {
    /// An error that its code says all about.
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            detail: None,
            members: Map::new(),
            headers: Vec::new(),
            effect: None,
            cause: None,
        }
    }

    /// Says what is wrong with this very request.
    #[must_use]
    pub fn detail(mut self, text: impl Into<String>) -> Self {
        self.detail = Some(text.into());
        self
    }

    /// Adds a member that programs can read.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Says when the request may succeed: as a header, and as a member for those that see none.
    #[must_use]
    pub fn retry_after_ms(self, ms: u64) -> Self {
        let seconds = HeaderValue::from(ms.div_ceil(1_000));
        self.header(header::RETRY_AFTER, seconds)
            .member("retry_after_ms", ms)
    }

    /// Says that something may have been done before the request failed.
    #[must_use]
    pub const fn uncertain(mut self) -> Self {
        self.effect = Some(true);
        self
    }

    /// Says that the request failed before it did anything.
    #[must_use]
    pub const fn harmless(mut self) -> Self {
        self.effect = Some(false);
        self
    }

    /// Whether the request may have had an effect all the same.
    pub fn side_effect_possible(&self) -> bool {
        self.effect.unwrap_or(self.code.side_effect_possible())
    }

    /// Keeps what lies behind it for the log. Clients never see it.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// The code.
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// The cause and its own causes as one line, for the log.
    pub fn cause_chain(&self) -> Option<String> {
        self.cause.as_ref().map(|cause| telemetry::chain(cause.as_ref()))
    }

    /// The problem object. `request` becomes its `instance`.
    pub fn problem(&self, request: Option<RequestId>) -> Map<String, Value> {
        let mut problem = Map::new();
        let name = format!("urn:trunkline:problem:{}", self.code.as_str());
        problem.insert("type".to_owned(), name.into());
        problem.insert("status".to_owned(), status_of(self.code).as_u16().into());
        if let Some(request) = request {
            problem.insert("instance".to_owned(), format!("urn:uuid:{request}").into());
        }
        problem.extend(self.fault());
        problem
    }

    /// The members of the problem that say what went wrong; a frame of a socket has the same ones.
    pub fn fault(&self) -> Map<String, Value> {
        let code = self.code;
        let mut fault = Map::new();
        let mut put = |name: &str, value: Value| fault.insert(name.to_owned(), value);
        put("code", code.as_str().into());
        put("title", code.title().into());
        put("detail", self.told().unwrap_or_else(|| code.advice()).into());
        put("retryable", code.retryable().into());
        put("side_effect_possible", self.side_effect_possible().into());
        for (name, value) in &self.members {
            put(name, value.clone());
        }
        fault
    }

    /// The fault in one sentence, for a reader who has no room for more.
    pub fn words(&self) -> &str {
        self.told().unwrap_or_else(|| self.code.title())
    }

    /// The words about this very case. Internal causes are not for the wire.
    fn told(&self) -> Option<&str> {
        self.detail.as_deref().filter(|_| !self.code.is_internal())
    }

    /// The response, with `request` as the instance.
    pub fn response(self, request: Option<RequestId>) -> Response {
        let body = Value::Object(self.problem(request)).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status_of(self.code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status_of(self.code) == StatusCode::SERVICE_UNAVAILABLE && self.code.retryable() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == ErrorCode::BodyTooLarge {
            // The rest of the body is not read, so the connection is of no more use; a client that keeps it should know.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        for (name, value) in &self.headers {
            if name == header::RETRY_AFTER {
                // Said for this very case.
                headers.remove(name);
            }
            headers.append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.response(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_what_it_says() {
        let table: Vec<String> = ErrorCode::ALL
            .iter()
            .map(|code| {
                format!(
                    "{} {} retryable={} side_effect_possible={} | {} | {}",
                    status_of(*code).as_u16(),
                    code.as_str(),
                    code.retryable(),
                    code.side_effect_possible(),
                    code.title(),
                    code.advice()
                )
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn codes_are_unique_and_snake_case() {
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{} twice", code.as_str());
            assert!(
                code.as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            );
            let status = status_of(*code);
            assert!(status.is_client_error() || status.is_server_error());
        }
    }

    #[test]
    fn an_internal_error_keeps_its_cause_to_itself() {
        let error = ApiError::new(ErrorCode::Internal)
            .detail("table users is on fire")
            .caused_by(std::io::Error::other("disk 7"));
        let body = Value::Object(error.problem(None)).to_string();
        assert!(!body.contains("fire") && !body.contains("disk 7"), "{body}");
        assert_eq!(error.cause_chain().as_deref(), Some("disk 7"));
    }
}
