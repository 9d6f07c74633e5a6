//! Owns the tests of what comes in the moment of a park: the end of the daemon, and a message.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use trunkline::domain::Timestamp;

use crate::{
    fake::bed::{path, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        wait::{PATIENCE, wait_until},
    },
};

/// A sender that comes meanwhile is told when to come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_ends_in_the_middle_of_a_park_leaves_a_parked_session() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let settings = json!({ "starts": [{ "eof": { "seen": eof, "delay_ms": 1500 } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    let mut requests = tokio::task::JoinSet::new();
    for (route, body) in [("park", json!({})), ("messages", json!({ "text": "too late" }))] {
        let request = rest.builder(reqwest::Method::POST, &path(&id, route));
        let rest = rest.clone();
        requests.spawn(async move { (route, rest.send(request.json(&body)).await) });
        wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
    }
    // It came before this, or it is refused as new work: either way it is told the same.
    assert_eq!(rest.session(&id).await["state"], "stopping");
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(proc::with_env("TRUNKLINE_SESSION", &id).len(), 0);
    while let Some(answered) = requests.join_next().await {
        match answered.unwrap() {
            // Whether it is done in time to be told of it is a matter of the moment.
            ("park", reply) if reply.status == 200 => assert_eq!(reply.body["state"], "parked"),
            (_, reply) => assert_eq!(reply.problem(503), "shutting_down"),
        }
    }
    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&id).await;
    assert_eq!(view["state"], "parked", "{view:#}");
    assert_eq!(view["parked"]["reason"], "asked");
    rest.ask(&id, "are you there?").await;
    assert_eq!(rest.session(&id).await["turns"], 2);
}

/// The second signal hastens it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_must_not_wait_hastens_a_park_and_leaves_it_one() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300000")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300000")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "900000")
        .start()
        .await;
    let rest = daemon.rest();
    let eof = daemon.home().join("eof");
    let settings =
        json!({ "starts": [{ "eof": { "seen": eof, "ignore": true }, "term": { "ignore": true } }, {}] });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "hello").await;
    let mut parking = tokio::task::JoinSet::new();
    let request = rest.builder(reqwest::Method::POST, &path(&id, "park"));
    parking.spawn(request.json(&json!({})).send());
    wait_until("the CLI is told to end", PATIENCE, || eof.exists()).await;
    daemon.signal(Signal::SIGTERM);
    wait_until("the daemon begins to end", PATIENCE, || {
        daemon.log().contains("shutting down")
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    assert_eq!(proc::with_env("TRUNKLINE_SESSION", &id).len(), 0);
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.session(&id).await["state"], "parked");
    rest.ask(&id, "are you there?").await;
}

/// The wake is asked for once, and comes to pass: nobody waits until it is asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_the_moment_of_a_park_wakes_the_session_at_once() {
    const ROUNDS: usize = 12;
    /// It is asked for again after 5 s.
    const AT_ONCE_MS: u64 = 4_000;
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "eof": { "delay_ms": 100 } })).await;
    rest.ask(&id, "hello").await;
    for round in 0..ROUNDS {
        let messages = path(&id, "messages?wait=result");
        let parking = rest.lifecycle(&id, "park", json!({}));
        let talking = async {
            rest.in_state(&id, &["stopping"]).await;
            rest.post(&messages, json!({ "text": format!("{round}") })).await
        };
        let (parked, sent) = tokio::join!(parking, talking);
        parked.expect(200);
        sent.expect(200);
    }
    let all = records(&rest, &id).await;
    let at = |record: &Value| -> Timestamp { record["ts"].as_str().unwrap().parse().unwrap() };
    let mut woken = 0;
    let mut parked_at = None;
    for record in &all {
        match record["data"]["type"].as_str() {
            Some("state") if record["data"]["state"] == "parked" => parked_at = Some(at(record)),
            Some("run_started") => {
                if let Some(parked_at) = parked_at.take() {
                    let after_ms = at(record).millis_since(parked_at);
                    assert!(after_ms < AT_ONCE_MS, "woken {after_ms} ms after the park");
                    woken += 1;
                }
            }
            _ => {}
        }
    }
    assert_eq!(woken, ROUNDS);
}
