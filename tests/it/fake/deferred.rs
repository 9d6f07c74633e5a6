//! Owns the tests of calls that hooks put off, in forks, queues, deletes and deaths: each is decided once, by one who is named.

use std::fs;

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, path, records, session_with},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
        ws::Ws,
    },
};

/// A session whose hook belongs to the client `x`, and has put a call off.
struct Bed {
    daemon: TestDaemon,
    rest: Rest,
    id: String,
    client: Ws,
    approval: Value,
}

impl Bed {
    async fn start() -> Self {
        let daemon = TestDaemon::with_fake().start().await;
        let rest = daemon.rest();
        let hook = json!({ "event": "PreToolUse", "target": { "type": "client", "client_id": "x" } });
        let id = session_with(&daemon, "a", json!({}), json!({ "hooks": [hook] })).await;
        let mut client = daemon.attach_as("x", &id, None).await;
        let call = json!({ "id": "use-1", "tool": "Bash", "input": { "command": "rm x" }, "callback": "trunkline/0" });
        act(&rest, &id, json!([{ "call": call }])).await;
        answer_hook(&mut client, "defer").await;
        let approval = rest.pending_approval(&id).await;
        Self {
            daemon,
            rest,
            id,
            client,
            approval,
        }
    }

    fn approval(&self) -> &str {
        self.approval["id"].as_str().unwrap()
    }

    /// The approval as it stands.
    async fn now(&self) -> Value {
        let of_it = path(&self.id, &format!("approvals/{}", self.approval()));
        self.rest.get(&of_it).await.expect(200)
    }

    async fn restart_daemon(&mut self) {
        self.daemon.kill();
        self.daemon.start().await;
        self.rest = self.daemon.rest();
    }
}

/// Reads on to the next question to a hook; its id.
async fn hook_asked(client: &mut Ws) -> Value {
    let is_hook =
        |frame: &Value| frame["src"] == "cli" && frame["data"]["request"]["subtype"] == "hook_callback";
    let asked = client.find("a hook is asked", is_hook).await;
    asked["data"]["request_id"].clone()
}

async fn answer_hook(client: &mut Ws, decision: &str) {
    let id = hook_asked(client).await;
    let output = json!({ "hookEventName": "PreToolUse", "permissionDecision": decision });
    let response =
        json!({ "subtype": "success", "request_id": id, "response": { "hookSpecificOutput": output } });
    let answer = json!({ "type": "control_response", "response": response });
    client.send(&answer).await;
}

async fn in_state_after(rest: &Rest, id: &str, state: &str, turns: u64) {
    wait_for(&format!("{state} after {turns} turns"), PATIENCE, async || {
        let view = rest.session(id).await;
        (view["state"] == state && view["turns"] == turns).then_some(())
    })
    .await;
}

async fn idle_after(rest: &Rest, id: &str, turns: u64) {
    in_state_after(rest, id, "idle", turns).await;
}

#[track_caller]
fn assert_ended(approval: &Value, state: &str, how: &str, by: &str) {
    let end = &approval["resolution"];
    assert_eq!(
        (&approval["state"], &end["how"], &end["by"]),
        (&json!(state), &json!(how), &json!(by)),
        "{approval:#}"
    );
}

/// The tool's results, as the model got them.
async fn results(rest: &Rest, id: &str) -> Vec<Value> {
    let records = records(rest, id).await;
    let lines = records.iter().map(|record| &record["data"]);
    lines
        .filter(|line| line["type"] == "user" && line["message"]["content"][0]["type"] == "tool_result")
        .map(|line| line["message"]["content"][0]["content"].clone())
        .collect()
}

