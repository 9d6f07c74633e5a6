//! Owns where a request may carry its credential: a token in the `Authorization` header or in the sub-protocol list of a
//! WebSocket, which is all that a browser lets a page set there; a ticket in that list or in the query. Only a GET or a
//! HEAD may carry a ticket. A token is never taken from a query: those end up in logs.

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderValue, Method, Uri, header,
        uri::{Parts, PathAndQuery},
    },
};

use super::login::{self, Login};
use crate::{
    auth::{Shown, Tenure},
    http::{ApiError, AppState, ErrorCode, routes::logins, ws},
};

/// The query parameter with a ticket.
const TICKET: &str = "ticket";

/// A credential as a request carries it.
#[derive(Debug, PartialEq, Eq)]
enum Credential {
    Token(String),
    Ticket(String),
}

/// Takes the credential of a request: a token, else a ticket, else a login. A ticket is used up, and leaves the query:
/// nothing behind sees it. `host` is the one that was asked.
///
/// # Errors
/// `unauthorized`, `ticket_invalid` and `login_invalid` for a credential that is none; no error when there is none at all.
pub(super) fn take(state: &AppState, request: &mut Request, host: &str) -> Result<Option<Login>, ApiError> {
    let in_query = take_from_query(request);
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let credential = from_authorization(request.headers())
        .or_else(|| from_protocols(request.headers()))
        .or(in_query)
        .filter(|credential| reads || matches!(credential, Credential::Token(_)));
    let (shown, code) = match credential {
        // A header of another scheme proves nothing, and its client is not waited for at the socket.
        None if request.headers().contains_key(header::AUTHORIZATION) => (None, ErrorCode::Unauthorized),
        // A login makes no login, and one that has ended keeps nobody from making another.
        None if logins::is_made_by(request) => return Ok(None),
        None => return login::take(state, request, host),
        Some(Credential::Token(token)) => {
            let role = state.tokens().role_of(&token);
            let tenure = Tenure::default();
            (role.map(|role| Shown { role, tenure }), ErrorCode::Unauthorized)
        }
        Some(Credential::Ticket(ticket)) => {
            let path = request.uri().path();
            // A ticket for a login makes one, and does nothing else.
            let shown = state.redeem(&ticket, path).filter(|_| path != logins::PATH);
            (shown, ErrorCode::TicketInvalid)
        }
    };
    let renewed = None;
    let login = shown.map(|shown| Login { shown, renewed });
    login.map(Some).ok_or_else(|| refusal(code))
}

/// The refusal of a request that has shown no credential, or one that is none.
pub(in crate::http) fn refusal(code: ErrorCode) -> ApiError {
    ApiError::new(code).header(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer realm=\"trunkline\""),
    )
}

fn from_authorization(headers: &HeaderMap) -> Option<Credential> {
    bearer(headers).map(|token| Credential::Token(token.to_owned()))
}

/// The token of the Authorization header.
pub(in crate::http) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn from_protocols(headers: &HeaderMap) -> Option<Credential> {
    protocols(headers).find_map(|protocol| {
        let token = protocol.strip_prefix(ws::BEARER_PREFIX);
        let ticket = protocol.strip_prefix(ws::TICKET_PREFIX);
        let token = token.map(|token| Credential::Token(token.to_owned()));
        token.or_else(|| Some(Credential::Ticket(ticket?.to_owned())))
    })
}

/// The sub-protocols that an upgrade to a WebSocket offers. Elsewhere the header means nothing and must not authorise anything.
pub(super) fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let is_upgrade = headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let offers = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    offers
        .filter(move |_| is_upgrade)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Takes the tickets out of the query; the first one counts.
fn take_from_query(request: &mut Request) -> Option<Credential> {
    let uri = request.uri();
    let ticket_of = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        (name == TICKET).then(|| value.to_owned())
    };
    let query = uri.query()?;
    let ticket = query.split('&').find_map(ticket_of)?;
    let rest: Vec<&str> = query
        .split('&')
        .filter(|pair| ticket_of(pair).is_none())
        .collect();
    let path = uri.path();
    let without = match rest.as_slice() {
        [] => path.to_owned(),
        rest => format!("{path}?{}", rest.join("&")),
    };
    // A part of a valid query is a valid query, so that neither of these fails.
    if let Ok(without) = PathAndQuery::try_from(without) {
        let mut parts: Parts = uri.clone().into_parts();
        parts.path_and_query = Some(without);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    Some(Credential::Ticket(ticket))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_ticket_leaves_the_query_and_all_else_stays() {
        for (uri, ticket, rest) in [
            ("/a?ticket=t", Some("t"), "/a"),
            ("/a?after=1&ticket=t&limit=2", Some("t"), "/a?after=1&limit=2"),
            ("/a?ticket=t&ticket=u&x", Some("t"), "/a?x"),
            ("http://localhost/a?ticket=t", Some("t"), "http://localhost/a"),
            ("/a?ticket", None, "/a?ticket"),
            ("/a?tickets=t&x=ticket=t", None, "/a?tickets=t&x=ticket=t"),
            ("/a", None, "/a"),
        ] {
            let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            let taken = take_from_query(&mut request);
            assert_eq!(taken, ticket.map(|it| Credential::Ticket(it.to_owned())), "{uri}");
            assert_eq!(request.uri().to_string(), rest);
        }
    }
}
