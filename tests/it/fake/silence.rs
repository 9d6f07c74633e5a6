//! Owns the tests of section L about silence: it is measured, shown and reported, and what has a reason is not.

use std::fs;

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, of_type, pid, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// More than a busy machine needs for a line.
const AFTER_MS: u64 = 2_000;

async fn listening(action: &str) -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_LIVENESS_AFTER_MS", AFTER_MS.to_string())
        .env("TRUNKLINE_LIVENESS_ACTION", action)
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// The daemon's notices of silence, that of its start apart if that is over.
async fn notices(rest: &Rest, id: &str) -> Vec<Value> {
    let records = records(rest, id).await;
    let is_idle = |record: &Value| record["src"] == "daemon" && record["data"]["state"] == "idle";
    let from = records.iter().position(is_idle).unwrap_or(0);
    of_type(&records[from..], "daemon", "notice")
        .into_iter()
        .filter(|notice| notice["code"] == "cli_silent")
        .cloned()
        .collect()
}

/// Waits until the daemon says that the session is silent.
async fn silent(rest: &Rest, id: &str) -> Value {
    wait_for("the silence is reported", PATIENCE, async || {
        let view = rest.session(id).await;
        (view["is_silent"] == true).then_some(view)
    })
    .await
}

#[tokio::test]
async fn a_cli_that_goes_silent_in_mid_turn_is_reported_and_not_touched() {
    let daemon = listening("report").await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let process = pid(&rest, &id).await;
    let gate = daemon.home().join("gate");
    let block = json!({ "type": "tool_result", "tool_use_id": "t1", "content": "done" });
    let line = json!({ "type": "user", "message": { "role": "user", "content": [block] } });
    act(
        &rest,
        &id,
        json!([{ "line": line }, { "wait_file": gate }, { "text": "late" }]),
    )
    .await;
    let view = silent(&rest, &id).await;
    assert_eq!(view["state"], "busy", "{view:#}");
    assert!(view["silent_for_ms"].as_u64().unwrap() >= AFTER_MS, "{view:#}");
    let notices_before = notices(&rest, &id).await;
    assert_eq!(notices_before.len(), 1);
    assert_eq!(notices_before[0]["action"], "report");
    fs::write(&gate, "").unwrap();
    let view = rest.in_state(&id, &["idle"]).await;
    assert_eq!(view["is_silent"], false);
    assert_eq!(pid(&rest, &id).await, process);
    assert_eq!(notices(&rest, &id).await.len(), 1, "one for each silence");
}

#[tokio::test]
async fn a_cli_that_never_says_anything_is_reported() {
    let daemon = listening("restart").await;
    let rest = daemon.rest();
    let made = rest
        .create(body(
            &daemon,
            "a",
            json!({ "init": { "never": true } }),
            json!({}),
        ))
        .await;
    let id = made["id"].as_str().unwrap();
    let view = silent(&rest, id).await;
    assert_eq!(view["state"], "starting");
    assert_eq!(
        notices(&rest, id).await[0]["action"],
        "report",
        "a start has a time limit of its own"
    );
}

#[tokio::test]
async fn a_silent_turn_can_be_interrupted() {
    let daemon = listening("interrupt").await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let process = pid(&rest, &id).await;
    act(&rest, &id, json!([{ "text": "half" }, { "silent": 1 }])).await;
    let view = wait_for("the turn ends", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["turns"] == 1 && view["state"] == "idle").then_some(view)
    })
    .await;
    assert_eq!(view["cli"]["pid"], json!(process));
    assert_eq!(notices(&rest, &id).await[0]["action"], "interrupt");
    act_through(&rest, &id, json!([{ "text": "next" }])).await;
}

#[tokio::test]
async fn a_silent_process_can_be_replaced() {
    let daemon = listening("restart").await;
    let id = session(&daemon, "a", json!({ "merge": false })).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let process = pid(&rest, &id).await;
    act(&rest, &id, json!([{ "text": "half" }, { "silent": 1 }])).await;
    let queued = act(&rest, &id, json!([{ "text": "queued" }])).await;
    let uuid = queued["uuid"].as_str().unwrap();
    let view = wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle" && view["cli"]["pid"] != json!(process)).then_some(view)
    })
    .await;
    assert_eq!(view["is_silent"], false);
    let records = records(&rest, &id).await;
    let states = of_type(&records, "daemon", "state");
    assert!(
        states.iter().all(|state| state["state"] != "failed"),
        "{states:#?}"
    );
    assert!(
        states
            .iter()
            .any(|state| state["restart"]["reason"]["code"] == "cli_silent"),
        "{states:#?}"
    );
    let turns = rest.turns(&id).await;
    assert!(
        turns
            .iter()
            .any(|turn| turn["prompts"] == json!([uuid]) && turn["is_error"] == false),
        "{turns:#?}"
    );
}

