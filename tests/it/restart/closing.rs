//! Owns what is under way when the end of the daemon begins: starts, and requests that wait for an answer.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    daemon::TestDaemon,
    programs::fake_settings,
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

/// The folders of sessions that there are.
fn folders(daemon: &TestDaemon) -> usize {
    fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_being_made_when_the_daemon_ends_gets_no_process() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    // The end is busy with this one when the other is made.
    let (cwd, eof) = (daemon.work_dir("slow"), daemon.home().join("eof"));
    fake_settings(&cwd, &json!({ "eof": { "seen": eof, "delay_ms": 2000 } }));
    rest.create_ready(json!({ "cwd": cwd })).await;
    let lock = StoreLock::take(&daemon.database());
    let making = asking(
        &rest,
        "/v1/sessions",
        json!({ "cwd": daemon.work_dir("a"), "prompt": "hello" }),
    );
    wait_until("it is being made", PATIENCE, || folders(&daemon) == 2).await;
    daemon.signal(Signal::SIGTERM);
    wait_until("the other one is told to end", PATIENCE, || eof.exists()).await;
    drop(lock);
    let refused = answer(making).await;
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "shutting_down");
    assert_eq!(daemon.ended().code(), Some(0));
    let left = daemon.session_processes();
    assert!(left.is_empty(), "the daemon has ended, and there are: {left:#?}");
    daemon.start().await;
    let page = daemon.rest().get("/v1/sessions").await.expect(200);
    let views = page["items"].as_array().unwrap().iter();
    let mut made = views.filter(|view| view["cwd"] == json!(daemon.work_dir("a")));
    assert!(
        made.all(|view| view["state"] == "failed"),
        "nothing is started for it: {page:#}"
    );
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

/// A caller that waits for a session that the daemon lets go of is told to come back, and not that the session ended.
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
