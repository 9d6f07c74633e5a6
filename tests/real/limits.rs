//! Owns the tests of limits and of errors of the model API.

use serde_json::json;

use crate::{
    support::wait::{PATIENCE, wait_for},
    world::{World, bash, nanos, pid, said},
};

#[tokio::test]
async fn a_turn_ends_at_the_limit_of_its_model_calls() {
    let world = World::start().await;
    let id = world
        .session(json!({ "max_turns": 2, "allowed_tools": ["Bash"] }))
        .await;
    let steps = json!([bash("true"), bash("true"), bash("true"), { "text": "too late" }]);
    let reply = world.ask(&id, steps).await;
    assert_eq!(reply["turn"]["subtype"], "error_max_turns");
    assert_eq!(reply["turn"]["is_error"], true);
    assert_eq!(reply["turn"]["terminal_reason"], "max_turns");
    assert_eq!(world.answer(&id, json!([{ "text": "next" }])).await, "next");
    world.idle_after(&id, 2).await;
}

#[tokio::test]
async fn a_session_ends_its_turns_at_its_budget() {
    let world = World::start().await;
    let id = world
        .session(json!({ "max_budget_usd": 0.001, "allowed_tools": ["Bash"] }))
        .await;
    let steps = json!([bash("true"), bash("true"), { "text": "too late" }]);
    let reply = world.ask(&id, steps).await;
    assert_eq!(reply["turn"]["subtype"], "error_max_budget_usd");
    let spent = nanos(&reply["turn"]["cost_usd"]);
    assert!(spent >= 1_000_000, "{spent}");
    let reply = world.ask(&id, json!([{ "text": "nothing left" }])).await;
    assert_eq!(reply["turn"]["subtype"], "error_max_budget_usd");
    assert_eq!(nanos(&reply["turn"]["cost_usd"]), 0);
    let view = world.idle_after(&id, 2).await;
    assert_eq!(nanos(&view["cost_usd"]), spent);
}

#[tokio::test]
async fn errors_of_the_api_are_retried_and_reported() {
    let world = World::with(|daemon| daemon.env("CLAUDE_CODE_MAX_RETRIES", "1")).await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    let mut turns = 0;
    let mut retries = 0;
    for status in [401, 429, 529] {
        let mut ws = world.daemon.attach(&id, None).await;
        let asked = world.ask(&id, json!([{ "status": status, "times": -1, "text": "never" }]));
        let shown = wait_for("the retry is shown", PATIENCE, async || {
            let activity = world.rest.session(&id).await["activity"].clone();
            (activity["kind"] == "retrying").then_some(activity)
        });
        let (reply, activity) = tokio::join!(asked, shown);
        assert_eq!(activity["retry"]["error_status"], status, "{activity:#}");
        assert_eq!(reply["turn"]["is_error"], true, "{reply:#}");
        assert_eq!(reply["turn"]["terminal_reason"], "api_error");
        assert_eq!(reply["result"]["api_error_status"], status);
        assert_eq!(nanos(&reply["turn"]["cost_usd"]), 0);
        let frames = ws
            .until("the result", |frame| frame["data"]["type"] == "result")
            .await;
        let seen = frames
            .iter()
            .filter(|frame| frame["data"]["subtype"] == "api_retry")
            .inspect(|frame| assert_eq!(frame["data"]["error_status"], status))
            .count();
        assert_eq!(seen, 1, "a client sees the retry");
        let once = json!([{ "status": status, "times": 1, "text": "recovered" }]);
        assert_eq!(world.answer(&id, once).await, "recovered");
        turns += 2;
        retries += 2;
        let view = world.idle_after(&id, turns).await;
        assert_eq!(pid(&view), process);
    }
    let lines = world.lines(&id, "system").await;
    let retried = lines.iter().filter(|line| line["subtype"] == "api_retry").count();
    assert_eq!(retried, retries);
}

#[tokio::test]
async fn a_stream_that_breaks_is_tried_again_and_heard_once() {
    let world = World::with(|daemon| daemon.env("CLAUDE_CODE_MAX_RETRIES", "2")).await;
    let id = world.session(json!({ "include_partial_messages": true })).await;
    let whole = "one two three four five six seven";
    let step = json!({ "text": whole, "chunk_size": 4, "drop": 5 });
    assert_eq!(world.answer(&id, json!([step])).await, whole);
    let view = world.idle_after(&id, 1).await;
    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!(said(&messages[1]), whole);
    assert_eq!(world.api.message_requests().await, 2);
    assert!(nanos(&view["cost_usd"]) > 0);
}

#[tokio::test]
async fn a_budget_holds_over_the_processes_of_a_session() {
    let world = World::start().await;
    let steps = || json!([{ "text": "hello" }]);
    let free = world.session(json!({})).await;
    let reply = world.ask(&free, steps()).await;
    let price = nanos(&reply["turn"]["cost_usd"]);
    assert!(price > 0, "{reply:#}");
    #[expect(clippy::cast_precision_loss, reason = "some millionths of a dollar")]
    let limit = price as f64 * 1.5 / 1e9;
    let id = world.session(json!({ "max_budget_usd": limit })).await;
    let reply = world.ask(&id, steps()).await;
    assert_eq!(reply["turn"]["subtype"], "success", "{reply:#}");
    world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    // The second process has half a turn's price left.
    let reply = world
        .ask(&id, json!([bash("true"), { "text": "too late" }]))
        .await;
    assert_eq!(reply["turn"]["subtype"], "error_max_budget_usd", "{reply:#}");
    world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    let path = format!("/v1/sessions/{id}/messages");
    let refused = world.rest.post(&path, json!({ "text": "more" })).await;
    assert_eq!(refused.problem(409), "budget_spent");
    let refused = world.rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(refused.problem(409), "budget_spent");
}
