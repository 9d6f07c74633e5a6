//! Owns the test of a backup as docs/OPERATING.md describes it: made while the daemon works, and restored elsewhere.
#![expect(clippy::disallowed_methods, reason = "a person copies files")]

use std::{fs, path::Path, process::Command};

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    support::{daemon::TestDaemon, rest::Rest, ws::Ws},
    world::{World, text},
};

/// The parts of the data directory that a backup copies; the configuration of this test is in the environment.
const OF_DATA: [&str; 5] = [
    "sessions",
    "token",
    "viewer-token",
    "webhooks.json",
    "logins.json",
];
/// The parts of the CLI's home that a backup copies.
const OF_CLI: [&str; 2] = [".claude", ".claude.json"];

fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names.iter().filter(|name| from.join(name).exists()) {
        let copied = Command::new("cp").arg("-a").arg(from.join(name)).arg(to).status();
        assert!(copied.unwrap().success(), "{name}");
    }
}

/// How the daemon answers a client that has this record.
async fn after(rest: &Rest, id: &str, record: &Value, accept: &str) -> (u16, Value) {
    let ts = record["ts"].as_str().unwrap().replace(':', "%3A");
    let path = format!("/v1/sessions/{id}/events?after={}&after_ts={ts}", record["seq"]);
    let request = rest.builder(Method::GET, &path).header(header::ACCEPT, accept);
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let is_stream = status == 200 && accept != "application/json";
    let body = if is_stream {
        Value::Null
    } else {
        response.json().await.unwrap()
    };
    (status, body["code"].clone())
}

#[tokio::test]
async fn a_backup_of_a_daemon_at_work_is_restored_elsewhere_and_other_histories_are_told() {
    let mut world = World::start().await;
    let cwd = world.dir();
    let body = json!({ "cwd": cwd, "title": "kept", "tag": "docs", "options": { "model": "sonnet" } });
    let id = world.rest.create_ready(body).await;
    world.answer(&id, json!([{ "text": "answer alpha" }])).await;
    let busy = world.session(json!({})).await;
    world
        .prompt(&busy, json!([{ "text": "later", "wait": "held", "wait_at": 1 }]))
        .await;
    world.api.at_gate("held").await;
    let common = world.rest.events(&id, 0).await.pop().unwrap();
    let before = world.rest.session(&id).await;

    let mut copied = TestDaemon::with_real(&world.api).allow_errors().start().await;
    assert!(copied.stop().success());
    fs::remove_dir_all(copied.data_dir()).unwrap();
    fs::create_dir(copied.data_dir()).unwrap();
    copy(&world.daemon.data_dir(), &copied.data_dir(), &OF_DATA);
    copy(&world.daemon.home(), &copied.home(), &OF_CLI);

    // The original goes on, and a client reads what it says. Then its machine is lost.
    world.api.release("held").await;
    world.idle_after(&busy, 1).await;
    world.answer(&id, json!([{ "text": "answer beta" }])).await;
    let seen = world.rest.events(&id, 0).await.pop().unwrap();
    assert!(world.daemon.stop().success());

    copied.start().await;
    let there = copied.rest();
    let view = there.session(&id).await;
    for field in ["title", "tag", "cwd", "turns", "cost_usd", "created_at"] {
        assert_eq!(view[field], before[field], "{field}: {view:#}");
    }
    assert_eq!(view["options"]["model"], "sonnet");
    let view = there.session(&busy).await;
    assert_eq!(
        (&view["state"], &view["reason"]["code"]),
        (&json!("failed"), &json!("keeper_lost"))
    );
    world.rest = there.clone();
    for session in [&id, &busy] {
        world.resume(session).await;
        assert_eq!(
            world.answer(session, json!([{ "text": "answer gamma" }])).await,
            "answer gamma"
        );
        let request = world.last_request().await.to_string();
        assert!(!request.contains("answer beta"), "{request}");
        assert_eq!(request.contains("answer alpha"), *session == id, "{request}");
    }

    // Once the copy has as many records as the client has read, the client is told that they are others.
    while there.session(&id).await["head_seq"].as_u64() < seen["seq"].as_u64() {
        world.answer(&id, json!([{ "text": "and on" }])).await;
    }
    for accept in ["application/json", "application/x-ndjson", "text/event-stream"] {
        let differs = (409, json!("history_differs"));
        assert_eq!(after(&there, &id, &seen, accept).await, differs, "{accept}");
        assert_eq!(after(&there, &id, &common, accept).await.0, 200, "{accept}");
    }
    let mut many = Ws::try_connect(copied.url(), "/v1/ws", &["trunkline.v1"], Some(copied.token()))
        .await
        .unwrap();
    for (record, told) in [(&seen, "trunkline.error"), (&common, "trunkline.snapshot")] {
        let subscribe = json!({
            "type": "trunkline.subscribe", "session_id": id, "after": record["seq"], "after_ts": record["ts"],
        });
        many.send(&subscribe).await;
        let frame = many
            .find("an answer", |frame| {
                frame["type"] == "trunkline.error" || frame["type"] == "trunkline.snapshot"
            })
            .await;
        assert_eq!(frame["type"], told, "{frame:#}");
        let code = if told == "trunkline.error" {
            json!("history_differs")
        } else {
            Value::Null
        };
        assert_eq!(frame["code"], code);
    }
    let wrong = format!("/v1/sessions/{id}/events?after_ts={}", text(&seen, "ts"));
    assert_eq!(there.get(&wrong).await.problem(400), "invalid_query");
}
