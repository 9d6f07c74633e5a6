//! Owns what a request must pass before any handler sees it: Host, Origin, credential, role, content type, in this order.

mod credential;
mod hosts;
mod login;
mod roles;

use std::sync::Arc;

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use self::login::Login;
pub(super) use credential::{bearer, refusal};
pub(super) use hosts::HostPolicy;
pub(super) use login::{clear_cookie, set_cookie};
pub(super) use roles::needed;

use super::{
    ApiError, AppState, ErrorCode, cors,
    routes::logins,
    serve::{Peer, Visit},
    ws,
};
use crate::{
    auth::{Shown, Tenure},
    domain::Role,
};

/// The paths of the API that need no token: they hold no data, and look at none.
const OPEN_PATHS: [&str; 4] = ["/asyncapi.yaml", "/docs", "/healthz", "/openapi.json"];

/// Whether a path of the API needs no token.
pub(super) fn is_open(path: &str) -> bool {
    OPEN_PATHS.contains(&path)
}

/// Whether a request needs no token: the console's files are for anybody, too.
fn needs_no_token(state: &AppState, request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    is_open(request.uri().path()) || route.is_some_and(|route| state.console().has_route(route.as_str()))
}

/// Lets a request through or answers it with a problem. One that has shown a credential has its role as an extension, and one
/// of a login its tenure; the socket of one without must show a credential first of all.
pub(super) async fn guard(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    match check(&state, &mut request) {
        Ok(Passed::Through { renewed }) => {
            let mut response = next.run(request).await;
            // A handler that sets or clears the cookie knows better.
            if let Some(cookie) = renewed {
                response.headers_mut().entry(header::SET_COOKIE).or_insert(cookie);
            }
            response
        }
        Ok(Passed::Answered(permission)) => permission,
        Err(error) => error.into_response(),
    }
}

/// How a request that nothing stands against goes on.
enum Passed {
    /// To its handler. The cookie goes with the answer.
    Through { renewed: Option<HeaderValue> },
    /// It needs no handler and no token.
    Answered(Response),
}

fn check(state: &AppState, request: &mut Request) -> Result<Passed, ApiError> {
    let host = state.hosts().check_host(request.uri(), request.headers())?;
    state.hosts().check_origin(request.headers(), &host)?;
    if let Some(permission) = cors::preflight(state, request) {
        return Ok(Passed::Answered(permission));
    }
    let mut renewed = None;
    if !needs_no_token(state, request)
        && let Some(login) = credential(state, request, &host)?
    {
        check_role(login.shown.role, request)?;
        request.extensions_mut().insert(login.shown.role);
        request.extensions_mut().insert(login.shown.tenure);
        renewed = login.renewed;
        if let Some(visit) = request.extensions().get::<Arc<Visit>>() {
            visit.shown();
        }
    }
    if request.method() != Method::GET && has_foreign_content_type(request.headers()) {
        // A page can send a few content types without asking first; none of them is JSON.
        return Err(ErrorCode::UnsupportedMediaType.into());
    }
    Ok(Passed::Through { renewed })
}

/// The credential that the request has shown; none of one that may show it later on.
fn credential(state: &AppState, request: &mut Request, host: &str) -> Result<Option<Login>, ApiError> {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let is_trusted = peer.is_some_and(|ConnectInfo(peer)| peer.is_our_user());
    let ours = || Login {
        shown: Shown {
            role: Role::Operator,
            tenure: Tenure::default(),
        },
        renewed: None,
    };
    match credential::take(state, request, host) {
        Ok(Some(login)) => Ok(Some(login)),
        Ok(None) if is_trusted => Ok(Some(ours())),
        // A wrong token changes nothing for the daemon's own user.
        Err(error) if is_trusted && error.code() == ErrorCode::Unauthorized => Ok(Some(ours())),
        // The ticket of a login is in its body.
        Ok(None) if ws::may_prove_itself(request) || logins::is_made_by(request) => Ok(None),
        Ok(None) => Err(refusal(ErrorCode::Unauthorized)),
        Err(error) => Err(error),
    }
}

/// Refuses what the role may not do. A path that has no route is answered as such.
fn check_role(role: Role, request: &Request) -> Result<(), ApiError> {
    let route = request.extensions().get::<MatchedPath>();
    let needed = route.map(|route| needed(request.method(), route.as_str()));
    match needed {
        Some(needed) if !role.covers(needed) => {
            Err(ApiError::new(ErrorCode::RoleForbidden).member("role", role.as_str()))
        }
        _ => Ok(()),
    }
}

fn has_foreign_content_type(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_TYPE)
        .iter()
        .any(|value| !value.to_str().is_ok_and(is_json))
}

/// Whether a content type names JSON.
pub(super) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > "application/+json".len()
            && essence.to_ascii_lowercase().starts_with("application/")
            && essence.to_ascii_lowercase().ends_with("+json"))
}
