//! Owns the daemon's death under the real CLI: in a streamed turn, and while a tool waits for permission.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    restart::{
        follower::{Beacon, Follower},
        journal,
    },
    support::{
        daemon::TestDaemon,
        model_api::ModelApi,
        programs::scripted,
        rest::Rest,
        wait::{PATIENCE, wait_until},
    },
};

const UUID: &str = "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00001";

async fn pid_of(rest: &Rest, session: &str) -> i64 {
    rest.session(session).await["cli"]["pid"].as_i64().unwrap()
}

async fn prompts_asked(api: &ModelApi, marker: &str) -> usize {
    let requests = api.requests().await;
    requests
        .iter()
        .filter(|request| {
            request["path"] == "/v1/messages" && request["messages"].to_string().contains(marker)
        })
        .count()
}

/// The turn of a session with one: its cost is that of the CLI's result, and the session's.
async fn check_one_turn(rest: &Rest, session: &str, records: &[Value]) {
    let results = journal::cli_lines(records, "result");
    assert_eq!(results.len(), 1, "the turn ran once");
    let turns = rest.turns(session).await;
    assert_eq!(turns.len(), 1, "{turns:#?}");
    let cost = turns[0]["cost_usd"].as_f64().unwrap();
    let said = results[0]["total_cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0 && (cost - said).abs() < 1e-9, "{cost} is not {said}");
    let view = rest.session(session).await;
    assert!(
        (view["cost_usd"].as_f64().unwrap() - said).abs() < 1e-9,
        "{view:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streamed_turn_survives_the_daemon() {
    let api = ModelApi::start();
    let mut daemon = TestDaemon::with_real(&api).start().await;
    let rest = daemon.rest();
    let session = rest
        .create_ready(json!({
            "cwd": daemon.work_dir("a"),
            "options": { "include_partial_messages": true },
        }))
        .await;
    let pid = pid_of(&rest, &session).await;
    let beacon = Beacon::new(&daemon);
    let mut followers = [None, Some(7)].map(|restless| Follower::start(&beacon, &session, restless));

    let script = scripted(&json!([
        { "text": "All of this arrives. ", "repeat": 60, "chunk_size": 10, "wait": "half", "wait_at": 40, "chunk_ms": 10 },
    ]));
    let path = format!("/v1/sessions/{session}/messages");
    let body = json!({ "text": format!("survivor {script}"), "uuid": UUID });
    let first = rest.post(&path, body.clone()).await.expect(202);
    // More than what comes before the first piece, and less than there is before the gate.
    let prompted = first["seq"].as_u64().unwrap();
    wait_until("the answer is streamed", PATIENCE, || {
        followers[0].seq() >= prompted + 25
    })
    .await;
    daemon.kill();
    daemon.start().await;
    beacon.moved(&daemon);

    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["cli"]["pid"].as_i64(), Some(pid), "{view:#}");
    assert_eq!(view["state"], "busy");
    // The client is not sure that its prompt was taken.
    let again = rest.post(&path, body.clone()).await.expect(202);
    assert_eq!(again["repeated"], true);
    assert_eq!(again["seq"], first["seq"]);

    // A second death while the stream stands still, a third while it runs again.
    api.at_gate("half").await;
    daemon.kill();
    daemon.start().await;
    beacon.moved(&daemon);
    api.release("half").await;
    followers[1].more(15, Duration::from_secs(20)).await;
    daemon.kill();
    daemon.start().await;
    beacon.moved(&daemon);

    let rest = daemon.rest();
    let view = rest.in_state(&session, &["idle"]).await;
    assert_eq!(view["cli"]["pid"].as_i64(), Some(pid), "{view:#}");
    let again = rest.post(&path, body).await.expect(202);
    assert_eq!(again["repeated"], true, "also after its turn");
    let mut bytes = Vec::new();
    for follower in &mut followers {
        bytes = follower.has_all_of(&daemon, &session).await;
    }
    let records = journal::parse(&bytes);
    check_one_turn(&rest, &session, &records).await;
    assert_eq!(prompts_asked(&api, "survivor").await, 1, "the prompt ran once");
    let text: String = journal::cli_lines(&records, "stream_event")
        .iter()
        .filter_map(|line| line["event"]["delta"]["text"].as_str())
        .collect();
    assert_eq!(text, "All of this arrives. ".repeat(60));
    let next = rest.ask(&session, "and on it goes").await;
    assert_eq!(next["turn"]["number"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_approval_survives_the_daemon() {
    let api = ModelApi::start();
    let mut daemon = TestDaemon::with_real(&api).start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let session = rest.create_ready(json!({ "cwd": cwd })).await;
    let pid = pid_of(&rest, &session).await;
    let script = scripted(&json!([
        { "text": "Running.", "tool": "Bash", "input": { "command": "echo once >> made.txt" } },
        { "text": "It ran." },
    ]));
    rest.prompt(&session, &script).await;
    let before = rest.pending_approval(&session).await;
    let beacon = Beacon::new(&daemon);
    let mut follower = Follower::start(&beacon, &session, None);

    daemon.kill();
    assert!(!cwd.join("made.txt").exists(), "nobody allowed it");
    daemon.start().await;
    beacon.moved(&daemon);
    let rest = daemon.rest();
    let view = rest.session(&session).await;
    assert_eq!(view["state"], "waiting", "{view:#}");
    assert_eq!(view["cli"]["pid"].as_i64(), Some(pid));
    let after = rest.pending_approval(&session).await;
    assert_eq!(after, before);
    let mut client = daemon.attach(&session, None).await;
    let snapshot = client.next().await;
    assert_eq!(
        snapshot["pending_approvals"][0]["id"], before["id"],
        "{snapshot:#}"
    );

    let id = before["id"].as_str().unwrap();
    let decided = rest
        .decide(&session, id, json!({ "decision": "allow" }))
        .await
        .expect(200);
    assert_eq!(decided["state"], "allowed", "{decided:#}");
    rest.in_state(&session, &["idle"]).await;
    assert_eq!(fs::read_to_string(cwd.join("made.txt")).unwrap(), "once\n");
    let records = journal::parse(&follower.has_all_of(&daemon, &session).await);
    check_one_turn(&rest, &session, &records).await;

    // The decision is known to the next daemon too.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let path = format!("/v1/sessions/{session}/approvals/{id}");
    assert_eq!(rest.get(&path).await.expect(200)["state"], "allowed");
    let late = rest.decide(&session, id, json!({ "decision": "deny" })).await;
    assert_eq!(late.problem(409), "already_decided");
}
