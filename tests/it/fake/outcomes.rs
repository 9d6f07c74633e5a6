//! Owns how a turn ends that is neither answered nor failed: interrupted, blocked, cut short.

use serde_json::{Value, json};

use crate::{
    fake::{
        bed::{act, act_through, path, session},
        metrics::Scrape,
    },
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

async fn eager() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// The turn of this number, once it has ended.
async fn turn(rest: &Rest, id: &str, number: usize) -> Value {
    wait_for("the turn has ended", PATIENCE, async || {
        let turns = rest.turns(id).await;
        turns.get(number - 1).cloned()
    })
    .await
}

async fn interrupted(rest: &Rest, id: &str, actions: Value) -> Value {
    let number = rest.turns(id).await.len() + 1;
    act(rest, id, actions).await;
    wait_for("the turn runs", PATIENCE, async || {
        let view = rest.session(id).await;
        view["turn"].is_object().then_some(())
    })
    .await;
    rest.lifecycle(id, "interrupt", json!({})).await.expect(200);
    turn(rest, id, number).await
}

#[tokio::test]
async fn an_interrupted_turn_is_no_error() {
    let mut daemon = eager().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let ended = interrupted(&rest, &id, json!([{ "text": "half" }, { "silent": 1 }])).await;
    assert_eq!(
        (&ended["outcome"], &ended["is_error"]),
        (&json!("interrupted"), &json!(false))
    );
    assert_eq!(
        ended["subtype"], "error_during_execution",
        "the CLI's word stays: {ended:#}"
    );
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_turns_total{outcome="interrupted"}"#, 1.0);
    scrape.expect(r#"trunkline_turns_total{outcome="error_during_execution"}"#, 0.0);
    // An error that comes by itself is one, and so is the end of the process.
    let failed = json!([{ "result": { "subtype": "error_during_execution", "is_error": true, "terminal_reason": "model_error" } }]);
    act(&rest, &id, failed).await;
    let ended = turn(&rest, &id, 2).await;
    assert_eq!(
        (&ended["outcome"], &ended["is_error"]),
        (&json!("error_during_execution"), &json!(true))
    );
    act(&rest, &id, json!([{ "text": "half" }, { "exit": 3 }])).await;
    let ended = turn(&rest, &id, 3).await;
    assert_eq!(
        (&ended["outcome"], &ended["is_error"]),
        (&json!("cut_short"), &json!(true))
    );
    daemon.kill();
    daemon.start().await;
    let turns = daemon.rest().turns(&id).await;
    let outcomes: Vec<_> = turns.iter().map(|turn| turn["outcome"].clone()).collect();
    assert_eq!(outcomes, ["interrupted", "error_during_execution", "cut_short"]);
}

/// Some versions of the CLI end with the turn that was interrupted, and with code 1 as it was an error.
#[tokio::test]
async fn an_end_behind_an_interrupt_is_no_crash() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    let by_itself = json!([
        { "text": "half" },
        { "result": {
            "subtype": "error_during_execution", "is_error": true, "result": null,
            "terminal_reason": "aborted_streaming", "errors": ["x"],
        } },
        { "exit": 1 },
    ]);
    act(&rest, &id, by_itself).await;
    let view = rest.in_state(&id, &["stopped", "failed"]).await;
    assert_eq!(
        (&view["state"], &view["reason"]),
        (&json!("stopped"), &Value::Null),
        "{view:#}"
    );
    let runs = rest.get(&path(&id, "runs")).await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "{runs:#}");
}

#[tokio::test]
async fn a_blocked_prompt_says_that_nothing_was_answered() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    // The real CLI says it on a line of its own; others may say it on the result.
    let why = json!({ "kind": "blocked_by_hook", "reason": "no" });
    let informational = json!({ "line": {
        "type": "system", "subtype": "informational", "content": "no", "prompt_submit_outcome": why,
        "session_id": "$SESSION_ID", "uuid": "$UUID",
    } });
    let empty = json!({ "num_turns": 0, "result": "" });
    let named = json!({ "num_turns": 0, "result": "", "prompt_submit_outcome": why });
    for blocked in [
        json!([informational, { "result": empty, "cost": 0 }]),
        json!([{ "result": named, "cost": 0 }]),
    ] {
        let answer = act_through(&rest, &id, blocked).await;
        assert_eq!(answer["turn"]["outcome"], "blocked", "{answer:#}");
    }
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_turns_total{outcome="blocked"}"#, 2.0);
    scrape.expect(r#"trunkline_turns_total{outcome="success"}"#, 0.0);
}
