//! Owns the tests of settings that change while the CLI runs.

use serde_json::{Value, json};

use crate::{
    support::proc,
    world::{World, pid, text},
};

async fn put(world: &World, id: &str, what: &str, body: Value) -> crate::support::rest::Reply {
    world.rest.put(&format!("/v1/sessions/{id}/{what}"), body).await
}

#[tokio::test]
async fn the_model_changes_between_turns_and_stays_over_a_resume() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let before = text(&world.last_request().await, "model");
    put(&world, &id, "model", json!({ "model": "haiku" }))
        .await
        .expect(200);
    world.answer(&id, json!([{ "text": "two" }])).await;
    let after = text(&world.last_request().await, "model");
    assert!(
        after.contains("haiku") && !before.contains("haiku"),
        "{before}, {after}"
    );
    let view = world.rest.session(&id).await;
    assert!(text(&view, "model").contains("haiku"), "{view:#}");
    let turns = world.rest.turns(&id).await;
    assert_eq!(turns[0]["models"].as_array().unwrap().len(), 1);
    assert_eq!(turns[1]["models"].as_array().unwrap().len(), 1);
    assert!(text(&turns[1]["models"][0], "model").contains("haiku"));

    world.stop(&id).await;
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "three" }])).await;
    assert_eq!(text(&world.last_request().await, "model"), after);
}

#[tokio::test]
async fn the_permission_mode_changes_unless_it_is_refused() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    put(&world, &id, "permission_mode", json!({ "mode": "acceptEdits" }))
        .await
        .expect(200);
    assert_eq!(world.rest.session(&id).await["permission_mode"], "acceptEdits");
    let refused = put(
        &world,
        &id,
        "permission_mode",
        json!({ "mode": "bypassPermissions" }),
    )
    .await;
    assert_eq!(refused.problem(409), "control_refused");
    assert_eq!(world.rest.session(&id).await["permission_mode"], "acceptEdits");
    // It holds: a file is written without a question.
    let file = world.dir().join("written.txt");
    let write = json!({ "tool": "Write", "input": { "file_path": file, "content": "text" } });
    let answer = world.answer(&id, json!([write, { "text": "written" }])).await;
    assert_eq!(answer, "written");
    assert!(world.exists("written.txt"));
    let view = world.rest.session(&id).await;
    assert_eq!(view["permission_mode"], "acceptEdits");
    assert_eq!(pid(&view), process);
    world.stop(&id).await;
    assert_eq!(world.resume(&id).await["permission_mode"], "acceptEdits");
}

#[tokio::test]
async fn a_mode_that_is_set_before_the_first_turn_stays_over_a_resume() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    put(&world, &id, "permission_mode", json!({ "mode": "plan" }))
        .await
        .expect(200);
    world.stop(&id).await;
    assert_eq!(world.resume(&id).await["permission_mode"], "plan");
}

#[tokio::test]
async fn the_thinking_that_was_set_stays_over_a_resume() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let set = json!({ "max_thinking_tokens": 5000 });
    put(&world, &id, "thinking", set).await.expect(200);
    world.answer(&id, json!([{ "text": "one" }])).await;
    world.stop(&id).await;
    let view = world.resume(&id).await;
    let command = proc::read(pid(&view)).unwrap().command;
    assert!(command.contains("--max-thinking-tokens=5000"), "{command}");
}
