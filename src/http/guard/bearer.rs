//! Owns where a request may carry the token: the `Authorization` header, or the sub-protocol list of a WebSocket, which
//! is all that a browser lets a page set. Never a query parameter: those end up in logs.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::{
    auth::Tokens,
    domain::Role,
    http::{ApiError, ErrorCode},
};

/// What a sub-protocol that carries the token begins with.
const PROTOCOL_PREFIX: &str = "bearer.";

/// The role of the token that a request shows.
pub(super) fn check(tokens: &Tokens, headers: &HeaderMap) -> Result<Role, ApiError> {
    let candidate = from_authorization(headers).or_else(|| from_protocols(headers));
    let role = candidate.and_then(|candidate| tokens.role_of(candidate));
    role.ok_or_else(|| {
        ApiError::new(ErrorCode::Unauthorized).header(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"trunkline\""),
        )
    })
}

/// Whether a request carries anything that could be the token.
pub(super) fn is_absent(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::AUTHORIZATION) && from_protocols(headers).is_none()
}

fn from_authorization(headers: &HeaderMap) -> Option<&str> {
    let (scheme, credentials) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| credentials.trim())
}

fn from_protocols(headers: &HeaderMap) -> Option<&str> {
    // Elsewhere the header means nothing and must not authorise anything.
    let upgrade = headers.get(header::UPGRADE)?.to_str().ok()?;
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return None;
    }
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|protocol| protocol.trim().strip_prefix(PROTOCOL_PREFIX))
}
