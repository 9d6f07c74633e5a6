//! Sessions as REST shows them, and what a session that has no process refuses.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, header},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use trunkline::{domain::SessionId, journal::Source};

use crate::http::harness::{Bed, MAX_PROMPT_BYTES};

/// How long a step may take on a busy machine. It is less than a keeper may take to report.
const PATIENCE: Duration = Duration::from_secs(14);

async fn create(bed: &Bed, body: Value) -> crate::http::harness::Answer {
    bed.send_json(Method::POST, "/v1/sessions", body.to_string())
        .await
}

#[tokio::test]
async fn a_session_that_cannot_be_made_says_why() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().canonicalize().unwrap();
    let file = inside.join("file");
    std::fs::write(&file, "x").unwrap();
    let roots = vec![inside.clone()];
    let bed = Bed::with(|_, settings| settings.cwd_roots = roots).await;
    let cwd = inside.to_str().unwrap();
    for (body, status, code) in [
        (json!({"cwd": format!("{cwd}/none")}), 422, "cwd_missing"),
        (json!({"cwd": file.to_str().unwrap()}), 422, "cwd_not_a_directory"),
        (json!({"cwd": "relative"}), 422, "cwd_not_absolute"),
        (json!({"cwd": "/"}), 403, "cwd_outside_roots"),
        (json!({"cwd": cwd, "prompt": " "}), 422, "empty_prompt"),
        (json!({"cwd": cwd, "prompt": {}}), 422, "empty_prompt"),
        (
            json!({"cwd": cwd, "prompt": "a".repeat(MAX_PROMPT_BYTES + 1)}),
            413,
            "prompt_too_large",
        ),
        (
            json!({"cwd": cwd, "options": {"max_turns": 0}}),
            422,
            "invalid_option",
        ),
        (
            json!({"cwd": cwd, "options": {"permission_mode": "bypassPermissions"}}),
            422,
            "invalid_option",
        ),
        (json!({"cwd": cwd, "prompt": "hi"}), 503, "cli_not_found"),
    ] {
        let problem = create(&bed, body.clone()).await.problem(status, code);
        if code.starts_with("cwd") {
            assert_eq!(problem["field"], "cwd", "{body}");
        }
        if code == "invalid_option" {
            assert!(
                problem["field"].as_str().unwrap().starts_with("options."),
                "{problem:#}"
            );
        }
    }
    assert_eq!(bed.get("/v1/sessions").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_session_is_shown_listed_and_changed() {
    let bed = Bed::start().await;
    let id = bed.session(&[(Source::Daemon, r#"{"type":"note"}"#)]).await;
    let path = format!("/v1/sessions/{id}");
    let shown = bed.get(&path).await.expect(200);
    assert_eq!(shown["id"], id.to_string());
    assert_eq!(shown["state"], "stopped");
    assert_eq!(shown["options"]["model"], "opus");
    assert_eq!(shown["options"]["env"]["API_KEY"], "<hidden>");

    let answer = bed
        .send_json(
            Method::PATCH,
            &path,
            json!({"title": null, "tag": "t", "labels": {"k": "v"}}).to_string(),
        )
        .await
        .expect(200);
    assert_eq!((&answer["title"], &answer["tag"]), (&Value::Null, &json!("t")));
    let answer = bed.send_json(Method::PATCH, &path, "{}").await.expect(200);
    assert_eq!(answer["tag"], "t");
    for (query, count) in [
        ("label=k=v", 1),
        ("label=k=w", 0),
        ("tag=t&state=stopped", 1),
        ("q=none", 0),
    ] {
        let list = bed.get(&format!("/v1/sessions?{query}")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(list["next_cursor"], Value::Null);
    }
}

#[tokio::test]
async fn lists_are_paged() {
    let bed = Bed::start().await;
    for _ in 0..3 {
        bed.session(&[]).await;
    }
    let mut ids = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let page = bed.get(&path).await.expect(200);
        ids.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["id"].to_string()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/sessions?limit=2&cursor={cursor}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn a_session_without_a_process_refuses_what_needs_one() {
    let bed = Bed::start().await;
    let id = bed.session(&[]).await;
    let path = format!("/v1/sessions/{id}");
    for (method, suffix, body) in [
        (Method::POST, "/messages", json!({"text": "hi"})),
        (Method::POST, "/control", json!({"subtype": "mcp_status"})),
        (Method::PUT, "/model", json!({"model": "opus"})),
    ] {
        let problem = bed
            .send_json(method, &format!("{path}{suffix}"), body.to_string())
            .await
            .problem(409, "session_not_live");
        assert_eq!(problem["state"], "stopped");
    }
    // Both want something to be so that is so already.
    let stopped = bed.call(Method::POST, &format!("{path}/stop")).await.expect(200);
    assert_eq!(stopped["state"], "stopped");
    bed.call(Method::POST, &format!("{path}/interrupt"))
        .await
        .expect(200);
    bed.call(Method::POST, &format!("{path}/fork"))
        .await
        .problem(409, "conversation_not_started");
    // A client that declares JSON on every request says nothing with an empty body.
    bed.send_json(Method::POST, &format!("{path}/fork"), "")
        .await
        .problem(409, "conversation_not_started");
    let problem = bed.call(Method::POST, &format!("{path}/resume")).await;
    problem.problem(503, "cli_not_found");
    let nobody = SessionId::new();
    bed.get(&format!("{path}/approvals/{nobody}"))
        .await
        .problem(404, "approval_not_found");
    for decision in [
        json!({"decision": "allow"}),
        json!({"decision": "deny", "message": "no"}),
    ] {
        bed.send_json(
            Method::POST,
            &format!("{path}/approvals/{nobody}"),
            decision.to_string(),
        )
        .await
        .problem(404, "approval_not_found");
    }
    let wrong = json!({"decision": "deny", "updated_input": {}});
    let problem = bed
        .send_json(
            Method::POST,
            &format!("{path}/approvals/{nobody}"),
            wrong.to_string(),
        )
        .await
        .problem(400, "invalid_decision");
    assert_eq!(problem["field"], "updated_input");
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let bed = Bed::start().await;
    let id = bed.session(&[(Source::Daemon, r#"{"type":"note"}"#)]).await;
    let path = format!("/v1/sessions/{id}");
    let answer = bed.call(Method::DELETE, &path).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    bed.get(&path).await.problem(404, "session_not_found");
    bed.call(Method::DELETE, &path)
        .await
        .problem(404, "session_not_found");
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_can_be_finished() {
    let bed = Bed::start().await;
    let id = bed.session(&[(Source::Daemon, r#"{"type":"note"}"#)]).await;
    std::fs::remove_dir_all(bed.dir.path().join("sessions").join(id.to_string())).unwrap();
    let path = format!("/v1/sessions/{id}");
    assert_eq!(bed.call(Method::DELETE, &path).await.status.as_u16(), 204);
    bed.get(&path).await.problem(404, "session_not_found");
}

#[tokio::test]
async fn the_folder_of_a_session_that_was_never_made_is_removed_and_no_other() {
    let [never_made, with_records] = [SessionId::new(), SessionId::new()].map(|id| id.to_string());
    let bed = Bed::with(|_, settings| {
        let sessions = settings.data_dir.join("sessions");
        std::fs::create_dir_all(sessions.join(&never_made)).unwrap();
        std::fs::create_dir_all(sessions.join(&with_records)).unwrap();
        std::fs::write(
            sessions.join(&with_records).join("00000000000000000001.ndjson"),
            "",
        )
        .unwrap();
    })
    .await;
    let sessions = bed.dir.path().join("sessions");
    assert!(!sessions.join(never_made).exists());
    assert!(sessions.join(with_records).exists());
}

#[tokio::test]
async fn a_session_that_starts_holds_so_many_messages_and_refuses_the_others_at_once() {
    const HELD: usize = 256;
    const MORE: usize = 5;
    let programs = tempfile::tempdir().unwrap();
    // A keeper that does not get as far as its process.
    let keeper = programs.path().join("keeper");
    std::fs::write(&keeper, "#!/bin/sh\nexec sleep 20\n").unwrap();
    std::fs::set_permissions(&keeper, Permissions::from_mode(0o700)).unwrap();
    let bed = Bed::with(|_, settings| {
        settings.keeper_program = keeper;
        settings.claude_bin = Some("/bin/true".into());
    })
    .await;
    let bed = Arc::new(bed);
    let mut requests = JoinSet::new();
    let starting = Arc::clone(&bed);
    requests.spawn(async move { create(&starting, json!({"cwd": "/tmp"})).await });
    let started = tokio::time::timeout(PATIENCE, async {
        loop {
            let list = bed.get("/v1/sessions").await.expect(200);
            if let Some(id) = list["items"][0]["id"].as_str() {
                return id.to_owned();
            }
        }
    });
    let path = format!("/v1/sessions/{}/messages", started.await.unwrap());
    for _ in 0..HELD + MORE {
        let (bed, path) = (Arc::clone(&bed), path.clone());
        requests.spawn(async move { bed.send_json(Method::POST, &path, r#"{"text":"hi"}"#).await });
    }
    for _ in 0..MORE {
        let answer = tokio::time::timeout(PATIENCE, requests.join_next())
            .await
            .unwrap();
        answer.unwrap().unwrap().problem(503, "input_blocked");
    }
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    let bed = Bed::start().await;
    let problem = bed.get("/readyz").await.problem(503, "not_ready");
    assert!(
        problem["detail"].as_str().unwrap().contains("agent CLI"),
        "{problem:#}"
    );
    assert_eq!(problem["readiness"]["store_writable"], true);
    bed.store.close().await;
    bed.get("/v1/sessions").await.problem(503, "shutting_down");
    let problem = bed.get("/readyz").await.problem(503, "not_ready");
    assert_eq!(problem["readiness"]["store_writable"], false);
}

#[tokio::test]
async fn empty_usage_and_histories_are_empty_lists() {
    let bed = Bed::start().await;
    let id = bed.session(&[]).await;
    for path in [
        "/v1/usage".to_owned(),
        "/v1/usage?group_by=model&from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z".to_owned(),
        "/v1/approvals?state=pending".to_owned(),
        format!("/v1/sessions/{id}/turns"),
        format!("/v1/sessions/{id}/runs"),
        format!("/v1/sessions/{id}/approvals"),
        format!("/v1/sessions/{id}/messages"),
    ] {
        let list = bed.get(&path).await.expect(200);
        assert_eq!(list, json!({"items": [], "next_cursor": null}), "{path}");
    }
}

#[tokio::test]
async fn a_connection_over_a_limit_is_refused() {
    let bed = Bed::with(|config, _| {
        config.max_connections = 2;
        config.max_connections_per_session = 1;
    })
    .await;
    let (one, two, three) = (
        bed.session(&[]).await,
        bed.session(&[]).await,
        bed.session(&[]).await,
    );
    let stream = |id| {
        let request = bed.request(Method::GET, &format!("/v1/sessions/{id}/events"));
        request
            .header(header::ACCEPT, "text/event-stream")
            .body(Body::empty())
            .unwrap()
    };
    let router = trunkline::http::router(bed.state.clone());
    let open = |id| tower::ServiceExt::oneshot(router.clone(), stream(id));
    let first = open(one).await.unwrap();
    assert_eq!(first.status(), 200);
    bed.send(stream(one)).await.problem(429, "too_many_clients");
    let _second = open(two).await.unwrap();
    bed.send(stream(three)).await.problem(503, "too_many_connections");
    drop(first);
    assert_eq!(open(three).await.unwrap().status(), 200);
}
