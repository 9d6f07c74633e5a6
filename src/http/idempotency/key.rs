//! Owns how a request is told apart from others: its key, and the digest of what a repeat must have in common with it.

use axum::{extract::Request, http::HeaderName};
use sha2::{Digest as _, Sha256};

use crate::{
    http::{ApiError, ErrorCode},
    store::{RequestDigest, RequestKey},
};

/// The header that carries the key.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest key, in characters.
pub(in crate::http) const MAX_KEY: usize = 255;

/// The key of a request that carries the header.
pub(super) fn request_key(request: &Request) -> Result<RequestKey, ApiError> {
    let mut values = request.headers().get_all(&KEY).iter();
    let key = values.next().map_or(&[][..], |value| value.as_bytes());
    let valid = (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    let key = std::str::from_utf8(key)
        .ok()
        .filter(|_| valid && values.next().is_none())
        .ok_or(ErrorCode::InvalidIdempotencyKey)?;
    Ok(RequestKey {
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        key: key.to_owned(),
    })
}

/// Method and path are part of the key already.
pub(super) fn digest(query: Option<&str>, body: &[u8]) -> RequestDigest {
    let query = query.unwrap_or_default();
    let mut hash = Sha256::new();
    // The length keeps a query that ends like a body apart from a body that begins like a query.
    hash.update(query.len().to_be_bytes());
    hash.update(query);
    hash.update(body);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn parsed(keys: &[&[u8]]) -> Result<String, ErrorCode> {
        let mut request = Request::post("/v1/sessions?wait=ready");
        for key in keys {
            request = request.header(KEY, *key);
        }
        let request = request.body(Body::empty()).unwrap();
        request_key(&request)
            .map(|key| {
                assert_eq!((key.method.as_str(), key.path.as_str()), ("POST", "/v1/sessions"));
                key.key
            })
            .map_err(|error| error.code())
    }

    #[test]
    fn a_key_is_one_value_of_visible_ascii() {
        let longest = "k".repeat(MAX_KEY);
        for good in ["a", "!~", "\"quoted\"", "8e03978e-40d5", &longest] {
            assert_eq!(parsed(&[good.as_bytes()]).as_deref(), Ok(good));
        }
        let too_long = "k".repeat(MAX_KEY + 1);
        let bad: [&[&[u8]]; 7] = [
            &[b""],
            &[b"a b"],
            &[b"a\tb"],
            &["é".as_bytes()],
            &[b"\xff"],
            &[too_long.as_bytes()],
            &[b"a", b"b"],
        ];
        for keys in bad {
            assert_eq!(parsed(keys), Err(ErrorCode::InvalidIdempotencyKey), "{keys:?}");
        }
    }

    #[test]
    fn query_and_body_are_both_in_the_digest_and_cannot_be_mixed_up() {
        let all = [
            digest(None, b""),
            digest(None, b"ab"),
            digest(Some("a"), b"b"),
            digest(Some("ab"), b""),
            digest(Some("ab"), b"ab"),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(digest(Some(""), b"x"), digest(None, b"x"));
    }
}
