//! Owns the test of a CLI that is killed in the middle of a turn and comes back.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    support::{
        proc,
        wait::{PATIENCE, wait_for},
    },
    world::{World, pid},
};

#[tokio::test]
async fn a_cli_that_is_killed_in_mid_turn_comes_back_with_its_conversation() {
    let world = World::with(|daemon| {
        daemon
            .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
            .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "50")
    })
    .await;
    let id = world.session(json!({ "model": "sonnet" })).await;
    assert_eq!(world.answer(&id, json!([{ "text": "one" }])).await, "one");
    let before = world.rest.session(&id).await;
    world
        .prompt(&id, json!([{ "text": "half of a long text", "wait": "gate" }]))
        .await;
    world.api.at_gate("gate").await;
    let queued = world.prompt(&id, json!([{ "text": "two" }])).await;
    proc::signal(pid(&before), Signal::SIGKILL);
    let turn = wait_for("the prompt that waited is answered", PATIENCE, async || {
        let turns = world.rest.turns(&id).await;
        turns.into_iter().find(|turn| turn["prompts"] == json!([queued]))
    })
    .await;
    assert_eq!(turn["is_error"], false, "{turn:#}");
    assert_eq!(world.answer(&id, json!([{ "text": "three" }])).await, "three");
    let after = world.rest.session(&id).await;
    assert_ne!(pid(&after), pid(&before));
    assert_eq!(after["cli"]["session_id"], before["cli"]["session_id"]);
    assert_eq!(after["restart"], Value::Null);
    let runs = world.runs(&id).await;
    assert_eq!(runs.len(), 2, "{runs:#?}");
    assert!(runs.iter().any(|run| run["mode"] == "resume"), "{runs:#?}");
    let request = world.last_request().await;
    assert!(
        request["messages"].to_string().contains("one"),
        "the conversation went on"
    );
}
