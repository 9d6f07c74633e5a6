//! Owns section L: how processes live and end.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use trunkline::{domain::Timestamp, keeper::attach};

use crate::{
    fake::bed::{act, act_through, body, of_type, path, pid, plain, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        wait::{PATIENCE, wait_until},
        ws::Ws,
    },
};

/// Short graces, so that a stubborn CLI is killed in a second.
async fn hasty() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300")
        .env("TRUNKLINE_STOP_DRAIN_MS", "300")
        .start()
        .await
}

async fn child_of(client: &mut Ws) -> i32 {
    let line = client.cli_line("fake_child").await;
    i32::try_from(line["pid"].as_i64().unwrap()).unwrap()
}

async fn gone(pid: i32) {
    wait_until(&format!("{pid} is gone"), PATIENCE, || !proc::is_alive(pid)).await;
}

#[tokio::test]
async fn a_cli_that_ignores_everything_is_killed_within_the_graces() {
    let daemon = hasty().await;
    let id = session(
        &daemon,
        "a",
        json!({ "eof": { "ignore": true }, "term": { "ignore": true } }),
    )
    .await;
    let rest = daemon.rest();
    rest.ask(&id, "hello").await;
    let cli = pid(&rest, &id).await;
    let began = Instant::now();
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(view["state"], "stopped", "{view:#}");
    assert!(!proc::is_alive(cli));
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    let exit = &runs["items"][0]["exit"];
    assert_eq!(exit["killed"], true, "{exit:#}");
    assert_eq!(exit["signal"], 9);
    assert_eq!(exit["intent"], "stop");
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
}

/// A client that is attached sees how it ended before its socket is closed.
#[tokio::test]
async fn a_delete_of_a_cli_that_ignores_everything_ends_within_the_graces_too() {
    let daemon = hasty().await;
    let settings = json!({ "eof": { "ignore": true }, "term": { "ignore": true } });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    rest.ask(&id, "hello").await;
    // The turn has ended with its result, though the CLI lives on with its output open.
    let view = rest.session(&id).await;
    assert_eq!(
        (&view["state"], &view["turns"]),
        (&json!("idle"), &json!(1)),
        "{view:#}"
    );
    let cli = pid(&rest, &id).await;
    let mut client = daemon.attach(&id, None).await;
    let began = Instant::now();
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(!proc::is_alive(cli));
    let exit = client
        .until("the end", |frame| frame["data"]["type"] == "run_exited")
        .await
        .pop()
        .unwrap();
    let exit = &exit["data"];
    assert_eq!(
        (&exit["killed"], &exit["signal"], &exit["intent"]),
        (&json!(true), &json!(9), &json!("stop")),
        "{exit:#}"
    );
    assert_eq!(client.close_frame().await.0, 4410);
}

#[tokio::test]
async fn a_stop_reaches_a_keeper_that_had_lost_the_daemon() {
    let daemon = hasty().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let cli = pid(&rest, &id).await;
    let dir = daemon.data_dir().join("sessions").join(&id);
    let identity: Value = serde_json::from_slice(&fs::read(dir.join("keeper.json")).unwrap()).unwrap();
    let keeper = Pid::from_raw(i32::try_from(identity["pid"].as_i64().unwrap()).unwrap());

    // Another connection takes the keeper, which then stands still: the daemon gets it back only once it has woken it.
    let tracker = TaskTracker::new();
    let other = attach(&dir.join("keeper.json"), &tracker).await.unwrap();
    kill(keeper, Signal::SIGSTOP).unwrap();
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(view["state"], "stopped", "{view:#}");
    assert!(!proc::is_alive(cli));
    // It has let go of the journal, and has nothing else to do than to end.
    gone(keeper.as_raw()).await;
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    assert_eq!(runs["items"][0]["exit"]["intent"], "stop", "{runs:#}");
    drop(other);
}

#[tokio::test]
async fn nothing_that_a_session_started_is_left() {
    let daemon = hasty().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            { "child": { "ignore_term": true } },
            { "child": { "setsid": true, "ignore_term": true } },
            { "child": { "setsid": true, "double_fork": true, "ignore_term": true, "clear_env": true } },
        ]),
    )
    .await;
    let mut children = Vec::new();
    for _ in 0..3 {
        children.push(child_of(&mut client).await);
    }
    client.cli_line("result").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let left: Vec<_> = children
        .into_iter()
        .filter(|child| proc::is_alive(*child))
        .collect();
    assert!(left.is_empty(), "left: {left:?}");
}

