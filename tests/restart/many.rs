//! Owns the restart of a daemon with a hundred sessions: each is there again, whole, when the daemon answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    journal,
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

const SESSIONS: usize = 100;

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
    // What ends a turn is more than its result: the CLI's last word and the daemon's are records, and come in either order.
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
