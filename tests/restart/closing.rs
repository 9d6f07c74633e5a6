//! Owns what is under way when the end of the daemon begins: starts, and requests that wait for an answer.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    daemon::TestDaemon,
    rest::{Reply, Rest},
    store_lock::StoreLock,
    wait::{PATIENCE, pass, wait_for, wait_until},
};

/// Sends a request and does not wait for its answer.
fn asking(rest: &Rest, path: &str, body: Value) -> JoinSet<Reply> {
    let mut asking = JoinSet::new();
    let (rest, path) = (rest.clone(), path.to_owned());
    asking.spawn(async move { rest.send(rest.builder(Method::POST, &path).json(&body)).await });
    asking
}

async fn answer(mut asking: JoinSet<Reply>) -> Reply {
    asking.join_next().await.unwrap().unwrap()
}

async fn ending(daemon: &TestDaemon) {
    wait_until("the daemon begins to end", PATIENCE, || {
        daemon.log().contains("shutting down")
    })
    .await;
}

/// The folders of sessions that there are.
fn folders(daemon: &TestDaemon) -> usize {
    fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_being_made_when_the_daemon_ends_gets_no_process() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let lock = StoreLock::take(&daemon.database());
    let making = asking(
        &rest,
        "/v1/sessions",
        json!({ "cwd": daemon.work_dir("a"), "prompt": "hello" }),
    );
    wait_until("it is being made", PATIENCE, || folders(&daemon) == 1).await;
    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    drop(lock);
    let refused = answer(making).await;
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "shutting_down");
    assert_eq!(daemon.ended().code(), Some(0));
    let left = daemon.session_processes();
    assert!(left.is_empty(), "the daemon has ended, and there are: {left:#?}");
    daemon.start().await;
    let page = daemon.rest().get("/v1/sessions").await.expect(200);
    let states: Vec<_> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["state"])
        .collect();
    assert!(
        states.iter().all(|state| *state == "failed"),
        "nothing is started for it: {page:#}"
    );
}

/// A parked session, a stopped one and one that waits for its restart have asked for a process when the end begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_is_started_by_what_was_asked_before_the_end() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "10")
        .start()
        .await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for name in ["parked", "stopped"] {
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir(name) })).await;
        rest.ask(&session, "hello").await;
        sessions.push(session);
    }
    rest.lifecycle(&sessions[0], "park", json!({})).await.expect(200);
    rest.lifecycle(&sessions[1], "stop", json!({})).await.expect(200);
    // Facts are due that cannot be stored, which each start waits for.
    let lock = StoreLock::take(&daemon.database());
    let busy = rest.builder(Method::PATCH, &format!("/v1/sessions/{}", sessions[0]));
    let mut patching = JoinSet::new();
    patching.spawn(busy.json(&json!({ "title": "t" })).send());
    let waking = asking(
        &rest,
        &format!("/v1/sessions/{}/messages", sessions[0]),
        json!({ "text": "wake up" }),
    );
    let resuming = asking(&rest, &format!("/v1/sessions/{}/resume", sessions[1]), json!({}));
    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    drop(lock);
    for asked in [waking, resuming] {
        // It was begun and is over, or it was refused.
        let status = answer(asked).await.status.as_u16();
        assert!([200, 202, 503].contains(&status), "{status}");
    }
    assert_eq!(daemon.ended().code(), Some(0));
    let left = daemon.session_processes();
    assert!(left.is_empty(), "the daemon has ended, and there are: {left:#?}");
}

/// In a restart the program that comes next gets the signal, whenever it came, and ends everything as it is told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_in_the_middle_of_a_restart_ends_all_sessions() {
    for moment in [0, 10, 40] {
        let mut daemon = TestDaemon::with_fake().start().await;
        let rest = daemon.rest();
        let mut sessions = Vec::new();
        for number in 0..8 {
            let cwd = daemon.work_dir(&format!("w{number}"));
            sessions.push(rest.create_ready(json!({ "cwd": cwd })).await);
        }
        rest.post("/v1/daemon/restart", json!({})).await.expect(202);
        pass(Duration::from_millis(moment)).await;
        daemon.signal(if moment == 10 {
            Signal::SIGINT
        } else {
            Signal::SIGTERM
        });
        assert_eq!(
            daemon.ended().code(),
            Some(0),
            "{moment} ms after the answer\n{}",
            daemon.log()
        );
        let left = daemon.session_processes();
        assert!(left.is_empty(), "{moment} ms after the answer: {left:#?}");
        daemon.start().await;
        for session in &sessions {
            assert_eq!(daemon.rest().session(session).await["state"], "stopped");
        }
    }
}

/// Who waits for a session that the daemon lets go of is told to come back, and not that the session ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_in_a_restart_are_told_to_come_back() {
    let daemon = TestDaemon::with_fake()
        .fake(json!({ "controls": { "set_color": { "swallow": true } } }))
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let control = format!("/v1/sessions/{session}/control");
    let waiting = asking(&rest, &control, json!({ "subtype": "set_color", "color": "red" }));
    wait_until("the CLI was asked", PATIENCE, || {
        daemon.journal(&session).contains("\"set_color\"")
    })
    .await;
    let before = rest.get("/readyz").await.expect(200)["started_at"].take();
    rest.post("/v1/daemon/restart", json!({})).await.expect(202);
    let refused = answer(waiting).await;
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "shutting_down");
    wait_for("the next daemon", PATIENCE, async || {
        let health = rest.builder(Method::GET, "/readyz").send().await.ok()?;
        let health: Value = health.json().await.ok()?;
        (health["started_at"] != before && health["started_at"].is_string()).then_some(())
    })
    .await;
    assert_eq!(rest.session(&session).await["state"], "idle");
}
