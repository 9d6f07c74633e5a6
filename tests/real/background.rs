//! Owns the tests of work that goes on after its turn, and begins the next one by itself.

use serde_json::{Value, json};

use crate::{
    support::{
        programs::scripted64,
        wait::{PATIENCE, wait_until},
    },
    world::{World, bash, endless, marked, marker, nanos, text},
};

#[tokio::test]
async fn a_background_command_begins_a_turn_by_itself() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let input = json!({ "command": "until test -e go; do sleep 0.1; done", "run_in_background": true });
    let steps = json!([
        { "tool": "Bash", "input": input },
        { "text": "under way" },
        { "text": "it is done", "wait": "own", "wait_at": 1 },
    ]);
    assert_eq!(world.answer(&id, steps).await, "under way");
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["background_tasks"], 1);
    world.write("go", "");
    world.api.at_gate("own").await;
    // The model is asked a moment before the CLI says that it works.
    let view = world.rest.in_state(&id, &["busy"]).await;
    assert_eq!(view["turn"]["number"], 2);
    assert_eq!(view["open_prompts"], json!([]));
    world.api.release("own").await;
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["background_tasks"], 0);
    let turns = world.rest.turns(&id).await;
    assert_eq!(turns[0]["origin"], Value::Null);
    assert_eq!(turns[1]["origin"], "task-notification");
    assert_eq!(turns[1]["prompts"], json!([]));
    assert!(nanos(&turns[1]["cost_usd"]) > 0);
    let spent: i64 = turns.iter().map(|turn| nanos(&turn["cost_usd"])).sum();
    assert_eq!(nanos(&view["cost_usd"]), spent);
    let result = world.lines(&id, "result").await.remove(1);
    assert_eq!(result["result"], "it is done");
}

#[tokio::test]
async fn a_background_agent_asks_after_the_turn() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let mut ask = bash("touch sub.txt");
    ask["wait"] = json!("agent");
    let inner = scripted64(&json!([ask, { "text": "sub final" }]));
    let input = json!({
        "description": "do it", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": true,
    });
    let steps =
        json!([{ "tool": "Agent", "input": input }, { "text": "under way" }, { "text": "heard of it" }]);
    assert_eq!(world.answer(&id, steps).await, "under way");
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["background_tasks"], 1);
    world.api.release("agent").await;
    let approval = world.rest.pending_approval(&id).await;
    assert!(!text(&approval["request"], "agent_id").is_empty());
    let view = world.rest.session(&id).await;
    assert_eq!(view["state"], "waiting");
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["background_tasks"], 0);
    assert!(world.exists("sub.txt"));
    assert_eq!(world.rest.turns(&id).await[1]["origin"], "task-notification");
    let tasks = world
        .rest
        .get(&format!("/v1/sessions/{id}/tasks"))
        .await
        .expect(200);
    let agents = tasks["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 1, "{tasks:#}");
    assert_eq!(
        (&agents[0]["status"], &agents[0]["description"]),
        (&json!("completed"), &json!("do it"))
    );
    assert!(
        agents[0]["total"]["total_tokens"].as_u64() > Some(100),
        "{tasks:#}"
    );
    let mut history = tasks["history"].as_array().unwrap().iter();
    let task = history
        .find(|task| task["task_id"] == agents[0]["task_id"])
        .unwrap();
    assert_eq!(
        (&task["summary"], &task["depth"]),
        (&json!("sub final"), &json!(1)),
        "{tasks:#}"
    );
    assert!(text(task, "output_file").ends_with(".output") && task["ended_at"].is_string());
}

#[tokio::test]
async fn a_stop_ends_background_work() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let marker = marker();
    let input = json!({ "command": endless(&marker), "run_in_background": true });
    let steps = json!([{ "tool": "Bash", "input": input }, { "text": "under way" }]);
    assert_eq!(world.answer(&id, steps).await, "under way");
    wait_until("it runs", PATIENCE, || !marked(&marker).is_empty()).await;
    let view = world.stop(&id).await;
    assert_eq!(view["state"], "stopped");
    assert_eq!(view["background_tasks"], 0);
    assert!(marked(&marker).is_empty(), "{:#?}", marked(&marker));
    assert_eq!(world.runs(&id).await[0]["exit"]["killed"], false);
}
