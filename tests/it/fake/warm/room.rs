//! Owns the tests of what processes stand back for that nobody has asked for: other starts, limits, memory.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{app, ended, gone, keeping, ready, spare, spares, stock};
use crate::{
    fake::{
        bed::{body, session},
        metrics::Scrape,
    },
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// The daemon with a process that is ready and waits, and that process's session.
async fn with_one(daemon: TestDaemonBuilder) -> (TestDaemon, Rest, String) {
    let daemon = daemon.start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    (daemon, rest, waits)
}

/// As [`with_one`], with a process that never gets ready.
async fn with_one_starting(daemon: TestDaemonBuilder) -> (TestDaemon, Rest, String) {
    let daemon = daemon.start().await;
    let rest = daemon.rest();
    wait_for("a process is being started", PATIENCE, async || {
        (stock(&rest).await["starting"] == 1).then_some(())
    })
    .await;
    let waits = spare(&daemon);
    (daemon, rest, waits)
}

#[tokio::test]
async fn no_session_is_refused_for_want_of_room_that_a_waiting_process_has() {
    let daemon = keeping(1, &json!({})).env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "2");
    let (daemon, rest, waits) = with_one(daemon).await;
    let first = session(&daemon, "a", json!({})).await;
    assert_eq!(spare(&daemon), waits, "there is room for both");
    let second = session(&daemon, "b", json!({})).await;
    gone(&daemon, &waits).await;
    let third = rest
        .post("/v1/sessions", body(&daemon, "c", json!({}), json!({})))
        .await;
    assert_eq!(third.problem(429), "too_many_sessions", "the limit is the limit");
    assert!(spares(&daemon).is_empty());
    // Room that is free again is taken again, and given back to a resume.
    rest.lifecycle(&second, "stop", json!({})).await.expect(200);
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    rest.lifecycle(&second, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    gone(&daemon, &waits).await;
    rest.in_state(&first, &["idle"]).await;
    assert!((ended(&rest, "room").await - 2.0).abs() < 0.5);
    assert_eq!(stock(&rest).await["failure"], Value::Null);
}

#[tokio::test]
async fn a_directory_that_is_full_of_waiting_processes_has_room() {
    let daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_LIMITS_LIVE_PER_CWD", "2")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    let mut create = app(&daemon);
    create["options"] = json!({ "model": "another" });
    let first = rest.create_ready(create.clone()).await;
    let second = rest.create_ready(create.clone()).await;
    assert!(!waits.contains(&first) && !waits.contains(&second));
    assert_eq!(
        rest.post("/v1/sessions", create).await.problem(429),
        "too_many_sessions"
    );
    for waits in waits {
        gone(&daemon, &waits).await;
    }
}

#[tokio::test]
async fn nobody_waits_for_the_start_of_a_process_that_nobody_asked_for() {
    let daemon = keeping(1, &json!({ "init": { "never": true } }))
        .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
        .env("TRUNKLINE_LIMITS_QUEUED_STARTS", "0");
    let (daemon, rest, waits) = with_one_starting(daemon).await;
    // Without room in the queue either.
    let first = session(&daemon, "a", json!({})).await;
    gone(&daemon, &waits).await;
    rest.ask(&first, "hello").await;
    let scrape = Scrape::of(&rest).await;
    scrape.expect(
        r#"trunkline_warm_processes_ended_total{profile="app",end="failed"}"#,
        0.0,
    );
}

#[tokio::test]
async fn a_start_that_is_queued_goes_first() {
    let daemon =
        keeping(1, &json!({ "init": { "never": true } })).env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1");
    let (daemon, rest, waits) = with_one_starting(daemon).await;
    let creates = ["a", "b", "c"].map(|name| body(&daemon, name, json!({}), json!({})));
    let made = join_all(creates.map(|create| rest.create_ready(create))).await;
    assert_eq!(made.len(), 3);
    gone(&daemon, &waits).await;
}

#[tokio::test]
async fn one_that_waits_is_not_parked_and_is_used_from_its_claim_on() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_PARK_IDLE_MS", "4000")
        .env("TRUNKLINE_PARK_GRACE_MS", "0");
    let (daemon, rest, waits) = with_one(daemon).await;
    // Another session shows that the time has passed.
    let clock = session(&daemon, "a", json!({})).await;
    rest.in_state(&clock, &["parked"]).await;
    assert_eq!(spare(&daemon), waits);
    assert_eq!(stock(&rest).await["ready"], 1);
    let view = rest
        .post("/v1/sessions?wait=ready", app(&daemon))
        .await
        .expect(201);
    assert_eq!((&view["id"], &view["state"]), (&json!(waits), &json!("idle")));
    assert_eq!(rest.session(&waits).await["state"], "idle");
    rest.in_state(&waits, &["parked"]).await;
    rest.ask(&waits, "hello").await;
}

#[tokio::test]
async fn one_that_waits_goes_before_a_session_when_memory_is_scarce() {
    let large = json!({ "memory_bytes": 64 << 20 });
    let daemon = keeping(1, &large)
        .env("TRUNKLINE_PARK_MEMORY_BUDGET_BYTES", (160 << 20).to_string())
        .env("TRUNKLINE_PARK_MEASURE_MS", "200")
        .env("TRUNKLINE_PARK_GRACE_MS", "0");
    let (daemon, rest, waits) = with_one(daemon).await;
    let first = session(&daemon, "a", large.clone()).await;
    assert_eq!(spare(&daemon), waits, "there is room for both");
    let second = session(&daemon, "b", large).await;
    gone(&daemon, &waits).await;
    for id in [first, second] {
        assert_eq!(rest.session(&id).await["state"], "idle");
    }
}
