//! Owns the tests of a session's limit of costs: it holds over all its processes.

use std::{fs, path::Path};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, of_type, path, pid, records, session_with},
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// A session whose turns cost a cent each, and which may cost 2.5 of them; the file with the arguments of its starts.
struct Bed {
    daemon: TestDaemon,
    rest: Rest,
    id: String,
    dump: std::path::PathBuf,
}

async fn bed(builder: TestDaemonBuilder) -> Bed {
    let daemon = builder.start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let settings = json!({ "dump": dump, "cost": 0.01 });
    let id = session_with(&daemon, "a", settings, json!({ "max_budget_usd": 0.025 })).await;
    Bed {
        daemon,
        rest,
        id,
        dump,
    }
}

/// Restarts come at once.
fn eager() -> TestDaemonBuilder {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
}

/// The limits that the processes were started with.
fn limits(dump: &Path) -> Vec<String> {
    let text = fs::read_to_string(dump).unwrap();
    let limit = |line: &str| {
        let start: Value = serde_json::from_str(line).unwrap();
        let argv = start["argv"].as_array().unwrap();
        let mut limits = argv
            .iter()
            .filter_map(|arg| arg.as_str()?.strip_prefix("--max-budget-usd="));
        limits.next().unwrap().to_owned()
    };
    text.lines().map(limit).collect()
}

/// Spends three cents, and leaves the session parked.
async fn spend(bed: &Bed) {
    for _ in 0..3 {
        bed.rest.ask(&bed.id, "hello").await;
        bed.rest.lifecycle(&bed.id, "park", json!({})).await.expect(200);
    }
}

