//! Owns what becomes of a message whose wake came to nothing: the session stays parked, and it can be sent again.

use std::fs;

use serde_json::{Value, json};
use trunkline::domain::SessionId;

use crate::{
    fake::bed::{path, session},
    support::{
        daemon::TestDaemon,
        rest::{Reply, Rest},
    },
};

async fn eager() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "2")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// A parked session in a directory of this name.
async fn parked(daemon: &TestDaemon, name: &str) -> String {
    let rest = daemon.rest();
    let id = session(daemon, name, json!({})).await;
    rest.ask(&id, "one").await;
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
    id
}

fn settings(daemon: &TestDaemon, name: &str, settings: &Value) {
    let file = daemon.work_dir(name).join(".fake-claude.json");
    fs::write(file, settings.to_string()).unwrap();
}

async fn send(rest: &Rest, id: &str, uuid: &str) -> Reply {
    let message = json!({ "text": "wake up", "uuid": uuid });
    rest.post(&path(id, "messages?wait=result"), message).await
}

async fn runs(rest: &Rest, id: &str) -> usize {
    let runs = rest.get(&path(id, "runs")).await.expect(200);
    runs["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_failed_wake_leaves_the_session_parked() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let refused = "Error: Settings file not found: /nope";
    for (name, broken, words, starts) in [
        (
            "refused",
            json!({ "exit_at_start": { "code": 1, "stderr": format!("{refused}\n") } }),
            refused,
            1,
        ),
        (
            "crash",
            json!({ "exit_at_start": { "code": 1, "stderr": "a bad day\n" } }),
            "a bad day",
            3,
        ),
        (
            "initialize",
            json!({ "controls": { "initialize": { "error": "not today" } } }),
            "not today",
            1,
        ),
        (
            "mode",
            json!({ "init": { "payload": { "current_permission_mode": "plan" } } }),
            "permission mode plan",
            1,
        ),
    ] {
        let id = parked(&daemon, name).await;
        let since = rest.session(&id).await["parked"].clone();
        settings(&daemon, name, &broken);
        let uuid = SessionId::new().to_string();
        for round in 1..=2 {
            let reply = send(&rest, &id, &uuid).await;
            let detail = reply.body["detail"].as_str().unwrap();
            assert!(detail.contains(words), "{name}: {detail}");
            assert_eq!(reply.problem(502), "start_failed", "{name}");
            let view = rest.session(&id).await;
            assert_eq!(view["state"], "parked", "{name}: {view:#}");
            assert_eq!(view["parked"], since, "{name}: it was parked all the time");
            assert_eq!(view["open_prompts"], json!([]), "{name}: {view:#}");
            assert_eq!(runs(&rest, &id).await, 1 + round * starts, "{name}");
        }
        settings(&daemon, name, &json!({}));
        let answer = send(&rest, &id, &uuid).await.expect(200);
        assert_eq!(answer["turn"]["prompts"], json!([uuid]), "{name}");
        assert_eq!(rest.session(&id).await["state"], "idle", "{name}");
    }
}

#[tokio::test]
async fn a_wake_that_succeeds_at_the_second_try_is_one() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = parked(&daemon, "a").await;
    let crash = json!({ "exit_at_start": { "code": 1, "stderr": "a bad day\n" } });
    settings(&daemon, "a", &json!({ "starts": [crash, {}] }));
    let uuid = SessionId::new().to_string();
    send(&rest, &id, &uuid).await.expect(200);
    assert_eq!(rest.session(&id).await["turns"], 2);
}

/// Several messages at once are all told, and none is lost or run twice.
#[tokio::test]
async fn all_who_wait_for_a_failed_wake_are_told() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = parked(&daemon, "a").await;
    let refused = json!({ "exit_at_start": { "code": 1, "stderr": "Error: no\n", "delay_ms": 300 } });
    settings(&daemon, "a", &refused);
    let uuids: Vec<String> = (0..3).map(|_| SessionId::new().to_string()).collect();
    let (a, b, c) = tokio::join!(
        send(&rest, &id, &uuids[0]),
        send(&rest, &id, &uuids[1]),
        send(&rest, &id, &uuids[2]),
    );
    for reply in [a, b, c] {
        assert_eq!(reply.problem(502), "start_failed");
    }
    assert_eq!(rest.session(&id).await["state"], "parked");
    settings(&daemon, "a", &json!({}));
    for uuid in &uuids {
        send(&rest, &id, uuid).await.expect(200);
    }
    let turns = rest.turns(&id).await;
    assert_eq!(turns.len(), 4, "{turns:#?}");
}

/// A stop while the process gets ready is a stop.
#[tokio::test]
async fn a_stop_in_the_middle_of_a_wake_holds() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = parked(&daemon, "a").await;
    settings(&daemon, "a", &json!({ "init": { "never": true } }));
    let uuid = SessionId::new().to_string();
    let sending = send(&rest, &id, &uuid);
    let stopping = async {
        rest.in_state(&id, &["starting"]).await;
        rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    };
    let (reply, ()) = tokio::join!(sending, stopping);
    assert_eq!(reply.status, 409, "{:#}", reply.body);
    assert_eq!(rest.session(&id).await["state"], "stopped");
}

/// Each way would start a process in the same mode.
#[tokio::test]
async fn a_refused_mode_names_no_way_out_that_is_refused_too() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "one").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let plan = json!({ "init": { "payload": { "current_permission_mode": "plan" } } });
    settings(&daemon, "a", &plan);
    rest.lifecycle(&id, "resume", json!({})).await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "permission_mode_refused", "{view:#}");
    assert_eq!(view["ways_out"], json!(["change_options"]), "{view:#}");
    let detail = view["reason"]["detail"].as_str().unwrap();
    assert!(detail.ends_with("a resume works"), "{detail}");
    settings(&daemon, "a", &json!({}));
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "two").await;
}
