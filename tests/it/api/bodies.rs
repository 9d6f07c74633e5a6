//! Owns the walk over every operation: none takes a body or a query parameter that it does not know, and what is refused has
//! done nothing.

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    api::common::{Operation, asking, operations, problem},
    support::{
        daemon::TestDaemon,
        rest::{Reply, Rest},
        wait::{PATIENCE, wait_for},
    },
};

/// The largest prompt of these daemons.
const PROMPT_BYTES: usize = 64 * 1024;
/// The size of a body that holds no prompt, and of one that does beyond the prompt: see `docs/protocol/sessions.md`.
const BODY_BYTES: usize = 1024 * 1024;
/// The bytes that may be sent about logins, which a stranger does.
const LOGIN_BYTES: usize = 4 * 1024;
/// The operations whose bodies may hold a prompt, a tool's input or a file.
const LARGE: [&str; 8] = [
    "create_session",
    "fork_session",
    "send_message",
    "decide_approval",
    "send_control",
    "queue_prompt",
    "change_queued_prompt",
    // It shares the path of the one before.
    "take_back_prompt",
];

fn limit(operation: &Operation) -> usize {
    match operation.id.as_str() {
        id if LARGE.contains(&id) => PROMPT_BYTES + BODY_BYTES,
        _ if operation.path.starts_with("/v1/logins") => LOGIN_BYTES,
        _ => BODY_BYTES,
    }
}

/// A JSON object of exactly so many bytes that no operation takes.
fn filled(bytes: usize) -> String {
    let (start, end) = (r#"{"no_such_field":""#, r#""}"#);
    format!("{start}{}{end}", "a".repeat(bytes - start.len() - end.len()))
}

/// A session that waits for a person, and the approval that it waits for.
async fn waiting(daemon: &TestDaemon, rest: &Rest) -> (String, String) {
    let id = rest
        .create_ready(json!({"cwd": daemon.work_dir("w"), "prompt": asking()}))
        .await;
    let approval = rest.pending_approval(&id).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // The daemon's own record of it is the last one.
    wait_for("the approval is announced", PATIENCE, async || {
        let records = rest.events(&id, 0).await;
        let last = &records.last()?["data"];
        (last["type"] == "approval" && last["approval_id"] == approval.as_str()).then_some(())
    })
    .await;
    (id, approval)
}

/// All that a user could see of what a request did.
async fn seen(daemon: &TestDaemon, rest: &Rest, id: &str) -> Value {
    let mut view = rest.session(id).await;
    // This one goes on by itself.
    view.as_object_mut().unwrap().remove("silent_for_ms");
    let sessions = rest.get("/v1/sessions").await.expect(200)["items"]
        .as_array()
        .unwrap()
        .len();
    let processes = daemon.session_processes().into_iter();
    json!({
        "view": view,
        "sessions": sessions,
        "records": rest.events(id, 0).await,
        "rules": rest.get(&format!("/v1/sessions/{id}/rules")).await.expect(200),
        "processes": processes.map(|process| process.pid).collect::<Vec<_>>(),
        "daemon": daemon.pid(),
    })
}

#[tokio::test]
async fn no_operation_takes_a_body_that_it_does_not_know_and_nothing_happens() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", PROMPT_BYTES.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&daemon, &rest).await;
    let before = seen(&daemon, &rest, &id).await;
    let mut walked = 0;
    for operation in operations(&rest).await {
        if operation.method == Method::GET {
            continue;
        }
        walked += 1;
        let send = async |declared: Option<&str>, body: String| -> Reply {
            let mut request = rest.builder(operation.method.clone(), &operation.at(&id, &approval));
            if let Some(declared) = declared {
                request = request.header(header::CONTENT_TYPE, declared);
            }
            rest.send(request.body(body)).await
        };
        let json = Some("application/json");
        for (declared, body, status, code) in [
            (json, "{".to_owned(), 400, "invalid_json"),
            (json, "[]".to_owned(), 422, "invalid_field"),
            (json, "\"x\"".to_owned(), 422, "invalid_field"),
            (json, "7".to_owned(), 422, "invalid_field"),
            (json, r#"{"no_such_field":1}"#.to_owned(), 422, "invalid_field"),
            (json, filled(limit(&operation)), 422, "invalid_field"),
            (json, filled(limit(&operation) + 1), 413, "body_too_large"),
            (Some("text/plain"), "{}".to_owned(), 415, "unsupported_media_type"),
            (
                Some("application/x-www-form-urlencoded"),
                "a=1".to_owned(),
                415,
                "unsupported_media_type",
            ),
            (None, "{}".to_owned(), 415, "unsupported_media_type"),
        ] {
            let sent: String = body.chars().take(40).collect();
            let reply = send(declared, body).await;
            assert_eq!(
                (reply.status.as_u16(), reply.body["code"].as_str()),
                (status, Some(code)),
                "{} {declared:?} {sent}: {:#}",
                operation.id,
                reply.body
            );
            problem(reply, status, code);
        }
    }
    assert!(walked > 25, "only {walked} operations");
    assert_eq!(seen(&daemon, &rest, &id).await, before);
}

#[tokio::test]
async fn no_operation_takes_a_query_parameter_that_it_does_not_know_and_nothing_happens() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&daemon, &rest).await;
    let before = seen(&daemon, &rest, &id).await;
    for operation in operations(&rest).await {
        for query in ["no_such_parameter=1", "no_such_parameter", "wiat=ready", "%6Eo=1"] {
            let path = format!("{}?{query}", operation.at(&id, &approval));
            let mut request = rest.builder(operation.method.clone(), &path);
            if let Some(body) = operation.body() {
                request = request.json(&body);
            }
            let reply = rest.send(request).await;
            assert_eq!(
                reply.status.as_u16(),
                400,
                "{} {path}: {:#}",
                operation.id,
                reply.body
            );
            problem(reply, 400, "invalid_query");
        }
    }
    assert_eq!(seen(&daemon, &rest, &id).await, before);
}

#[tokio::test]
async fn an_operation_without_a_body_takes_an_empty_object_too() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let path = format!("/v1/sessions/{id}/park");
    rest.post(&path, json!({})).await.expect(200);
    rest.send(rest.builder(Method::POST, &path)).await.expect(200);
    // A key that was sent with what is refused is still free.
    let keyed = |body: Value| {
        rest.builder(Method::POST, &format!("/v1/sessions/{id}/stop"))
            .header("idempotency-key", "k")
            .json(&body)
    };
    problem(rest.send(keyed(json!({"now": true}))).await, 422, "invalid_field");
    rest.send(keyed(json!({}))).await.expect(200);
}
