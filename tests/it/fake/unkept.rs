//! Owns the tests of sessions whose CLI keeps no conversation: none is parked, and none pretends to go on.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, body, path, pid, session, session_with},
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        proc,
        wait::{PATIENCE, wait_for},
    },
};

/// A daemon with a session that keeps no conversation and has a turn in it.
async fn talked(builder: TestDaemonBuilder) -> (TestDaemon, String) {
    let daemon = builder.start().await;
    let options = json!({ "persist_session": false });
    let id = session_with(&daemon, "unkept", json!({}), options).await;
    daemon.rest().ask(&id, "hello").await;
    (daemon, id)
}

/// Restarts come at once.
fn eager() -> TestDaemonBuilder {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
}

fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap()
}

#[tokio::test]
async fn a_session_that_keeps_no_conversation_is_never_parked() {
    let builder = TestDaemon::with_fake()
        .env("TRUNKLINE_PARK_IDLE_MS", "200")
        .env("TRUNKLINE_PARK_GRACE_MS", "0")
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "2");
    let (daemon, id) = talked(builder).await;
    let rest = daemon.rest();
    let process = pid(&rest, &id).await;
    let other = session(&daemon, "other", json!({})).await;
    rest.ask(&other, "hello").await;
    rest.in_state(&other, &["parked"]).await;

    let refused = rest.lifecycle(&id, "park", json!({})).await.expect(409);
    assert_eq!(code(&refused), "session_not_parkable", "{refused:#}");
    assert_eq!(refused["obstacle"], "conversation_not_kept", "{refused:#}");

    // Another that keeps nothing takes the second place; for a third there is no room.
    let options = json!({ "persist_session": false });
    let second = session_with(&daemon, "second", json!({}), options).await;
    let refused = rest
        .post("/v1/sessions", body(&daemon, "third", json!({}), json!({})))
        .await;
    assert_eq!(refused.problem(429), "too_many_sessions");
    let view = rest.session(&id).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    assert_eq!(pid(&rest, &id).await, process);
    assert_eq!(rest.session(&second).await["state"], "idle");
    let answer = rest.ask(&id, "and on").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
}

#[tokio::test]
async fn a_conversation_that_was_not_kept_is_not_gone_on_with() {
    let (daemon, id) = talked(TestDaemon::with_fake()).await;
    let rest = daemon.rest();
    let process = pid(&rest, &id).await;
    for verb in ["restart", "fork"] {
        let refused = rest.lifecycle(&id, verb, json!({})).await.expect(409);
        assert_eq!(code(&refused), "conversation_not_kept", "{verb} {refused:#}");
    }
    assert_eq!(pid(&rest, &id).await, process, "the process goes on");
    assert_eq!(rest.session(&id).await["state"], "idle");

    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    for verb in ["resume", "restart", "fork"] {
        let refused = rest.lifecycle(&id, verb, json!({})).await.expect(409);
        assert_eq!(code(&refused), "conversation_not_kept", "{verb} {refused:#}");
        assert_eq!(refused["side_effect_possible"], false);
    }
    assert_eq!(rest.session(&id).await["state"], "stopped");
    let list = rest.get("/v1/sessions").await.expect(200);
    assert_eq!(
        list["items"].as_array().unwrap().len(),
        1,
        "no fork stays: {list:#}"
    );

    let fresh = json!({ "fresh": true });
    rest.post(&path(&id, "resume?wait=ready"), fresh)
        .await
        .expect(200);
    let answer = rest.ask(&id, "anew").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
}

#[tokio::test]
async fn without_a_turn_an_unkept_session_is_resumed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "persist_session": false });
    let id = session_with(&daemon, "unkept", json!({}), options).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.post(&path(&id, "resume?wait=ready"), json!({}))
        .await
        .expect(200);
    let answer = rest.ask(&id, "hello").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
}

#[tokio::test]
async fn a_crash_that_ends_an_unkept_conversation_says_so() {
    let builder = eager();
    let (daemon, id) = talked(builder).await;
    let rest = daemon.rest();
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "conversation_not_kept", "{view:#}");
    let detail = view["reason"]["detail"].as_str().unwrap();
    assert!(detail.contains("signal 9"), "{detail}");
    assert_eq!(view["ways_out"], json!(["fresh_start"]), "{view:#}");
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "{runs:#}");
}

#[tokio::test]
async fn a_silent_cli_that_keeps_nothing_is_interrupted() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIVENESS_AFTER_MS", "1000")
        .env("TRUNKLINE_LIVENESS_ACTION", "restart")
        .start()
        .await;
    let rest = daemon.rest();
    let options = json!({ "persist_session": false });
    let id = session_with(&daemon, "unkept", json!({}), options).await;
    let process = pid(&rest, &id).await;
    act(&rest, &id, json!([{ "text": "half" }, { "silent": 1 }])).await;
    wait_for("the turn ends", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["turns"] == 1 && view["state"] == "idle").then_some(())
    })
    .await;
    assert_eq!(pid(&rest, &id).await, process);
}
