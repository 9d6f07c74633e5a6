//! Owns the tests of what is taken back: a prompt that waits, a request of a client, and one whose caller left.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use trunkline::claude::controls::*;

use crate::{
    host_controls::typed,
    support::wait::{PATIENCE, wait_for},
    world::World,
};

/// A prompt that has not begun is taken back by its id; the one that runs is not.
#[tokio::test]
async fn a_queued_prompt_is_taken_back() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let held = json!([{ "text": "held back", "wait": "gate", "wait_at": 1 }]);
    world.prompt(&id, held).await;
    world.api.at_gate("gate").await;
    let queued = world.prompt(&id, json!([{ "text": "never said" }])).await;
    wait_for("it is queued", PATIENCE, async || {
        let view = world.rest.session(&id).await;
        (view["open_prompts"][1]["state"] == "queued").then_some(())
    })
    .await;
    let request = json!({ "subtype": "cancel_async_message", "message_uuid": queued });
    let taken: CancelMessagePayload = typed(&world, &id, request.clone()).await;
    assert_eq!(taken.cancelled, Some(true));
    assert_eq!(taken.message_uuid, Some(queued));
    let again: CancelMessagePayload = typed(&world, &id, request).await;
    assert_eq!(again.cancelled, Some(false));
    world.api.release("gate").await;
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["open_prompts"], json!([]));
    assert_eq!(
        world.answer(&id, json!([{ "text": "the next" }])).await,
        "the next"
    );
    let said: Vec<_> = world.lines(&id, "result").await;
    assert_eq!(said.len(), 2, "{said:#?}");
}

/// Over a socket a client takes back what it asked, under its own id, and hears what became of it.
#[tokio::test]
async fn a_request_is_taken_back_by_its_client() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut client = world.daemon.attach(&id, None).await;
    let question = crate::support::programs::scripted(&json!([{ "text": "late", "wait": "side" }]));
    let request = json!({ "subtype": "side_question", "question": question });
    client
        .send(&json!({ "type": "control_request", "request_id": "mine", "request": request }))
        .await;
    world.api.at_gate("side").await;
    client
        .send(&json!({ "type": "control_cancel_request", "request_id": "mine" }))
        .await;
    let answer = client
        .find("the end of the request", |frame| {
            frame["type"] == "control_response"
        })
        .await;
    assert_eq!(answer["response"]["request_id"], "mine", "{answer:#}");
    assert_eq!(answer["response"]["subtype"], "error", "{answer:#}");
    world.api.release("side").await;
    assert_eq!(world.answer(&id, json!([{ "text": "fine" }])).await, "fine");
}

/// The CLI works on a request that nobody waits for any more until it is told.
#[tokio::test]
async fn a_caller_that_leaves_has_its_request_taken_back() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let question = crate::support::programs::scripted(&json!([{ "text": "late", "wait": "side" }]));
    let body = json!({ "subtype": "side_question", "question": question });
    let request = world
        .rest
        .builder(Method::POST, &format!("/v1/sessions/{id}/control"))
        .json(&body);
    let asking = TaskTracker::new().spawn(request.timeout(Duration::from_secs(60)).send());
    world.api.at_gate("side").await;
    asking.abort();
    let events = wait_for("the request is taken back", PATIENCE, async || {
        let events = world.rest.events(&id, 0).await;
        let answered = |it: &Value| {
            it["data"]["type"] == "control_response" && it["data"]["response"]["error"].is_string()
        };
        events.iter().any(answered).then_some(events)
    })
    .await;
    let taken_back: Vec<_> = events
        .iter()
        .filter(|record| record["data"]["type"] == "control_cancel_request")
        .collect();
    assert_eq!(taken_back.len(), 1, "{taken_back:#?}");
    assert_eq!(taken_back[0]["by"], "daemon");
    world.api.release("side").await;
    assert_eq!(world.answer(&id, json!([{ "text": "fine" }])).await, "fine");
}
