//! Owns what clients see while the store takes nothing: what was done is said to be done, and what is only read is read.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    fake::bed::{act, path, session},
    support::{
        daemon::TestDaemon,
        rest::{Reply, Rest},
        store_lock::StoreLock,
        wait::{PATIENCE, wait_for},
    },
};

/// The answer's word that the store is behind, in milliseconds.
async fn lag(rest: &Rest, path: &str) -> Option<u64> {
    let response = rest.builder(Method::GET, path).send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    let header = response.headers().get("trunkline-store-lag-ms")?;
    Some(header.to_str().unwrap().parse().unwrap())
}

fn items(page: &Value) -> usize {
    page["items"].as_array().unwrap().len()
}

/// A session that waits for a person, and the approval, which the store knows.
async fn waiting(daemon: &TestDaemon, rest: &Rest) -> (String, String) {
    let id = session(daemon, "waits", json!({})).await;
    act(rest, &id, json!([{ "ask": { "tool": "Bash" } }])).await;
    let asked = rest.pending_approval(&id).await;
    (id, asked["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_store_hides_nothing_that_was_done() {
    let daemon = TestDaemon::with_fake().allow_errors().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    assert_eq!(lag(&rest, "/v1/sessions").await, None);
    let (known, open) = waiting(&daemon, &rest).await;
    let lock = StoreLock::take(&daemon.database());
    // The result comes from the journal.
    let answer = rest.ask(&id, "hello").await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    wait_for("the answers say that the store is behind", PATIENCE, async || {
        lag(&rest, "/v1/sessions").await
    })
    .await;

    // A question is shown and answered, on each route that has it.
    act(
        &rest,
        &id,
        json!([{ "ask": { "tool": "Bash", "input": { "command": "ls" } } }]),
    )
    .await;
    rest.in_state(&id, &["waiting"]).await;
    let asked = rest.pending_approval(&id).await;
    let approval = asked["id"].as_str().unwrap();
    let of_session = rest.get(&path(&id, "approvals?state=pending")).await.expect(200);
    assert_eq!(items(&of_session), 1, "{of_session:#}");
    let shown = rest
        .get(&path(&id, &format!("approvals/{approval}")))
        .await
        .expect(200);
    assert_eq!(shown["state"], "pending", "{shown:#}");
    let decided = rest
        .decide(&id, approval, json!({ "decision": "allow" }))
        .await
        .expect(200);
    assert_eq!(decided["state"], "allowed", "{decided:#}");
    let left = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(items(&left), 1, "{left:#}");

    // Nobody is told that one which the store knows as pending still is.
    let decided = rest.decide(&known, &open, json!({ "decision": "allow" })).await;
    assert_eq!(decided.expect(200)["state"], "allowed");
    for (id, approval) in [(&id, approval), (&known, open.as_str())] {
        let shown = rest.get(&path(id, &format!("approvals/{approval}"))).await;
        assert_eq!(shown.problem(503), "storage_unavailable");
        let late = rest.decide(id, approval, json!({ "decision": "deny" })).await;
        assert_eq!(late.problem(409), "already_decided");
    }

    // Reads, attaches and the stop need no write.
    for route in ["turns", "runs", "messages", "events", "approvals"] {
        rest.get(&path(&id, route)).await.expect(200);
    }
    rest.get("/v1/usage").await.expect(200);
    let snapshot = daemon.attach(&id, None).await.next().await;
    assert_eq!(snapshot["type"], "trunkline.snapshot", "{snapshot:#}");
    let stopped = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(stopped["state"], "stopped", "{stopped:#}");

    // A session cannot be made, and nothing of it stays.
    let body = json!({ "cwd": daemon.work_dir("b") });
    let refused = rest.post("/v1/sessions", body).await;
    assert_eq!(refused.body["side_effect_possible"], false, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "storage_unavailable");

    // A change that has to be written is refused, and says that it may have happened.
    let refused = rest
        .patch(&format!("/v1/sessions/{id}"), json!({ "title": "new" }))
        .await;
    assert_eq!(refused.body["side_effect_possible"], true, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "storage_unavailable");

    drop(lock);
    wait_for("the store to catch up", PATIENCE, async || {
        let behind = lag(&rest, "/v1/sessions").await;
        behind.is_none().then_some(())
    })
    .await;
    assert_eq!(rest.turns(&id).await.len(), 2);
    let kept = rest.get(&path(&id, "approvals")).await.expect(200);
    assert_eq!(kept["items"][0]["state"], "allowed", "{kept:#}");
}

/// The message is taken, and its turn does not end in time.
#[tokio::test]
async fn a_wait_that_ends_early_names_the_message() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({ "prompt": [{ "silent": 1 }] })).await;
    let send = path(&id, "messages?wait=result&timeout_ms=300");
    let reply = daemon.rest().post(&send, json!({ "text": "hello" })).await;
    let body = reply.body.clone();
    assert_eq!(reply.problem(504), "wait_timeout");
    assert_eq!(body["side_effect_possible"], true, "{body:#}");
    assert!(body["uuid"].is_string() && body["seq"].is_u64(), "{body:#}");
}

/// A request that the CLI has and does not answer.
async fn unanswered(daemon: &TestDaemon, rest: &Rest) -> (String, JoinSet<Reply>) {
    let controls = json!({ "controls": { "mcp_call": { "swallow": true } } });
    let id = session(daemon, "a", controls).await;
    let mut asking = JoinSet::new();
    let (asker, control) = (rest.clone(), path(&id, "control"));
    asking.spawn(async move {
        let request = json!({ "subtype": "mcp_call", "tool": "mcp__a__b", "input": {} });
        asker.post(&control, request).await
    });
    wait_for("the CLI has it", PATIENCE, async || {
        let records = rest.events(&id, 0).await;
        let is_it = |record: &Value| record["data"]["request"]["subtype"] == "mcp_call";
        records.iter().any(is_it).then_some(())
    })
    .await;
    (id, asking)
}

fn is_named_and_doubtful(reply: &Reply) {
    assert_eq!(reply.body["side_effect_possible"], true, "{:#}", reply.body);
    assert!(reply.body["request_id"].is_string(), "{:#}", reply.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_death_cuts_off_may_have_had_an_effect() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, mut asking) = unanswered(&daemon, &rest).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let cut = asking.join_next().await.unwrap().unwrap();
    is_named_and_doubtful(&cut);
    assert_eq!(cut.problem(409), "session_not_live");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_a_restart_cuts_off_may_have_had_an_effect() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (_, mut asking) = unanswered(&daemon, &rest).await;
    rest.post("/v1/daemon/restart", json!({})).await.expect(202);
    let cut = asking.join_next().await.unwrap().unwrap();
    is_named_and_doubtful(&cut);
    assert_eq!(cut.problem(503), "shutting_down");
}