#[tokio::test]
async fn an_exit_is_seen_although_a_grandchild_holds_the_output() {
    let daemon = hasty().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            { "child": { "setsid": true, "double_fork": true, "hold_output": true, "say_ms": 50 } },
            { "text": "done" },
            { "result": {} },
            { "exit": 0 },
        ]),
    )
    .await;
    let child = child_of(&mut client).await;
    let began = Instant::now();
    let view = rest.in_state(&id, &["stopped", "failed"]).await;
    // The grandchild lives for ten minutes.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(view["state"], "stopped", "{view:#}");
    gone(child).await;
    let records = records(&rest, &id).await;
    let at = |kind: &str| {
        let mut found = records.iter().filter(|record| record["data"]["type"] == kind);
        let at = found.next().unwrap()["ts"].as_str().unwrap();
        at.parse::<Timestamp>().unwrap()
    };
    let took_ms = at("run_exited").millis_since(at("result"));
    assert!(took_ms < 10_000, "the end was noticed after {took_ms} ms");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    act_through(&rest, &id, json!([{ "text": "again" }])).await;
}

#[tokio::test]
async fn stderr_never_blocks_the_cli_and_its_end_is_kept() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "start": [{ "stderr": 1_000_000 }] });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "stderr": 100_000 }, { "text": "unharmed" }])).await;
    act(
        &rest,
        &id,
        json!([{ "stderr": "the last words\n" }, { "exit": 9 }]),
    )
    .await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert!(
        view["reason"]["detail"]
            .as_str()
            .unwrap()
            .contains("the last words"),
        "{view:#}"
    );
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    let tail = runs["items"][0]["exit"]["stderr_tail"].as_str().unwrap();
    assert!(
        tail.ends_with("the last words\n") && tail.len() <= 16 * 1024,
        "{} bytes",
        tail.len()
    );
    let all: usize = records(&rest, &id)
        .await
        .iter()
        .map(|record| record.to_string().len())
        .sum();
    assert!(all < 500_000, "stderr is bounded in the journal: {all} bytes");
}

#[tokio::test]
async fn silence_can_be_seen() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([{ "text": "the last line" }, { "silent": 1 }])).await;
    let frame = client
        .until("the line", |frame| frame["data"]["type"] == "assistant")
        .await
        .pop()
        .unwrap();
    let view = rest.in_state(&id, &["busy"]).await;
    assert_eq!(view["last_line_at"], frame["ts"], "{view:#}");
    assert!(view["turn"]["started_at"].is_string());
    // Nothing more is said, so it stays.
    assert_eq!(rest.session(&id).await["last_line_at"], frame["ts"]);
}

#[tokio::test]
async fn a_pipe_that_breaks_is_an_event_of_one_session() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let other = session(&daemon, "other", json!({})).await;
    let id = session(
        &daemon,
        "a",
        json!({ "read_bytes_then_exit": 20_000, "start": [{ "stderr": "too much for me\n" }] }),
    )
    .await;
    let reply = rest
        .post(&path(&id, "messages"), json!({ "text": "x".repeat(1_000_000) }))
        .await;
    assert!([202, 409].contains(&reply.status.as_u16()), "{:#}", reply.body);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "cli_exited", "{view:#}");
    assert!(
        view["reason"]["detail"]
            .as_str()
            .unwrap()
            .contains("too much for me"),
        "{view:#}"
    );
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    assert_eq!(runs["items"][0]["exit"]["code"], 1, "{runs:#}");
    act_through(&rest, &other, json!([{ "text": "unharmed" }])).await;
}

