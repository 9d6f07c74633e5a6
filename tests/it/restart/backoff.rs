//! Owns the tests of a daemon that dies while the restart of a CLI is due.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::fake_prompt,
    rest::Rest,
    wait::{PATIENCE, wait_for},
};

async fn daemon(first_delay_ms: &str) -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", first_delay_ms)
        .fake(json!({ "merge": false }))
        .start()
        .await
}

/// A session whose CLI died in mid-turn with a prompt that waited; its id, that prompt's, and the restart.
async fn waiting(daemon: &TestDaemon) -> (String, String, Value) {
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "first").await;
    let gate = daemon.home().join("gate");
    let dies = json!([{ "text": "half" }, { "wait_file": gate }, { "exit": 3 }]);
    rest.prompt(&id, &fake_prompt(&dies)).await;
    let queued = rest.prompt(&id, "second").await;
    fs::write(&gate, "").unwrap();
    let restart = due(&rest, &id).await;
    (id, queued["uuid"].as_str().unwrap().to_owned(), restart)
}

async fn due(rest: &Rest, id: &str) -> Value {
    wait_for("a restart is due", PATIENCE, async || {
        let view = rest.session(id).await;
        view["restart"].is_object().then(|| view["restart"].clone())
    })
    .await
}

async fn runs(rest: &Rest, id: &str) -> usize {
    let runs = rest.get(&format!("/v1/sessions/{id}/runs")).await.expect(200);
    runs["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_restart_that_is_due_survives_the_daemon_and_is_made_once() {
    let mut daemon = daemon("6000").await;
    let (id, queued, restart) = waiting(&daemon).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let after = rest.session(&id).await;
    if after["restart"].is_object() {
        assert_eq!(
            after["restart"], restart,
            "neither sooner nor later, nor once more"
        );
    }
    let turn = wait_for("the prompt that waited is answered", PATIENCE, async || {
        let turns = rest.turns(&id).await;
        turns.into_iter().find(|turn| turn["prompts"] == json!([queued]))
    })
    .await;
    assert_eq!(turn["is_error"], false, "{turn:#}");
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["restart"], Value::Null);
    assert_eq!(runs(&rest, &id).await, 2);
    let records = rest.events(&id, 0).await;
    let lines = records
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["uuid"] == json!(queued));
    assert_eq!(lines.count(), 2, "once to each process");
    let journal = daemon.journal(&id);
    assert!(!journal.contains(r#""state":"failed""#));
}

#[tokio::test]
async fn a_restart_that_was_due_while_no_daemon_ran_is_made_by_the_next() {
    let mut daemon = daemon("1").await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "first").await;
    let pid = i32::try_from(rest.session(&id).await["cli"]["pid"].as_i64().unwrap()).unwrap();
    daemon.kill();
    proc::signal(pid, Signal::SIGKILL);
    wait_for("its keeper is gone", PATIENCE, async || {
        daemon.session_processes().is_empty().then_some(())
    })
    .await;
    daemon.start().await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    rest.ask(&id, "second").await;
    assert_eq!(runs(&rest, &id).await, 2);
}

#[tokio::test]
async fn a_stop_in_the_wait_holds_for_the_next_daemon() {
    let mut daemon = daemon("60000").await;
    let (id, queued, _) = waiting(&daemon).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&id).await;
    assert_eq!(view["open_prompts"][0]["uuid"], json!(queued), "{view:#}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    daemon.kill();
    daemon.start().await;
    let view = daemon.rest().session(&id).await;
    assert_eq!(
        (&view["state"], &view["restart"]),
        (&json!("stopped"), &Value::Null),
        "{view:#}"
    );
    assert_eq!(view["open_prompts"], json!([]));
}

#[tokio::test]
async fn an_orderly_end_takes_restarts_back() {
    let mut daemon = daemon("60000").await;
    let (id, ..) = waiting(&daemon).await;
    assert!(daemon.stop().success());
    daemon.start().await;
    let view = daemon.rest().session(&id).await;
    assert_eq!(
        (&view["state"], &view["restart"]),
        (&json!("stopped"), &Value::Null),
        "{view:#}"
    );
}
