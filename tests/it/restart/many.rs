//! Owns the restart of a daemon with many sessions: each is there again, whole, when the daemon answers.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    restart::journal,
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, pass, wait_for, wait_until},
    },
};

const SESSIONS: usize = 100;
const PAUSED_SESSIONS: usize = 40;

/// All sessions by their ids, in one list.
async fn all(rest: &Rest) -> BTreeMap<String, Value> {
    let list = rest.get("/v1/sessions?limit=200").await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|view| (view["id"].as_str().unwrap().to_owned(), view.clone()))
        .collect()
}

#[tokio::test]
async fn a_hundred_sessions_are_there_again_when_the_daemon_answers() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "1000")
        .env("TRUNKLINE_LIMITS_LIVE_PER_CWD", "0")
        .env("TRUNKLINE_LIMITS_QUEUED_STARTS", "200")
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    for _ in 0..SESSIONS {
        rest.create(json!({ "cwd": cwd, "prompt": "hello" })).await;
    }
    let before = wait_for("all have answered", 2 * PATIENCE, async || {
        let views = all(&rest).await;
        let are_idle = views
            .values()
            .all(|view| view["state"] == "idle" && view["turns"] == 1);
        are_idle.then_some(views)
    })
    .await;
    assert_eq!(before.len(), SESSIONS);
    // The end of a turn is more than its result: the CLI's last word and the daemon's are records, and come in either
    // order.
    let mut before = before;
    for (id, view) in &mut before {
        wait_for("the last records of the turn", PATIENCE, async || {
            let records = rest.events(id, 0).await;
            let last = |src: &str, kind: &str| {
                let mut records = records.iter().rev().filter(|record| record["src"] == src);
                records.find(|record| record["data"]["type"] == kind)
            };
            let are_there = last("daemon", "state")?["data"]["state"] == "idle"
                && last("cli", "system")?["data"]["state"] == "idle";
            are_there.then_some(())
        })
        .await;
        *view = rest.session(id).await;
    }
    for is_killed in [true, false] {
        if is_killed {
            daemon.kill();
        } else {
            assert_eq!(daemon.stop().code(), Some(0));
        }
        daemon.start().await;
        // Nothing is waited for: whoever is answered finds all as it was.
        let after = all(&daemon.rest()).await;
        assert_eq!(after.len(), SESSIONS);
        for (id, view) in &after {
            for field in ["state", "turns", "cost_usd", "head_seq", "cli"] {
                assert_eq!(view[field], before[id][field], "{field} of {id}: {view:#}");
            }
        }
    }
    for id in before.keys() {
        journal::records(&daemon, id);
    }
    let rest = daemon.rest();
    for id in before.keys().take(3) {
        rest.ask(id, "still there?").await;
    }
    for id in before.keys() {
        rest.lifecycle(id, "stop", json!({})).await.expect(200);
    }
}

/// How many processes connect to keepers' sockets of this daemon just now.
fn connections(sockets: &[String]) -> usize {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let connected = |line: &&str| line.split_whitespace().nth(5) == Some("03");
    table
        .lines()
        .filter(connected)
        .filter(|line| sockets.iter().any(|socket| line.ends_with(socket)))
        .count()
}

/// The pause is a seam that only builds for tests have.
#[cfg_attr(not(debug_assertions), ignore = "the seam is not there")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_paused_at_its_start_ends_no_process() {
    let seam = tempfile::tempdir().unwrap();
    let pause = seam.path().join("pause");
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PER_CWD", "0")
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "100")
        .env("TRUNKLINE_PAUSE_BEFORE_HELLO", &pause)
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    for _ in 0..PAUSED_SESSIONS {
        rest.create(json!({ "cwd": cwd })).await;
    }
    let before = wait_for("all are ready", 2 * PATIENCE, async || {
        let views = all(&rest).await;
        views
            .values()
            .all(|view| view["state"] == "idle")
            .then_some(views)
    })
    .await;
    let sockets: Vec<String> = before
        .keys()
        .map(|id| {
            let file = daemon.data_dir().join("sessions").join(id).join("keeper.json");
            let identity: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            identity["socket"].as_str().unwrap().to_owned()
        })
        .collect();
    daemon.kill();
    wait_until("the keepers see it", PATIENCE, || connections(&sockets) == 0).await;
    // It has connected, and gets no time to say hello. Only builds for tests have such a pause.
    std::fs::write(&pause, "").unwrap();
    daemon.launch();
    wait_until("the daemon connects", PATIENCE, || {
        connections(&sockets) > 0 || !cfg!(debug_assertions)
    })
    .await;
    pass(Duration::from_millis(6_500)).await;
    std::fs::remove_file(&pause).unwrap();
    daemon.ready().await;
    let rest = daemon.rest();
    for (id, view) in &before {
        let pid = i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap();
        assert!(proc::is_alive(pid), "the process of {id} was ended");
        let now = wait_for("it is attached to", PATIENCE, async || {
            let now = rest.session(id).await;
            now["reason"].is_null().then_some(now)
        })
        .await;
        assert_eq!(
            (&now["state"], &now["cli"]["pid"]),
            (&json!("idle"), &json!(pid)),
            "{now:#}"
        );
    }
    let log = daemon.log();
    assert!(!log.contains("could not be attached to"), "{log}");
}