#[tokio::test]
async fn each_process_gets_what_is_left_of_the_limit() {
    let bed = bed(TestDaemon::with_fake()).await;
    spend(&bed).await;
    assert_eq!(limits(&bed.dump), ["0.025", "0.015", "0.005"]);

    // Nothing is left: a message wakes nobody, and is not written.
    let before = records(&bed.rest, &bed.id).await.len();
    for _ in 0..2 {
        let request = bed
            .rest
            .builder(reqwest::Method::POST, &path(&bed.id, "messages"))
            .header("Idempotency-Key", "once")
            .json(&json!({ "text": "more" }));
        let refused = bed.rest.send(request).await.expect(409);
        assert_eq!(refused["code"], "budget_spent", "{refused:#}");
        assert_eq!(refused["side_effect_possible"], false, "{refused:#}");
        assert_eq!(refused["limit_usd"], 0.025, "{refused:#}");
        assert_eq!(refused["cost_usd"], 0.03, "{refused:#}");
    }
    assert_eq!(records(&bed.rest, &bed.id).await.len(), before);
    assert_eq!(bed.rest.session(&bed.id).await["state"], "parked");

    for verb in ["resume", "restart"] {
        for body in [json!({}), json!({ "fresh": true })] {
            let refused = bed.rest.lifecycle(&bed.id, verb, body).await.expect(409);
            assert_eq!(refused["code"], "budget_spent", "{refused:#}");
            assert_eq!(refused["limit_usd"], 0.025, "{refused:#}");
            assert_eq!(refused["cost_usd"], 0.03, "{refused:#}");
            assert_eq!(refused["turns_with_unknown_cost"], 0, "{refused:#}");
        }
    }
    assert_eq!(limits(&bed.dump).len(), 3, "no process was started");

    // A fork counts from zero.
    let fork = bed
        .rest
        .lifecycle(&bed.id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    assert_eq!(limits(&bed.dump).last().unwrap(), "0.025");
    let fork = fork["id"].as_str().unwrap();
    bed.rest.ask(fork, "hello").await;
    bed.rest.lifecycle(fork, "park", json!({})).await.expect(200);
    bed.rest.ask(fork, "and on").await;
    assert_eq!(limits(&bed.dump).last().unwrap(), "0.015");
}

#[tokio::test]
async fn a_spent_limit_leaves_a_process_alone() {
    let bed = bed(TestDaemon::with_fake()).await;
    for _ in 0..3 {
        bed.rest.ask(&bed.id, "hello").await;
    }
    let process = pid(&bed.rest, &bed.id).await;
    let refused = bed.rest.lifecycle(&bed.id, "restart", json!({})).await;
    assert_eq!(refused.problem(409), "budget_spent");
    assert_eq!(pid(&bed.rest, &bed.id).await, process);
    let answer = bed.rest.ask(&bed.id, "and on").await;
    assert_eq!(
        answer["turn"]["subtype"], "success",
        "it is the CLI that counts: {answer:#}"
    );
}

#[tokio::test]
async fn a_crash_is_restarted_with_what_is_left() {
    let bed = bed(eager()).await;
    bed.rest.ask(&bed.id, "hello").await;
    let first = pid(&bed.rest, &bed.id).await;
    proc::signal(first, Signal::SIGKILL);
    let second = wait_for("another process is idle", PATIENCE, async || {
        let view = bed.rest.session(&bed.id).await;
        let pid = view["cli"]["pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        pid.filter(|pid| *pid != first && view["state"] == "idle")
    })
    .await;
    assert_eq!(limits(&bed.dump), ["0.025", "0.015"]);
    // A CLI that was killed has lost its counter, so its next turn may seem free.
    for _ in 0..3 {
        bed.rest.ask(&bed.id, "and on").await;
    }
    proc::signal(second, Signal::SIGKILL);
    let view = bed.rest.in_state(&bed.id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "budget_spent", "{view:#}");
    assert_eq!(view["ways_out"], json!(["change_options", "fork"]), "{view:#}");
    let raised = json!({ "options": { "max_budget_usd": 10.0 } });
    let session = format!("/v1/sessions/{}", bed.id);
    let view = bed.rest.patch(&session, raised).await.expect(200);
    assert_eq!(view["ways_out"][0], "resume", "{view:#}");
    bed.rest
        .lifecycle(&bed.id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    bed.rest.ask(&bed.id, "and on").await;
    let records = records(&bed.rest, &bed.id).await;
    assert_eq!(of_type(&records, "daemon", "run_started").len(), 3);
    drop(bed.daemon);
}

#[tokio::test]
async fn a_start_whose_budget_is_spent_while_it_waits_is_refused() {
    let limit = |name: &str| format!("TRUNKLINE_LIMITS_{name}");
    let builder = TestDaemon::with_fake().env(limit("LIVE_PROCESSES"), "2");
    let bed = bed(builder.env(limit("PARALLEL_STARTS"), "1")).await;
    for _ in 0..2 {
        bed.rest.ask(&bed.id, "hello").await;
    }
    // The turn that runs ends with the process, and costs the rest.
    let settings = json!({ "dump": bed.dump, "cost": 0.01, "term": { "do": [{ "result": {} }] } });
    fs::write(
        bed.daemon.work_dir("a").join(".fake-claude.json"),
        settings.to_string(),
    )
    .unwrap();
    bed.rest.lifecycle(&bed.id, "park", json!({})).await.expect(200);
    act(&bed.rest, &bed.id, json!([{ "silent": true }])).await;
    bed.rest.in_turn(&bed.id).await;
    assert_eq!(limits(&bed.dump), ["0.025", "0.005"]);
    let refused = bed
        .rest
        .lifecycle(&bed.id, "restart", json!({}))
        .await
        .expect(409);
    assert_eq!(
        (&refused["code"], &refused["cost_usd"]),
        (&json!("budget_spent"), &json!(0.03)),
        "{refused:#}"
    );
    assert_eq!(limits(&bed.dump).len(), 2, "no process was started");
    assert_eq!(bed.rest.session(&bed.id).await["state"], "stopped");
    // It takes no place of another session, and none in the queue.
    for name in ["b", "c"] {
        session_with(&bed.daemon, name, json!({}), json!({})).await;
    }
}
