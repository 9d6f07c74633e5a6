//! Owns the extractors: bodies, queries and path ids that answer with a problem when they are wrong.

use std::{convert::Infallible, str::FromStr};

use axum::{
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, OptionalFromRequest, Path, Query, Request, rejection::BytesRejection,
    },
    http::{StatusCode, header, request::Parts},
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, error::Category};

use super::{ApiError, AppState, ErrorCode, guard};
use crate::{
    auth::Tenure,
    domain::{ApprovalId, LoginId, RequestId, Seq, SessionId, WebhookId},
    journal::Chunk,
    store::PageRequest,
};

/// A JSON body.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let is_json = content_type(&request).is_some_and(guard::is_json);
        if !is_json {
            return Err(ErrorCode::UnsupportedMediaType.into());
        }
        read(request, state)
            .await
            .and_then(|bytes| parse(&bytes).map(Self))
    }
}

/// A body that may be left out. Many clients declare JSON on every request, so an empty body counts as none, and `null` too.
impl<T: DeserializeOwned> OptionalFromRequest<AppState> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Option<Self>, ApiError> {
        let is_json = content_type(&request).is_some_and(guard::is_json);
        let bytes = read(request, state).await?;
        let is_none = matches!(bytes.trim_ascii(), b"" | b"null");
        match (is_none, is_json || bytes.is_empty()) {
            (true, true) => Ok(None),
            (false, true) => parse(&bytes).map(|value| Some(Self(value))),
            (_, false) => Err(ErrorCode::UnsupportedMediaType.into()),
        }
    }
}

fn content_type(request: &Request) -> Option<&str> {
    request.headers().get(header::CONTENT_TYPE)?.to_str().ok()
}

/// The whole body, up to the route's limit.
pub(super) async fn read(request: Request, state: &AppState) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state)
        .await
        .map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(failed)
                if failed.status() == StatusCode::PAYLOAD_TOO_LARGE =>
            {
                ErrorCode::BodyTooLarge.into()
            }
            _ => ErrorCode::BodyUnreadable.into(),
        })
}

/// Reads one JSON value and says where it is wrong.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        // A struct would take its fields from a list too.
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| of_json_error(&error, None))?;
        return Err(ApiError::new(ErrorCode::InvalidField).detail("expected an object"));
    }
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let field = Some(error.path().to_string()).filter(|field| field != ".");
        let problem = of_json_error(error.inner(), field.clone());
        // A word that may be one of a few is asked for as a syntax, whatever is there.
        let is_other =
            problem.code() == ErrorCode::InvalidJson && serde_json::from_slice::<Value>(bytes).is_ok();
        if is_other { of_wrong_type(field) } else { problem }
    })?;
    deserializer.end().map_err(|error| of_json_error(&error, None))?;
    Ok(value)
}

/// A field of valid JSON that has a value of another type.
fn of_wrong_type(field: Option<String>) -> ApiError {
    let problem = ApiError::new(ErrorCode::InvalidField);
    match field {
        Some(field) => problem
            .detail(format!("{field}: expected a string"))
            .member("field", field),
        None => problem.detail("expected an object"),
    }
}

fn of_json_error(error: &serde_json::Error, field: Option<String>) -> ApiError {
    let code = match error.classify() {
        Category::Data => ErrorCode::InvalidField,
        Category::Io | Category::Syntax | Category::Eof => ErrorCode::InvalidJson,
    };
    let message = without_value(&error.to_string());
    let detail = match &field {
        Some(field) => format!("{field}: {message}"),
        None => message,
    };
    let mut problem = ApiError::new(code)
        .detail(detail)
        .member("line", error.line())
        .member("column", error.column());
    if let (Some(field), ErrorCode::InvalidField) = (field, code) {
        problem = problem.member("field", field);
    }
    problem
}

