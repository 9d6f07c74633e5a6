//! Owns `If-Match`: the revision that a session must have, or a request changes nothing.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};

use super::{ApiError, AppState, ErrorCode};

/// The revision that a client expects; `None` when any will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected(pub(super) Option<u64>);

impl FromRequestParts<AppState> for Expected {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, ApiError> {
        of_headers(&parts.headers)
    }
}

fn of_headers(headers: &HeaderMap) -> Result<Expected, ApiError> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return match headers.contains_key(header::IF_MATCH) {
            true => Err(no_revision()),
            false => Ok(Expected(None)),
        };
    };
    match value.to_str().map(str::trim) {
        Ok("*") => Ok(Expected(None)),
        Ok(tag) => {
            let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let digits = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|digits| digits.parse().ok());
            number
                .map(|number| Expected(Some(number)))
                .ok_or_else(no_revision)
        }
        Err(_) => Err(no_revision()),
    }
}

fn no_revision() -> ApiError {
    ApiError::new(ErrorCode::InvalidQuery)
        .detail("If-Match: expected the 'revision' of the session in quotes, such as \"7\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_expected_as_a_tag() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, value.parse().unwrap());
            }
            of_headers(&headers).ok()
        };
        assert_eq!(read(&[]), Some(Expected(None)));
        assert_eq!(read(&["*"]), Some(Expected(None)));
        assert_eq!(read(&["\"7\""]), Some(Expected(Some(7))));
        for wrong in [
            ["7"].as_slice(),
            &[""],
            &["\"+7\""],
            &["W/\"7\""],
            &["\"x\""],
            &["\"7\", \"8\""],
            &["\"7\"", "\"8\""],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
