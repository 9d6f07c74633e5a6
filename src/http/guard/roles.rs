//! Owns which role an operation needs. A route that nobody lists here needs an operator.
//!
//! A viewer sees what the daemon has: sessions, records, messages, approvals, rules, turns, money and counters. Nothing of a
//! viewer reaches a CLI, so the reads that ask one are for operators: `context_usage`, `mcp`, `settings` and the output of a
//! task. So are the account, the CLI's settings, the webhooks, the daemon's configuration and its examination, directories, and the
//! file of an approval, which say more of the person and the machine than of the work.

use axum::http::Method;

use crate::{
    domain::Role,
    http::routes::{logins, tickets},
};

/// The routes that a viewer may read.
const SEEN_BY_VIEWERS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/approvals",
    "/v1/events",
    "/v1/logins",
    "/v1/logins/current",
    "/v1/rate-limits",
    "/v1/rules",
    "/v1/sessions",
    "/v1/sessions/{id}",
    "/v1/sessions/{id}/agents",
    "/v1/sessions/{id}/approvals",
    "/v1/sessions/{id}/approvals/{approval_id}",
    "/v1/sessions/{id}/commands",
    "/v1/sessions/{id}/events",
    "/v1/sessions/{id}/events/{seq}",
    "/v1/sessions/{id}/export",
    "/v1/sessions/{id}/find",
    "/v1/sessions/{id}/messages",
    "/v1/sessions/{id}/models",
    "/v1/sessions/{id}/processes",
    "/v1/sessions/{id}/prompts",
    "/v1/sessions/{id}/rules",
    "/v1/sessions/{id}/runs",
    "/v1/sessions/{id}/tasks",
    "/v1/sessions/{id}/todos",
    "/v1/sessions/{id}/turns",
    "/v1/sessions/{id}/turns/{number}",
    "/v1/sessions/{id}/ws",
    "/v1/usage",
    "/v1/ws",
];

/// The role that a method of a route needs.
pub(in crate::http) fn needed(method: &Method, route: &str) -> Role {
    match *method {
        // HEAD is answered by the handler of GET.
        Method::GET | Method::HEAD if SEEN_BY_VIEWERS.contains(&route) => Role::Viewer,
        // A viewer's tickets and logins are viewers.
        Method::POST if [tickets::PATH, logins::PATH].contains(&route) => Role::Viewer,
        // It ends its own.
        Method::DELETE if [logins::CURRENT, logins::ONE].contains(&route) => Role::Viewer,
        _ => Role::Operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{openapi, routes};

    #[test]
    fn every_route_in_the_list_is_read_by_an_operation() {
        let mut paths = routes::document().paths.paths;
        for route in SEEN_BY_VIEWERS {
            let item = paths
                .get_mut(*route)
                .unwrap_or_else(|| panic!("there is no {route}"));
            assert!(
                openapi::operations(item).any(|(method, _)| method == Method::GET),
                "{route}"
            );
        }
    }

    #[test]
    fn another_route_or_method_needs_an_operator() {
        assert_eq!(needed(&Method::GET, "/v1/sessions"), Role::Viewer);
        assert_eq!(needed(&Method::HEAD, "/v1/sessions"), Role::Viewer);
        for (method, route) in [
            (Method::POST, "/v1/sessions"),
            (Method::OPTIONS, "/v1/sessions"),
            (Method::GET, "/v1/sessions/{id}/made_tomorrow"),
            (Method::GET, "/v1/sessions/"),
        ] {
            assert_eq!(needed(&method, route), Role::Operator, "{method} {route}");
        }
    }
}
