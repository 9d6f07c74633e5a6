//! Owns the tests of the kind of agent: a session keeps the one of its first run, and a CLI that is away is waited for.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    fake::bed::{body, of_type, path, pid, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        programs::fake_claude,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// A directory of the search path, and the CLI in it while it is there.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn cli(&self) -> PathBuf {
        self.dir.path().join("claude")
    }

    fn put(&self) {
        symlink(fake_claude(), self.cli()).unwrap();
    }

    fn take(&self) {
        fs::remove_file(self.cli()).unwrap();
    }
}

async fn talk(rest: &Rest, id: &str) {
    let answer = rest.ask(id, "hello").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
}

#[track_caller]
fn is_away(refused: &Value) {
    assert_eq!(refused["code"], "cli_not_found", "{refused:#}");
    assert_eq!(refused["retryable"], true, "{refused:#}");
    assert_eq!(refused["side_effect_possible"], false, "{refused:#}");
}

#[tokio::test]
async fn a_cli_that_is_away_is_waited_for() {
    let place = Place::new();
    place.put();
    let daemon = TestDaemon::with_fake()
        .claude_in(place.dir.path())
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "1")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for name in ["stopped", "parked", "crashed"] {
        let id = session(&daemon, name, json!({})).await;
        talk(&rest, &id).await;
        sessions.push(id);
    }
    let [stopped, parked, crashed] = sessions.as_slice() else {
        panic!("three sessions")
    };
    rest.lifecycle(stopped, "stop", json!({})).await.expect(200);
    rest.lifecycle(parked, "park", json!({})).await.expect(200);

    place.take();
    is_away(&rest.lifecycle(stopped, "resume", json!({})).await.expect(503));
    is_away(&rest.lifecycle(stopped, "fork", json!({})).await.expect(503));
    let message = json!({ "text": "more" });
    is_away(
        &rest
            .post(&path(parked, "messages"), message.clone())
            .await
            .expect(503),
    );
    let create = body(&daemon, "new", json!({}), json!({}));
    is_away(&rest.post("/v1/sessions", create).await.expect(503));
    assert_eq!(rest.get("/readyz").await.problem(503), "not_ready");
    let process = pid(&rest, crashed).await;
    is_away(&rest.lifecycle(crashed, "restart", json!({})).await.expect(503));
    assert_eq!(pid(&rest, crashed).await, process, "the process goes on");
    talk(&rest, crashed).await;
    proc::signal(process, Signal::SIGKILL);
    wait_for("the restart is overdue", PATIENCE, async || {
        let view = rest.session(crashed).await;
        let at: trunkline::domain::Timestamp = view["restart"]["at"].as_str()?.parse().ok()?;
        (trunkline::domain::Clock.now().millis_since(at) > 1_500).then_some(())
    })
    .await;
    for (id, state) in [(stopped, "stopped"), (parked, "parked"), (crashed, "starting")] {
        let view = rest.session(id).await;
        assert_eq!(view["state"], state, "{view:#}");
        assert_eq!(view["simulated"], false, "{view:#}");
    }

    place.put();
    rest.get("/readyz").await.expect(200);
    rest.lifecycle(stopped, "resume", json!({})).await.expect(200);
    rest.in_state(crashed, &["idle"]).await;
    for id in &sessions {
        talk(&rest, id).await;
        assert_eq!(rest.session(id).await["reason"], Value::Null);
    }
    let all = records(&rest, crashed).await;
    let states = of_type(&all, "daemon", "state");
    assert!(states.iter().all(|it| it["state"] != "failed"), "{states:#?}");
    assert_eq!(of_type(&all, "daemon", "run_started").len(), 2);
}

#[tokio::test]
async fn a_simulated_session_stays_simulated() {
    let place = Place::new();
    let mut daemon = TestDaemon::with_fake().claude_in(place.dir.path()).start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "simulated", json!({})).await;
    assert_eq!(rest.session(&id).await["simulated"], true);
    talk(&rest, &id).await;
    let view = rest.session(&id).await;
    assert_eq!(view["cost_usd"], 0.0, "{view:#}");
    let usage = rest.get("/v1/usage?group_by=session").await.expect(200);
    let sums = &usage["items"][0];
    assert_eq!(sums["turns"], 0, "{usage:#}");
    assert_eq!(sums["simulated_turns"], 1, "{usage:#}");
    assert_eq!(sums["cost_usd"], 0.0, "{usage:#}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);

    // A CLI is installed: it runs new sessions and leaves the old one alone.
    place.put();
    let real = session(&daemon, "real", json!({})).await;
    assert_eq!(rest.session(&real).await["simulated"], false);
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    talk(&rest, &id).await;
    assert_eq!(rest.session(&id).await["simulated"], true);
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    assert_eq!(fork["simulated"], true, "{fork:#}");
    talk(&rest, fork["id"].as_str().unwrap()).await;

    // The same after a restart of the daemon.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume", json!({})).await.expect(200);
    talk(&rest, &id).await;
    assert_eq!(rest.session(&id).await["simulated"], true);
    assert_eq!(rest.session(&real).await["simulated"], false);
}