#[tokio::test]
async fn who_waits_for_a_tool_a_person_or_nothing_is_not_silent() {
    let daemon = listening("restart").await;
    let rest = daemon.rest();
    let idle = session(&daemon, "idle", json!({})).await;
    let tool = session(&daemon, "tool", json!({})).await;
    let person = session(&daemon, "person", json!({})).await;
    let gate = daemon.home().join("gate");
    let call = json!({ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "make" } });
    let call = json!({ "type": "assistant", "message": { "role": "assistant", "content": [call] } });
    let done = json!({ "type": "tool_result", "tool_use_id": "t1", "content": "done" });
    let done = json!({ "type": "user", "message": { "role": "user", "content": [done] } });
    act(
        &rest,
        &tool,
        json!([{ "line": call }, { "wait_file": gate }, { "line": done }, { "silent": 1 }]),
    )
    .await;
    act(&rest, &person, json!([{ "ask": { "tool": "Bash" } }])).await;
    let approval = rest.pending_approval(&person).await;
    let shown = wait_for("the tool runs", PATIENCE, async || {
        let view = rest.session(&tool).await;
        (view["silent_for_ms"].is_null() && view["state"] == "busy").then_some(view)
    })
    .await;
    assert_eq!(shown["is_silent"], false);

    // Two that begin to be silent later are found out, one after the other; these are not.
    for name in ["first", "second"] {
        let control = session(&daemon, name, json!({})).await;
        act(&rest, &control, json!([{ "text": "half" }, { "silent": 1 }])).await;
        wait_for("the silent one is found out", PATIENCE, async || {
            (!notices(&rest, &control).await.is_empty()).then_some(())
        })
        .await;
    }
    for id in [&idle, &tool, &person] {
        assert!(notices(&rest, id).await.is_empty());
    }
    let view = rest.session(&idle).await;
    assert!(
        view["silent_for_ms"].as_u64().unwrap() >= 2 * AFTER_MS,
        "shown in every state: {view:#}"
    );
    assert_eq!(rest.session(&person).await["silent_for_ms"], Value::Null);

    // Once the tool has ended the CLI has the word again.
    fs::write(&gate, "").unwrap();
    wait_for("its silence is found out", PATIENCE, async || {
        (!notices(&rest, &tool).await.is_empty()).then_some(())
    })
    .await;
    let approval = approval["id"].as_str().unwrap();
    let decided = rest
        .decide(&person, approval, json!({ "decision": "allow" }))
        .await;
    assert!(decided.status.is_success(), "{:#}", decided.body);
    rest.in_state(&person, &["idle"]).await;
    assert!(notices(&rest, &person).await.is_empty());
}

/// Nobody can hear it any more, so it is no use to wait for it.
#[tokio::test]
async fn a_cli_that_closes_its_stdout_and_lives_is_stopped_and_the_reason_says_so() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "200")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "200")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let deaf = json!([{ "text": "half" }, { "close_stdout": 1 }, { "silent": 1 }]);

    let id = session(&daemon, "a", json!({})).await;
    let process = pid(&rest, &id).await;
    act(&rest, &id, deaf.clone()).await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "stdout_closed", "{view:#}");
    assert_eq!(view["ways_out"][0], "resume", "{view:#}");
    assert!(!proc::is_alive(process));
    let records = records(&rest, &id).await;
    let notices = of_type(&records, "daemon", "notice");
    assert_eq!(notices[0]["code"], "stdout_closed", "{notices:#?}");
    let steps = &of_type(&records, "daemon", "run_exited")[0]["stop_steps"];
    assert_eq!(steps[0]["step"], "close_stdin", "{steps:#}");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    act_through(&rest, &id, json!([{ "text": "again" }])).await;

    // Where a death is mended by a restart, so is this one.
    let mut again = body(&daemon, "b", json!({}), json!({}));
    again["restart"] = json!({ "max_restarts": 2 });
    let id = rest.create_ready(again).await;
    let process = pid(&rest, &id).await;
    act(&rest, &id, deaf).await;
    let view = wait_for("another process is idle", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle" && view["cli"]["pid"] != json!(process)).then_some(view)
    })
    .await;
    assert_eq!(view["turns"], 1, "the one that was cut short");
}