#[tokio::test]
async fn a_fork_has_the_call_too_and_each_decides_its_own() {
    let bed = Bed::start().await;
    let fork = bed.rest.lifecycle(&bed.id, "fork", json!({})).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    let mut client = bed.daemon.attach_as("x", fork, Some(0)).await;
    answer_hook(&mut client, "defer").await;
    let own = bed.rest.pending_approval(fork).await;
    assert_eq!(
        (&own["kind"], &own["tool_name"]),
        (&json!("deferred"), &json!("Bash"))
    );
    assert_ne!(own["id"], bed.approval["id"]);
    assert_eq!(bed.now().await["state"], "pending");

    let deny = json!({ "decision": "deny", "message": "not in the copy" });
    let denied = bed.rest.decide(fork, own["id"].as_str().unwrap(), deny).await;
    assert_eq!(denied.expect(200)["state"], "denied");
    assert_eq!(bed.now().await["state"], "pending");
    idle_after(&bed.rest, fork, 2).await;
    assert_eq!(results(&bed.rest, fork).await, ["not in the copy"]);

    let allowed = bed
        .rest
        .decide(&bed.id, bed.approval(), json!({ "decision": "allow" }))
        .await;
    assert_ended(&allowed.expect(200), "allowed", "person", "rest");
    idle_after(&bed.rest, &bed.id, 2).await;
    assert_eq!(results(&bed.rest, &bed.id).await, [r#"ran {"command":"rm x"}"#]);
}

#[tokio::test]
async fn the_message_of_a_fork_comes_after_the_call() {
    let bed = Bed::start().await;
    let body = json!({ "prompt": "and now?" });
    let fork = bed.rest.lifecycle(&bed.id, "fork", body).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    let mut client = bed.daemon.attach_as("x", fork, Some(0)).await;
    answer_hook(&mut client, "allow").await;
    idle_after(&bed.rest, fork, 2).await;
    assert_eq!(results(&bed.rest, fork).await, [r#"ran {"command":"rm x"}"#]);
    assert_eq!(bed.now().await["state"], "pending");
}

#[tokio::test]
async fn a_call_that_is_put_off_again_is_the_same_approval() {
    let mut bed = Bed::start().await;
    for turns in [2, 3] {
        bed.rest.lifecycle(&bed.id, "stop", json!({})).await.expect(200);
        bed.rest.lifecycle(&bed.id, "resume", json!({})).await.expect(200);
        answer_hook(&mut bed.client, "defer").await;
        in_state_after(&bed.rest, &bed.id, "waiting", turns).await;
        assert_eq!(bed.rest.pending_approval(&bed.id).await["id"], bed.approval["id"]);
    }
    bed.restart_daemon().await;
    assert_eq!(bed.now().await["state"], "pending");
    let allow = json!({ "decision": "allow", "updated_input": { "command": "ls" } });
    let allowed = bed.rest.decide(&bed.id, bed.approval(), allow).await.expect(200);
    assert_ended(&allowed, "allowed", "person", "rest");
    idle_after(&bed.rest, &bed.id, 4).await;
    assert_eq!(results(&bed.rest, &bed.id).await, [r#"ran {"command":"ls"}"#]);
}

#[tokio::test]
async fn the_log_tells_the_hook_of_a_client_from_the_client() {
    let mut bed = Bed::start().await;
    // The one who answers the approval is a person, also where their client has the hook.
    let answer = json!({ "type": "control_response", "response": { "subtype": "success",
        "request_id": bed.approval["request_id"],
        "response": { "behavior": "deny", "message": "no" } } });
    bed.client.send(&answer).await;
    idle_after(&bed.rest, &bed.id, 2).await;
    assert_ended(&bed.now().await, "denied", "person", "ws:x");

    let mut bed = Bed::start().await;
    bed.rest.lifecycle(&bed.id, "stop", json!({})).await.expect(200);
    bed.rest.lifecycle(&bed.id, "resume", json!({})).await.expect(200);
    answer_hook(&mut bed.client, "allow").await;
    idle_after(&bed.rest, &bed.id, 2).await;
    assert_ended(&bed.now().await, "allowed", "hook", "ws:x");
    let log = bed.rest.get(&path(&bed.id, "approvals")).await.expect(200);
    assert_eq!(log["items"].as_array().unwrap().len(), 1, "one entry: {log:#}");
}

#[tokio::test]
async fn a_message_in_the_queue_of_the_cli_withdraws_the_call() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let hook = json!({ "event": "PreToolUse", "target": { "type": "client", "client_id": "x" } });
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": [hook] })).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let call =
        json!({ "id": "use-1", "tool": "Bash", "input": { "command": "rm x" }, "callback": "trunkline/0" });
    act(&rest, &id, json!([{ "call": call }])).await;
    let gate = daemon.home().join("gate");
    // It is sent while the hook is asked, so it waits in the CLI.
    act(&rest, &id, json!([{ "wait_file": gate }])).await;
    answer_hook(&mut client, "defer").await;
    // The call is dropped as soon as the turn of the message begins.
    let ended = wait_for("the call is withdrawn", PATIENCE, async || {
        let log = rest.get(&path(&id, "approvals?kind=deferred")).await.expect(200);
        let entry = log["items"][0].clone();
        (entry["state"] == "withdrawn").then_some(entry)
    })
    .await;
    assert_eq!(ended["resolution"]["by"], "cli", "{ended:#}");
    assert_eq!(rest.session(&id).await["state"], "busy");
    let late = rest
        .decide(&id, ended["id"].as_str().unwrap(), json!({ "decision": "allow" }))
        .await;
    assert_eq!(late.problem(409), "approval_not_pending");
    fs::write(gate, "").unwrap();
    idle_after(&rest, &id, 2).await;
    rest.ask(&id, "and on").await;
    assert_eq!(results(&rest, &id).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_delete_takes_the_call_out_of_the_inbox() {
    let mut bed = Bed::start().await;
    bed.rest.lifecycle(&bed.id, "park", json!({})).await.expect(200);
    bed.rest
        .delete(&format!("/v1/sessions/{}", bed.id))
        .await
        .expect(204);
    for _ in 0..2 {
        let inbox = bed.rest.get("/v1/approvals?state=pending").await.expect(200);
        assert_eq!(inbox["items"], json!([]));
        let decided = bed
            .rest
            .decide(&bed.id, bed.approval(), json!({ "decision": "allow" }))
            .await;
        decided.problem(404);
        bed.restart_daemon().await;
    }
}

#[tokio::test]
async fn a_daemon_that_dies_loses_no_call_and_no_decision_that_it_confirmed() {
    let mut bed = Bed::start().await;
    bed.restart_daemon().await;
    assert_eq!(bed.now().await["state"], "pending");
    let message = json!({ "text": "and now?" });
    let refused = bed.rest.post(&path(&bed.id, "messages"), message).await;
    assert_eq!(refused.problem(409), "call_deferred");

    // The process that is to hear the decision hangs at its start, and the daemon dies: nobody was told that it holds.
    let (begun, gate) = (bed.daemon.home().join("begun"), bed.daemon.home().join("gate"));
    let settings = json!({ "start": [{ "touch": begun }, { "wait_file": gate }] });
    fs::write(
        bed.daemon.work_dir("a").join(".fake-claude.json"),
        settings.to_string(),
    )
    .unwrap();
    let (rest, id, approval) = (bed.rest.clone(), bed.id.clone(), bed.approval().to_owned());
    let of_it = path(&id, &format!("approvals/{approval}"));
    let allow = rest.builder(reqwest::Method::POST, &of_it);
    let mut lost = tokio::task::JoinSet::new();
    lost.spawn(allow.json(&json!({ "decision": "allow" })).send());
    wait_until("the process hangs", PATIENCE, || begun.exists()).await;
    assert_eq!(bed.rest.session(&bed.id).await["state"], "starting");
    bed.restart_daemon().await;
    let lost = lost.join_next().await.unwrap().unwrap();
    assert!(lost.is_err(), "the decision has no answer");
    assert_eq!(bed.now().await["state"], "pending");
    fs::write(gate, "").unwrap();
    bed.rest.in_state(&bed.id, &["waiting", "busy"]).await;
    let deny = json!({ "decision": "deny", "message": "no" });
    let denied = bed.rest.decide(&bed.id, bed.approval(), deny).await.expect(200);
    assert_ended(&denied, "denied", "person", "rest");
    bed.restart_daemon().await;
    idle_after(&bed.rest, &bed.id, 2).await;
    assert_ended(&bed.now().await, "denied", "person", "rest");
    assert_eq!(results(&bed.rest, &bed.id).await, ["no"]);
}