/// Takes the client's value out of a message about its type: it may be a secret.
fn without_value(message: &str) -> String {
    ["invalid type: string", "invalid value: string"]
        .iter()
        .find_map(|start| {
            let (_, expected) = message.strip_prefix(start)?.rsplit_once(", expected ")?;
            Some(format!("{start}, expected {expected}"))
        })
        .unwrap_or_else(|| message.to_owned())
}

/// Query parameters; unknown ones are refused when `T` refuses them.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        Query::from_request_parts(parts, state)
            .await
            .map(|Query(value)| Self(value))
            .map_err(|rejection| {
                let text = rejection.body_text();
                let text = text
                    .rsplit_once("query string: ")
                    .map_or(text.as_str(), |(_, text)| text);
                ApiError::new(ErrorCode::InvalidQuery).detail(text)
            })
    }
}

/// The one id that the path names.
async fn named<T: FromStr>(parts: &mut Parts, state: &AppState) -> Result<T, ApiError> {
    let id = Path::<String>::from_request_parts(parts, state).await;
    match id.map(|Path(text)| text.parse()) {
        Ok(Ok(id)) => Ok(id),
        _ => Err(ErrorCode::InvalidId.into()),
    }
}

/// The session that the path names.
pub(super) struct OfSession(pub(super) SessionId);

impl FromRequestParts<AppState> for OfSession {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        named(parts, state).await.map(Self)
    }
}

/// The session and the approval that the path names.
pub(super) struct OfApproval(pub(super) SessionId, pub(super) ApprovalId);

impl FromRequestParts<AppState> for OfApproval {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let ids = Path::<(String, String)>::from_request_parts(parts, state).await;
        match ids.map(|Path((session, approval))| (session.parse(), approval.parse())) {
            Ok((Ok(session), Ok(approval))) => Ok(Self(session, approval)),
            _ => Err(ErrorCode::InvalidId.into()),
        }
    }
}

/// The webhook that the path names.
pub(super) struct OfWebhook(pub(super) WebhookId);

impl FromRequestParts<AppState> for OfWebhook {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        named(parts, state).await.map(Self)
    }
}

/// The login that the path names.
pub(super) struct OfLogin(pub(super) LoginId);

impl FromRequestParts<AppState> for OfLogin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        named(parts, state).await.map(Self)
    }
}

impl FromRequestParts<AppState> for Tenure {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// The text that the path has in the place of a session's id.
pub(super) struct Named(pub(super) String);

impl FromRequestParts<AppState> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|_| ErrorCode::InvalidId.into())
    }
}

/// The session that the path names, and something of it that is named by a text: users and the CLI make those names,
/// so that they may hold anything, slashes included.
pub(super) struct OfNamed(pub(super) SessionId, pub(super) String);

impl FromRequestParts<AppState> for OfNamed {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((session, name)) = names.map_err(|_| {
            ApiError::new(ErrorCode::InvalidId).detail("the path is not UTF-8 once it is decoded")
        })?;
        match session.parse() {
            Ok(session) => Ok(Self(session, name)),
            Err(_) => Err(ErrorCode::InvalidId.into()),
        }
    }
}

/// The id of the request.
pub(super) struct Id(pub(super) RequestId);

impl FromRequestParts<AppState> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, ApiError> {
        let id = parts.extensions.get::<RequestId>().copied();
        Ok(Self(id.unwrap_or_else(RequestId::new)))
    }
}

/// Checks the page parameters of a list.
pub(super) fn page(limit: Option<u64>, cursor: Option<String>) -> Result<PageRequest, ApiError> {
    let limit = limit.unwrap_or_else(|| u64::from(PageRequest::DEFAULT_LIMIT));
    PageRequest::new(limit, cursor)
        .map_err(|error| ApiError::new(ErrorCode::InvalidQuery).detail(error.to_string()))
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// The oldest first.
    #[default]
    Asc,
    /// The newest first.
    Desc,
}

/// The size of a record above which a client wants a stub in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct StubAbove(usize);

