//! The answers to bodies, queries and ids that are wrong.

use axum::http::Method;
use serde_json::json;

use crate::http::harness::{Bed, MAX_PROMPT_BYTES};

const NOBODY: &str = "/v1/sessions/00000000-0000-0000-0000-000000000000";

#[tokio::test]
async fn bad_json_is_named_by_line_and_column() {
    let bed = Bed::start().await;
    let problem = bed
        .send_json(Method::POST, "/v1/sessions", "{\n  \"cwd\": \"/tmp\",\n}")
        .await
        .problem(400, "invalid_json");
    assert_eq!(
        (&problem["line"], &problem["column"]),
        (&json!(3), &json!(1)),
        "{problem:#}"
    );
    for body in ["", "{", "nonsense", "{\"cwd\":\"/\"} {}", "{\"cwd\":\"\\ud83d\"}"] {
        bed.send_json(Method::POST, "/v1/sessions", body)
            .await
            .problem(400, "invalid_json");
    }
    bed.send_json(Method::POST, "/v1/sessions", vec![b'{', 0xff, b'}'])
        .await
        .problem(400, "invalid_json");
}

#[tokio::test]
async fn a_wrong_field_is_named_by_its_path() {
    let bed = Bed::start().await;
    for (path, body, field) in [
        ("/v1/sessions", json!({"cwd": "/tmp", "modle": "opus"}), "modle"),
        (
            "/v1/sessions",
            json!({"cwd": "/tmp", "options": {"modle": "opus"}}),
            "options.modle",
        ),
        (
            "/v1/sessions",
            json!({"cwd": "/tmp", "options": {"max_turns": "3"}}),
            "options.max_turns",
        ),
        ("/v1/sessions", json!({"cwd": 7}), "cwd"),
        (
            "/v1/sessions",
            json!({"cwd": "/tmp", "labels": {"a": 1}}),
            "labels.a",
        ),
        (&format!("{NOBODY}/messages"), json!({"text": ["hi"]}), "text"),
        (&format!("{NOBODY}/messages"), json!({"content": "hi"}), "content"),
        (
            &format!("{NOBODY}/messages"),
            json!({"text": "hi", "uuid": "--help"}),
            "uuid",
        ),
        (
            &format!("{NOBODY}/messages"),
            json!({"text": "hi", "priority": "soon"}),
            "priority",
        ),
        (&format!("{NOBODY}/fork"), json!({"at": "--resume"}), "at"),
    ] {
        let problem = bed
            .send_json(Method::POST, path, body.to_string())
            .await
            .problem(422, "invalid_field");
        assert_eq!(problem["field"], field, "{body}: {problem:#}");
    }
    bed.send_json(Method::POST, "/v1/sessions", "{}")
        .await
        .problem(422, "invalid_field");
    bed.send_json(Method::PUT, &format!("{NOBODY}/model"), "{}")
        .await
        .problem(422, "invalid_field");
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_not_repeated() {
    let bed = Bed::start().await;
    let body = json!({"cwd": "/tmp", "options": {"env": "planted-secret"}});
    let answer = bed
        .send_json(Method::POST, "/v1/sessions", body.to_string())
        .await;
    assert!(!answer.text.contains("planted-secret"), "{}", answer.text);
    answer.problem(422, "invalid_field");
}

#[tokio::test]
async fn bodies_have_a_limit_per_route() {
    let bed = Bed::start().await;
    let prompt_limit = MAX_PROMPT_BYTES + 1024 * 1024;
    let body = |bytes: usize| json!({"text": "a".repeat(bytes)}).to_string();
    bed.send_json(
        Method::POST,
        &format!("{NOBODY}/messages"),
        body(MAX_PROMPT_BYTES),
    )
    .await
    .problem(404, "session_not_found");
    bed.send_json(Method::POST, &format!("{NOBODY}/messages"), body(prompt_limit))
        .await
        .problem(413, "body_too_large");
    bed.send_json(
        Method::PATCH,
        NOBODY,
        json!({"title": "a".repeat(1024 * 1024)}).to_string(),
    )
    .await
    .problem(413, "body_too_large");
}

#[tokio::test]
async fn ids_must_be_uuids() {
    let bed = Bed::start().await;
    for id in ["7", "--help", "..%2f..%2fetc", "%ff", "local_0190f0f0", "latest"] {
        bed.get(&format!("/v1/sessions/{id}"))
            .await
            .problem(400, "invalid_id");
        bed.call(Method::POST, &format!("/v1/sessions/{id}/stop"))
            .await
            .problem(400, "invalid_id");
        bed.get(&format!("{NOBODY}/approvals/{id}"))
            .await
            .problem(400, "invalid_id");
    }
}

#[tokio::test]
async fn queries_are_checked() {
    let bed = Bed::start().await;
    for path in [
        "/v1/sessions?limit=0",
        "/v1/sessions?limit=501",
        "/v1/sessions?limit=many",
        "/v1/sessions?state=asleep",
        "/v1/sessions?stat=idle",
        "/v1/sessions?label=novalue",
        "/v1/usage?group_by=planet",
        "/v1/usage?from=yesterday",
        "/v1/approvals?state=open",
        &format!("{NOBODY}/events?after=-1"),
        &format!("{NOBODY}/events?limit=0"),
        &format!("{NOBODY}/messages?limit=0"),
    ] {
        bed.get(path).await.problem(400, "invalid_query");
    }
    bed.get("/v1/sessions?cursor=bogus")
        .await
        .problem(400, "invalid_cursor");
    bed.get(&format!("{NOBODY}/messages?cursor=bogus"))
        .await
        .problem(400, "invalid_cursor");
    let create = |query: &str| format!("/v1/sessions?{query}");
    for query in ["wait=forever", "wait=ready&timeout_ms=0", "wait=result"] {
        let body = json!({"cwd": "/tmp"}).to_string();
        bed.send_json(Method::POST, &create(query), body)
            .await
            .problem(400, "invalid_query");
    }
    bed.send_json(
        Method::POST,
        &format!("{NOBODY}/messages?wait=ready"),
        r#"{"text":"hi"}"#,
    )
    .await
    .problem(400, "invalid_query");
}

#[tokio::test]
async fn a_session_that_is_not_there_is_not_found_on_every_route() {
    let bed = Bed::start().await;
    for suffix in ["", "/messages", "/events", "/turns", "/runs", "/approvals"] {
        bed.get(&format!("{NOBODY}{suffix}"))
            .await
            .problem(404, "session_not_found");
    }
    for suffix in ["/resume", "/stop", "/fork", "/interrupt"] {
        bed.call(Method::POST, &format!("{NOBODY}{suffix}"))
            .await
            .problem(404, "session_not_found");
    }
    bed.call(Method::DELETE, NOBODY)
        .await
        .problem(404, "session_not_found");
    for (method, suffix, body) in [
        (Method::PATCH, "", json!({"title": "x"})),
        (Method::POST, "/messages", json!({"text": "hi"})),
        (Method::POST, "/control", json!({"subtype": "mcp_status"})),
        (Method::PUT, "/model", json!({"model": null})),
        (Method::PUT, "/permission_mode", json!({"mode": "plan"})),
        (Method::PUT, "/thinking", json!({"max_thinking_tokens": 0})),
    ] {
        bed.send_json(method, &format!("{NOBODY}{suffix}"), body.to_string())
            .await
            .problem(404, "session_not_found");
    }
}
