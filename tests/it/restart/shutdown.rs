//! Owns the end of a daemon that is asked to end, with both of its ways to leave sessions, and sessions without a daemon.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    restart::{
        follower::{Beacon, Follower},
        journal,
    },
    support::{
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        wait::{PATIENCE, wait_until},
    },
};

const DETACH: (&str, &str) = ("TRUNKLINE_STOP_ON_SHUTDOWN", "detach");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_detaches_hands_its_sessions_to_the_next() {
    let mut daemon = TestDaemon::with_fake().env(DETACH.0, DETACH.1).start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let pid = rest.session(&session).await["cli"]["pid"].clone();
    let mut client = daemon.attach(&session, None).await;
    let beacon = Beacon::new(&daemon);
    let mut follower = Follower::start(&beacon, &session, None);
    rest.prompt(&session, &fake_prompt(&json!([{ "flood": 3000, "rate": 1500 }])))
        .await;
    follower.more(200, Duration::from_secs(10)).await;

    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(client.close_frame().await.0, 1001);
    daemon.start().await;
    beacon.moved(&daemon);
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["cli"]["pid"], pid, "{view:#}");
    let idle = rest.in_state(&session, &["idle"]).await;
    assert_eq!(idle["turns"], 1);
    let records = journal::parse(&follower.has_all_of(&daemon, &session).await);
    assert_eq!(journal::cli_lines(&records, "stream_event").len(), 3000);
    assert_eq!(journal::own(&records, "stop_requested").len(), 0);

    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
}

#[tokio::test]
async fn a_daemon_that_stops_ends_its_sessions_and_tells_its_clients() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let idle = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&idle, "hello").await;
    let busy = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    rest.prompt(
        &busy,
        &fake_prompt(&json!([{ "text": "begun" }, { "silent": 1 }])),
    )
    .await;
    let mut clients = vec![
        daemon.attach(&idle, None).await,
        daemon.attach(&busy, Some(0)).await,
    ];
    clients[1].cli_line("assistant").await;
    let pids: Vec<i32> = daemon
        .session_processes()
        .iter()
        .map(|process| process.pid)
        .collect();
    assert_eq!(pids.len(), 4, "two keepers, two CLIs");

    assert_eq!(daemon.stop().code(), Some(0));
    for client in &mut clients {
        let (code, reason) = client.close_frame().await;
        assert_eq!(code, 1001, "{reason}");
        assert!(reason.contains("after="), "says how to come back: {reason}");
    }
    let left: Vec<_> = pids.into_iter().filter(|pid| proc::is_alive(*pid)).collect();
    assert!(left.is_empty(), "processes are left: {left:?}");
    daemon.start().await;
    let rest = daemon.rest();
    for session in [&idle, &busy] {
        let view = rest.session(session).await;
        assert_eq!(view["state"], "stopped", "{view:#}");
        assert_eq!(view["reason"], Value::Null);
    }
    let cost = rest.session(&idle).await["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.0008).abs() < 1e-9, "the last facts are stored");
    rest.lifecycle(&busy, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&busy, "again").await;
}

#[tokio::test]
async fn a_session_without_a_daemon_finishes_its_turn_and_then_ends() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ORPHAN_GRACE_MS", "2000")
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.prompt(
        &session,
        &fake_prompt(&json!([
            { "text": "begun" },
            { "flood": 400, "rate": 100 },
            { "text": "done" },
        ])),
    )
    .await;
    let mut client = daemon.attach(&session, Some(0)).await;
    client.cli_line("assistant").await;
    let pid = rest.session(&session).await["cli"]["pid"].as_i64().unwrap();
    let pid = i32::try_from(pid).unwrap();

    daemon.kill();
    wait_until("the CLI ended", PATIENCE, || !proc::is_alive(pid)).await;
    wait_until("its keeper ended", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
    let records = journal::records(&daemon, &session);
    assert_eq!(
        journal::cli_lines(&records, "result").len(),
        1,
        "the turn came to its end"
    );
    let notices = journal::own(&records, "notice");
    let notice = notices.iter().find(|notice| notice["code"] == "orphaned");
    let exits = journal::own(&records, "run_exited");
    assert!(notice.is_some(), "the journal says why: {notices:#?} {exits:#?}");
    assert_eq!(exits[0]["intent"], "orphaned", "{exits:#?}");

    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["state"], "stopped", "{view:#}");
    assert_eq!(view["turns"], 1);
    assert!(view["cost_usd"].as_f64().unwrap() > 0.0, "the turn is booked");
    let runs = rest
        .get(&format!("/v1/sessions/{session}/runs"))
        .await
        .expect(200);
    assert_eq!(runs["items"][0]["exit"]["intent"], "orphaned", "{runs:#}");
    rest.lifecycle(&session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&session, "again").await;
}

/// While a daemon is there the grace does not run, however quiet the session is.
#[tokio::test]
async fn a_quiet_session_with_a_daemon_lives_on() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ORPHAN_GRACE_MS", "1000")
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let quiet = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    // More than the grace passes while another session works.
    let paced = fake_prompt(&json!([{ "flood": 250, "rate": 100 }]));
    rest.ask(&session, &paced).await;
    let view = rest.session(&quiet).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    rest.ask(&quiet, "there?").await;
}
