//! Owns bad bodies: what is no JSON, has the wrong fields, or is declared as something else.

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    api::common::{assert_nothing_made, problem},
    support::daemon::TestDaemon,
};

#[tokio::test]
async fn a_bad_body_is_told_where_it_is_wrong_and_makes_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w").display().to_string();
    let post = async |body: Vec<u8>| {
        let request = rest
            .builder(Method::POST, "/v1/sessions")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        rest.send(request).await
    };

    for (body, line, column) in [
        ("", 1, 0),
        ("{\"cwd\":", 1, 7),
        ("{\n  \"cwd\": \"/\",\n  oops\n}", 3, 3),
        ("{\"cwd\":\"/\"} {\"cwd\":\"/\"}", 1, 13),
        ("{\"cwd\":\"/\",\"prompt\":\"cut \\ud83d\"}", 1, 32),
    ] {
        let found = problem(post(body.into()).await, 400, "invalid_json");
        assert_eq!(
            (&found["line"], &found["column"]),
            (&line.into(), &column.into()),
            "{body:?}: {found:#}"
        );
    }
    problem(
        post(b"{\"cwd\":\"/\xff\xfe\"}".to_vec()).await,
        400,
        "invalid_json",
    );
    problem(post("[".repeat(200_000).into_bytes()).await, 400, "invalid_json");
    let deep = format!(
        "{{\"cwd\":\"/\",\"options\":{{\"settings\":{}",
        "{\"a\":".repeat(200_000)
    );
    problem(post(deep.into_bytes()).await, 400, "invalid_json");

    let with = |fields: Value| {
        let mut body = json!({"cwd": cwd});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        body
    };
    for (body, field) in [
        (with(json!({"promt": "x"})), "promt"),
        (with(json!({"options": {"modle": "x"}})), "options.modle"),
        (with(json!({"prompt": {"txt": "x"}})), "prompt.txt"),
        (with(json!({"prompt": 5})), "prompt"),
        (with(json!({"prompt": {"content": "x"}})), "content"),
        (
            with(json!({"prompt": {"content": [{"type": "text", "text": "x"}, "y"]}})),
            "content",
        ),
        (with(json!({"prompt": {"text": "x", "content": []}})), "content"),
        (with(json!({"labels": {"a": 1}})), "labels.a"),
        (with(json!({"labels": []})), "labels"),
        (with(json!({"title": ["x"]})), "title"),
        (with(json!({"options": {"max_turns": -1}})), "options.max_turns"),
        (with(json!({"options": {"max_turns": 1.5}})), "options.max_turns"),
        (
            with(json!({"options": {"permission_mode": "yolo"}})),
            "options.permission_mode",
        ),
        (with(json!({"title": "x".repeat(1025)})), "title"),
        (with(json!({"tag": "x".repeat(1025)})), "tag"),
        (with(json!({"labels": {"a=b": "c"}})), "labels"),
        (with(json!({"labels": {"": "c"}})), "labels"),
        (with(json!({"labels": {"a": "x".repeat(1025)}})), "labels"),
        (with(json!({"options": []})), "options"),
        (with(json!({"options": ["opus"]})), "options"),
        (json!({"cwd": 5}), "cwd"),
        (json!({"cwd": null}), "cwd"),
    ] {
        let found = problem(post(body.to_string().into_bytes()).await, 422, "invalid_field");
        assert_eq!(found["field"], field, "{body}: {found:#}");
    }
    for body in [
        json!({}),
        json!([]),
        json!([cwd, null, null, null]),
        json!(null),
        json!("x"),
        json!(1),
    ] {
        problem(post(body.to_string().into_bytes()).await, 422, "invalid_field");
    }
    let missing = problem(post(b"{}".to_vec()).await, 422, "invalid_field");
    assert!(missing["detail"].as_str().unwrap().contains("cwd"), "{missing:#}");
    let twice = format!(r#"{{"cwd":{cwd:?},"cwd":"/"}}"#);
    problem(post(twice.into_bytes()).await, 422, "invalid_field");

    for prompt in [
        json!(""),
        json!(" \n\t"),
        json!({}),
        json!({"text": ""}),
        json!({"content": []}),
    ] {
        problem(
            post(with(json!({"prompt": prompt})).to_string().into_bytes()).await,
            422,
            "empty_prompt",
        );
    }
    assert_nothing_made(&daemon).await;
}

#[tokio::test]
async fn only_json_is_taken() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let body = json!({"cwd": daemon.work_dir("w")}).to_string();
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "",
    ] {
        let request = rest
            .builder(Method::POST, "/v1/sessions")
            .header(header::CONTENT_TYPE, content_type)
            .body(body.clone());
        problem(rest.send(request).await, 415, "unsupported_media_type");
    }
    let undeclared = rest.builder(Method::POST, "/v1/sessions").body(body.clone());
    problem(rest.send(undeclared).await, 415, "unsupported_media_type");
    let id = uuid::Uuid::now_v7();
    for path in ["stop", "resume", "interrupt", "fork"] {
        let request = rest
            .builder(Method::POST, &format!("/v1/sessions/{id}/{path}"))
            .header(header::CONTENT_TYPE, "text/plain")
            .body("{}");
        problem(rest.send(request).await, 415, "unsupported_media_type");
    }
    assert_nothing_made(&daemon).await;

    let request = rest
        .builder(Method::POST, "/v1/sessions")
        .header(header::CONTENT_TYPE, "Application/JSON; charset=utf-8")
        .body(body);
    rest.send(request).await.expect(201);
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_not_repeated() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let secret = "s3cret-value";
    for body in [
        json!({"cwd": "/", "options": {"env": secret}}),
        json!({"cwd": "/", "options": {"mcp_servers": secret}}),
        json!({"cwd": "/", "options": {"max_turns": secret}}),
        json!({"cwd": "/", "options": {"env": {"CLAUDECODE": secret}}}),
        json!({"cwd": "/", "options": {"extra_args": {"some-flag": secret}}}),
        json!({"cwd": "/", "options": {"model": format!("a\n{secret}")}}),
        json!({"cwd": "/", "prompt": {"uuid": secret, "text": "x"}}),
        json!({"cwd": "/", "prompt": {"text": [secret]}}),
    ] {
        let reply = rest.post("/v1/sessions", body.clone()).await;
        assert_eq!(reply.status, 422, "{body}: {:#}", reply.body);
        assert!(
            !reply.body.to_string().contains(secret),
            "{body}: {:#}",
            reply.body
        );
    }
    assert_nothing_made(&daemon).await;
    assert!(!daemon.log().contains(secret));
}