#[tokio::test]
async fn stop_and_interrupt_and_delete_of_what_is_gone_are_no_errors() {
    let (_daemon, rest, id) = plain().await;
    act(&rest, &id, json!([{ "exit": 0 }])).await;
    rest.in_state(&id, &["failed", "stopped"]).await;
    let (a, b, c) = tokio::join!(
        rest.lifecycle(&id, "stop", json!({})),
        rest.lifecycle(&id, "stop", json!({})),
        rest.lifecycle(&id, "interrupt", json!({})),
    );
    for reply in [a, b, c] {
        reply.expect(200);
    }
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    let (a, b) = tokio::join!(
        rest.lifecycle(&id, "stop", json!({})),
        rest.lifecycle(&id, "stop", json!({}))
    );
    for reply in [a, b] {
        assert_eq!(reply.expect(200)["state"], "stopped");
    }
    let whole = format!("/v1/sessions/{id}");
    let (a, b) = tokio::join!(rest.delete(&whole), rest.delete(&whole));
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert!(
        statuses[0] == 204 && [204, 404].contains(&statuses[1]),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn a_delete_answers_after_the_exit_and_leaves_time_for_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let words = daemon.home().join("words");
    let id = session(
        &daemon,
        "a",
        json!({ "eof": { "delay_ms": 3000, "touch": words } }),
    )
    .await;
    let rest = daemon.rest();
    rest.ask(&id, "hello").await;
    let cli = pid(&rest, &id).await;
    let deleted = rest.delete(&format!("/v1/sessions/{id}")).await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
    assert!(!proc::is_alive(cli), "it answered too early");
    assert!(words.exists(), "the CLI wrote its last words");
    let list = rest.get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"], json!([]));
    assert!(!daemon.data_dir().join("sessions").join(&id).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_all_in_one_order_and_in_time() {
    let mut daemon = hasty().await;
    let rest = daemon.rest();
    let mut clients = Vec::new();
    let mut sessions = Vec::new();
    for place in 0..5 {
        let settings = if place == 0 {
            json!({ "eof": { "ignore": true }, "term": { "ignore": true } })
        } else {
            json!({})
        };
        let id = session(&daemon, &format!("w{place}"), settings).await;
        act_through(
            &rest,
            &id,
            json!([{ "text": "done" }, { "result": {}, "cost": 0.25 }]),
        )
        .await;
        clients.push(daemon.attach(&id, Some(0)).await);
        sessions.push(id);
    }
    // One reads nothing, and there is more for it than a socket takes.
    let deaf = daemon.attach(&sessions[1], Some(0)).await;
    act(
        &rest,
        &sessions[1],
        json!([{ "flood": 20_000, "bytes": 1000 }, { "silent": 1 }]),
    )
    .await;
    clients[1]
        .until("the end of the flood", |frame| frame["data"]["n"] == 19_999)
        .await;
    let began = Instant::now();
    let status = daemon.stop();
    assert_eq!(status.code(), Some(0), "{}", daemon.log());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for client in &mut clients {
        assert_eq!(client.close_frame().await.0, 1001);
    }
    drop(deaf);
    assert!(daemon.session_processes().is_empty());
    daemon.start().await;
    for id in &sessions {
        let view = daemon.rest().session(id).await;
        assert_eq!(view["state"], "stopped", "{view:#}");
        assert!(
            (view["cost_usd"].as_f64().unwrap() - 0.25).abs() < 1e-9,
            "the last facts: {view:#}"
        );
    }
}

#[tokio::test]
async fn children_outlive_the_threads_that_started_them() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut creating = JoinSet::new();
    for place in 0..20 {
        let (rest, cwd) = (rest.clone(), daemon.work_dir(&format!("w{place}")));
        creating.spawn(async move { rest.create_ready(json!({ "cwd": cwd })).await });
    }
    let sessions = creating.join_all().await;
    let mut pids = Vec::new();
    for id in &sessions {
        pids.push(pid(&rest, id).await);
    }
    // The pool's threads retire after ten idle seconds; a turn that takes longer passes the time.
    act_through(
        &rest,
        &sessions[0],
        json!([{ "sleep_ms": 11_500 }, { "text": "later" }]),
    )
    .await;
    for (id, before) in sessions.iter().zip(pids) {
        assert!(proc::is_alive(before), "{id} lost its process");
        assert_eq!(rest.session(id).await["state"], "idle");
    }
}

#[tokio::test]
async fn a_child_killed_from_outside_leaves_a_session_that_works() {
    let (_daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "cli_killed");
    let refused = rest
        .post(&path(&id, "messages"), json!({ "text": "there?" }))
        .await;
    assert_eq!(refused.problem(409), "session_not_live");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "there?").await;
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2);
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
}

