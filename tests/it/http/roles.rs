//! Owns the roles, over every operation of the OpenAPI document.

use axum::{
    body::Body,
    http::{Method, header},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trunkline::http::openapi_json;

use crate::http::harness::Bed;

/// Reads that a viewer may not do, and why.
const OF_OPERATORS: [(&str, &str); 13] = [
    ("/v1/connect", "it makes a session"),
    ("/v1/stdio", "it makes a session"),
    ("/v1/webhooks", "it shows where a person is told things"),
    (
        "/v1/webhooks/{webhook_id}",
        "it shows where a person is told things",
    ),
    (
        "/v1/daemon/configuration",
        "it shows paths, hosts and variables of the machine",
    ),
    (
        "/v1/daemon/doctor",
        "it shows paths of the machine, and runs the CLI for its version",
    ),
    ("/v1/directories", "it shows names on the machine"),
    ("/v1/sessions/{id}/account", "it is the person's"),
    (
        "/v1/sessions/{id}/approvals/{approval_id}/file",
        "it shows a file of the machine",
    ),
    ("/v1/sessions/{id}/context_usage", "it sends a request to the CLI"),
    (
        "/v1/sessions/{id}/mcp",
        "it sends a request to the CLI, and shows how servers are reached",
    ),
    (
        "/v1/sessions/{id}/settings",
        "it sends a request to the CLI, and may show keys",
    ),
    (
        "/v1/sessions/{id}/tasks/{task_id}/output",
        "it sends a request to the CLI",
    ),
];

#[tokio::test]
async fn a_viewer_reads_and_changes_nothing_on_every_route() {
    let bed = Bed::start().await;
    let id = bed.session(&[]).await.to_string();
    let document: Value = serde_json::from_str(&openapi_json().unwrap()).unwrap();
    let (mut let_in, mut refused) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let name = format!("{method} {path}");
            if ["/asyncapi.yaml", "/docs", "/healthz", "/openapi.json"].contains(&path.as_str()) {
                assert!(operation.get("x-role").is_none(), "{name} needs no role");
                continue;
            }
            // A viewer's tickets and logins are viewers, and it ends its own.
            let of_viewers = [
                "POST /v1/tickets",
                "POST /v1/logins",
                "DELETE /v1/logins/current",
                "DELETE /v1/logins/{login_id}",
            ];
            if of_viewers.contains(&name.as_str()) {
                assert_eq!(operation["x-role"], "viewer");
                continue;
            }
            let is_of_operators = OF_OPERATORS.iter().any(|(only, _)| only == path);
            let may_look = method == Method::GET && !is_of_operators;
            let role = if may_look { "viewer" } else { "operator" };
            assert_eq!(operation["x-role"], role, "{name}");
            let place = path
                .replace("{id}", &id)
                .replace("{approval_id}", &id)
                .replace(['{', '}'], "");
            let request = bed
                .request_with(&bed.viewer_token, method, &place)
                .header(header::CONTENT_TYPE, "application/json");
            let request = request.body(Body::from("{}")).unwrap();
            if path == "/v1/events" {
                // It has no end.
                let opened = bed.router().oneshot(request).await.unwrap();
                assert_eq!(opened.status(), 200, "{name}");
                let_in += 1;
                continue;
            }
            let answer = bed.send(request).await;
            if may_look {
                assert!(
                    ![401, 403].contains(&answer.status.as_u16()),
                    "{name}: {}",
                    answer.text
                );
                let_in += 1;
            } else {
                let problem = answer.problem(403, "role_forbidden");
                assert_eq!(problem["role"], "viewer", "{name}");
                refused += 1;
            }
        }
    }
    assert!(let_in >= 18 && refused >= 30, "{let_in} {refused}");
    let left = bed.get("/v1/sessions").await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left:#}");
}

#[tokio::test]
async fn a_viewer_is_told_of_paths_that_are_none() {
    let bed = Bed::start().await;
    let ask = async |method: Method, path: &str| {
        let request = bed.request_with(&bed.viewer_token, method, path);
        bed.send(request.body(Body::empty()).unwrap()).await
    };
    ask(Method::GET, "/no/such/path")
        .await
        .problem(404, "route_not_found");
    assert_eq!(ask(Method::HEAD, "/v1/sessions").await.status, 200);
    // A refusal says nothing about what there is.
    let unknown = "/v1/sessions/00000000-0000-4000-8000-000000000001/stop";
    ask(Method::POST, unknown).await.problem(403, "role_forbidden");
    let problem = ask(Method::DELETE, "/v1/approvals").await;
    assert_eq!(problem.problem(403, "role_forbidden")["retryable"], json!(false));
}