impl StubAbove {
    /// A smaller record is hardly larger than its stub.
    const LEAST_BYTES: u32 = 1024;

    /// The chunk as the client wants it.
    pub(super) fn apply(wanted: Option<Self>, chunk: Chunk) -> Chunk {
        match wanted {
            Some(Self(bytes)) => chunk.stubbed(bytes),
            None => chunk,
        }
    }
}

impl TryFrom<u32> for StubAbove {
    type Error = String;

    fn try_from(bytes: u32) -> Result<Self, String> {
        match usize::try_from(bytes) {
            Ok(whole) if bytes >= Self::LEAST_BYTES => Ok(Self(whole)),
            _ => Err(format!("expected {} or more bytes", Self::LEAST_BYTES)),
        }
    }
}

/// A number that every reader of JSON holds exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "u64")]
pub(super) struct Whole(u64);

impl Whole {
    /// The number.
    pub(super) const fn get(self) -> u64 {
        self.0
    }

    /// The number of a record.
    pub(super) const fn seq(self) -> Seq {
        Seq::new(self.0)
    }
}

impl TryFrom<u64> for Whole {
    type Error = String;

    fn try_from(number: u64) -> Result<Self, String> {
        match number <= Seq::MAX.get() {
            true => Ok(Self(number)),
            false => Err(format!("expected a number up to {}", Seq::MAX)),
        }
    }
}

/// The key and the value in a parameter.
pub(super) fn label(text: &str) -> Result<(String, String), ApiError> {
    text.split_once('=')
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| ApiError::new(ErrorCode::InvalidQuery).detail("label: expected key=value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[serde(rename = "outer")]
        _outer: Inner,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(rename = "number")]
        _number: u8,
    }

    fn problem(json: &str) -> serde_json::Value {
        let error = parse::<Sample>(json.as_bytes()).unwrap_err();
        serde_json::Value::Object(error.problem(None))
    }

    #[test]
    fn syntax_errors_name_line_and_column() {
        for (json, line, column) in [
            ("{\n \"outer\": }", 2, 11),
            ("", 1, 0),
            ("{\"outer\":{\"number\":1}} x", 1, 24),
        ] {
            let problem = problem(json);
            assert_eq!(problem["code"], "invalid_json", "{json}");
            assert_eq!(
                (&problem["line"], &problem["column"]),
                (&line.into(), &column.into()),
                "{json}"
            );
        }
    }

    #[test]
    fn wrong_fields_are_named_by_their_path() {
        for json in [r#"{"outer":{"number":"1"}}"#, r#"{"outer":{"number":300}}"#] {
            let problem = problem(json);
            assert_eq!(problem["code"], "invalid_field", "{json}");
            assert_eq!(problem["field"], "outer.number", "{json}");
        }
        assert_eq!(problem(r#"{"outer":{"other":1}}"#)["field"], "outer.other");
        assert_eq!(problem("{}")["code"], "invalid_field");
    }

    #[test]
    fn a_word_that_is_no_text_is_a_wrong_field() {
        #[derive(Debug, serde::Deserialize)]
        enum Word {
            #[serde(rename = "yes")]
            Yes,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Answer {
            #[serde(rename = "word")]
            _word: Word,
        }
        assert!(parse::<Answer>(br#"{"word":"yes"}"#).is_ok());
        for json in [
            r#"{"word":null}"#,
            r#"{"word":5}"#,
            r#"{"word":[]}"#,
            r#"{"word":"no"}"#,
        ] {
            let error = parse::<Answer>(json.as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidField, "{json}");
            assert_eq!(error.problem(None)["field"], "word", "{json}");
        }
        let broken = parse::<Answer>(br#"{"word":tru}"#).unwrap_err();
        assert_eq!(broken.code(), ErrorCode::InvalidJson);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_not_repeated() {
        let problem = problem(r#"{"outer":{"number":"hunter2\", expected x"}}"#);
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains("expected u8"),
            "{problem}"
        );
    }
}
