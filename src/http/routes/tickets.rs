//! Owns the route that makes tickets, for clients that can send no header.

use std::time::{Duration, Instant};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, Method, StatusCode, header},
};
use serde::{Deserialize, Serialize};

use crate::{
    auth::{NewTicket, Secret, Tenure, TicketError},
    domain::{Clock, Role, Timestamp},
    http::{ApiError, AppState, ErrorCode, extract::Body, guard, openapi, routes::logins},
};

/// Where tickets are made.
pub(in crate::http) const PATH: &str = "/v1/tickets";
/// How long a ticket for a login lives: a browser may have to be started first, or a phone unlocked.
const LOGIN_LIFE: Duration = Duration::from_secs(60);
/// How long the one lives that the daemon prints at its start, for somebody who reads on first.
const TERMINAL_LIFE: Duration = Duration::from_secs(15 * 60);
/// Most bytes of a path.
const MAX_PATH: usize = 1024;

/// The path and the role of a ticket.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/v1/sessions/019b7a3e-7c11-7f60-8d2a-6f5d1d0c2a10/events"}))]
pub(super) struct TicketRequest {
    /// The path that the ticket opens: that of a GET, byte for byte as it will be asked for and without a query. The client
    /// adds any query to it.
    #[schema(pattern = r#"^/[!"$->@-~]*$"#, max_length = 1024)]
    path: String,
    /// The role of what it opens. Default: that of the client that asks for the ticket, which is also the most it can have.
    role: Option<Role>,
}

/// A credential for one path and one use.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct MadeTicket {
    /// The ticket. It is said this once.
    ticket: String,
    /// The path that it opens.
    path: String,
    /// The role of what it opens.
    role: Role,
    /// When it ends, used or not.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Make a ticket.
///
/// It opens one path once, within 30 seconds: as `?ticket=` of a GET, such as that of an `EventSource`; as the WebSocket
/// sub-protocol `ticket.<ticket>`; or as `credential.token` in the first line of `ndjson`. One for `/v1/logins` makes a login, within 60 seconds. `Host` and `Origin` are checked as
/// ever. Idempotency keys are ignored here, as no answer is kept.
#[utoipa::path(
    post, path = "/v1/tickets", operation_id = "create_ticket", tag = "daemon", request_body = TicketRequest,
    responses((status = 201, description = "The ticket", body = MadeTicket)),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Extension(own): Extension<Role>,
    tenure: Tenure,
    Body(request): Body<TicketRequest>,
) -> Result<(StatusCode, Json<MadeTicket>), ApiError> {
    let TicketRequest { path, role } = request;
    let role = role.unwrap_or(own);
    let needed = needed(&path)?;
    if !own.covers(role) {
        return Err(ApiError::new(ErrorCode::RoleForbidden)
            .detail("a viewer makes tickets for viewers")
            .member("role", own.as_str()));
    }
    if !role.covers(needed) {
        return Err(ApiError::new(ErrorCode::RoleForbidden)
            .detail("the path needs an operator, and the ticket would be a viewer's")
            .member("role", role.as_str()));
    }
    let life = if path == logins::PATH {
        LOGIN_LIFE
    } else {
        Duration::from_millis(state.config().ticket_ms)
    };
    let wanted = NewTicket {
        path: path.clone(),
        role,
        asked_by: own,
        tenure,
        life,
    };
    let made = state.tickets().issue(wanted, Instant::now());
    let ticket = made.map_err(|error| match error {
        TicketError::TooMany { free_in } => {
            let seconds = HeaderValue::from(free_in.as_secs() + 1);
            ApiError::new(ErrorCode::TooManyTickets).header(header::RETRY_AFTER, seconds)
        }
        error => ApiError::new(ErrorCode::Internal).caused_by(error),
    })?;
    let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
    let answer = MadeTicket {
        ticket: ticket.expose().to_owned(),
        path,
        role,
        expires_at: Clock.now().plus_millis(life),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// A ticket for the person who reads what the daemon prints at its start: for an operator's login, and a quarter of an hour.
pub(in crate::http) fn for_the_terminal(state: &AppState) -> Result<Secret, TicketError> {
    let ticket = NewTicket {
        path: logins::PATH.to_owned(),
        role: Role::Operator,
        asked_by: Role::Operator,
        tenure: Tenure::default(),
        life: TERMINAL_LIFE,
    };
    state.tickets().issue(ticket, Instant::now())
}

/// The role that a GET of this path needs.
fn needed(path: &str) -> Result<Role, ApiError> {
    let refused = |detail: String| {
        ApiError::new(ErrorCode::InvalidField)
            .detail(format!("path: {detail}"))
            .member("field", "path")
    };
    if path.len() > MAX_PATH {
        return Err(refused(format!("it is longer than {MAX_PATH} bytes")));
    }
    if path.contains(['?', '#']) {
        return Err(refused("it has no query; the client adds that to it".to_owned()));
    }
    let route = openapi::route_of(path).ok_or_else(|| refused("nothing is read at it".to_owned()))?;
    Ok(guard::needed(&Method::GET, route))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_the_path_of_a_get() {
        let role = |path: &str| needed(path).map_err(|error| error.code());
        for path in [
            "/v1/sessions",
            "/v1/sessions/x/ws",
            "/v1/sessions/x/events",
            "/v1/sessions/x/approvals/a%2Fb",
        ] {
            assert_eq!(role(path), Ok(Role::Viewer), "{path}");
        }
        for path in ["/v1/sessions/x/account", "/v1/daemon/configuration"] {
            assert_eq!(role(path), Ok(Role::Operator), "{path}");
        }
        for path in [
            "",
            "v1/sessions",
            "/v1/sessions/",
            "/v1/sessions//ws",
            "/v1/sessions/x/stop",
            "/v1/sessions?after=1",
            "/v1/sessions#x",
            "/v1/tickets",
            "http://localhost/v1/sessions",
            &format!("/v1/sessions/{}", "x".repeat(MAX_PATH)),
        ] {
            assert_eq!(role(path), Err(ErrorCode::InvalidField), "{path}");
        }
    }
}