#[tokio::test]
async fn a_cli_that_never_reads_blocks_nobody() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300")
        .env("TRUNKLINE_SESSIONS_STDIN_QUEUE_BYTES", "1000000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let cli = pid(&rest, &id).await;
    proc::signal(cli, Signal::SIGSTOP);
    let mut sending = JoinSet::new();
    for _ in 0..6 {
        let (rest, messages) = (rest.clone(), path(&id, "messages"));
        sending.spawn(async move {
            rest.post(&messages, json!({ "text": "x".repeat(400_000) }))
                .await
                .status
                .as_u16()
        });
    }
    // The queue is full at some point, and says so.
    let mut statuses = Vec::new();
    while let Some(status) = sending.join_next().await {
        statuses.push(status.unwrap());
        if statuses.last() == Some(&503) {
            break;
        }
    }
    assert!(statuses.contains(&503), "{statuses:?}");
    let began = Instant::now();
    assert_eq!(rest.session(&id).await["state"], "busy");
    // It would wait for the CLI as long as that stands still.
    assert!(began.elapsed() < Duration::from_secs(15));
    let deleted = rest.delete(&format!("/v1/sessions/{id}")).await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
    gone(cli).await;
}

#[tokio::test]
async fn health_says_what_is_wrong() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let ready = rest.get("/readyz").await.expect(200);
    assert_eq!(ready["cli"]["version"], "9.9.9", "{ready:#}");
    assert_eq!(ready["cli"]["tested"], "newer", "{ready:#}");
    assert_eq!(ready["store_writable"], true);
}

#[tokio::test]
async fn a_missing_cli_is_degraded_and_refused_before_anything_is_made() {
    let bin = tempfile::tempdir().unwrap();
    let cli = bin.path().join("claude");
    let daemon = TestDaemon::with_fake().claude(&cli).start().await;
    let rest = daemon.rest();
    let not_ready = rest.get("/readyz").await;
    assert_eq!(not_ready.problem(503), "not_ready");
    let refused = rest
        .post("/v1/sessions", json!({ "cwd": daemon.work_dir("a") }))
        .await;
    assert_eq!(refused.problem(503), "cli_not_found");
    assert_eq!(rest.get("/v1/sessions").await.expect(200)["items"], json!([]));
    // It is found once it is there: no restart is needed.
    let program = crate::support::programs::fake_claude();
    fs::write(&cli, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display())).unwrap();
    fs::set_permissions(&cli, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    rest.get("/readyz").await.expect(200);
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "hello").await;
}

/// Facts about states that all clients see are records, each once.
#[tokio::test]
async fn states_are_records_and_alternate() {
    let daemon = TestDaemon::with_fake().start().await;
    // A state that nobody could have seen is not told: each of these stays until it was.
    let (start, gate) = (daemon.home().join("start"), daemon.home().join("gate"));
    let settings = json!({ "init": { "wait_file": start }, "eof": { "delay_ms": 2000 } });
    let rest = daemon.rest();
    let view = rest.create(body(&daemon, "a", settings, json!({}))).await;
    let id = view["id"].as_str().unwrap().to_owned();
    let mut client = daemon.attach(&id, Some(0)).await;
    let is = |state: &'static str| {
        move |frame: &Value| frame["data"]["type"] == "state" && frame["data"]["state"] == state
    };
    let mut frames = client.until("the start", is("starting")).await;
    fs::write(&start, "").unwrap();
    frames.extend(client.until("ready", is("idle")).await);
    act(&rest, &id, json!([{ "wait_file": gate }, { "text": "done" }])).await;
    frames.extend(client.until("busy", is("busy")).await);
    fs::write(&gate, "").unwrap();
    frames.extend(client.until("idle", is("idle")).await);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    frames.extend(client.until("the stop", is("stopped")).await);
    let seen: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["data"]["type"] == "state")
        .collect();
    let states: Vec<_> = seen
        .iter()
        .map(|frame| frame["data"]["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["starting", "idle", "busy", "idle", "stopping", "stopped"]
    );
    let stored = records(&rest, &id).await;
    assert_eq!(of_type(&stored, "daemon", "state").len(), states.len());
    let live: Vec<_> = frames.iter().filter(|frame| frame["seq"].is_u64()).collect();
    assert!(
        live.iter().zip(&stored).all(|(live, stored)| *live == stored),
        "stored and sent are one"
    );
}
