//! Owns the tests of stops: of a CLI that is idle, works, or waits for a person.

use serde_json::{Value, json};

use crate::{
    support::{
        proc,
        programs::scripted,
        wait::{PATIENCE, wait_until},
    },
    world::{World, bash, endless, marked, marker, pid, text},
};

/// The state after every stop: a stopped session, no process, one run that ended as asked.
async fn stopped(world: &World, id: &str, process: i32) -> Value {
    let view = world.stop(id).await;
    assert_eq!(view["state"], "stopped");
    assert_eq!(view["reason"], Value::Null);
    assert_eq!(view["cli"]["pid"], Value::Null);
    assert_eq!(view["turn"], Value::Null);
    assert_eq!(view["open_prompts"], json!([]));
    assert!(!proc::is_alive(process));
    let run = world.runs(id).await.remove(0);
    assert_eq!(run["exit"]["intent"], "stop");
    assert_eq!(run["exit"]["killed"], false);
    run["exit"].clone()
}

#[tokio::test]
async fn an_idle_cli_ends_by_itself() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let process = pid(&world.rest.session(&id).await);
    let exit = stopped(&world, &id, process).await;
    assert_eq!(exit["code"], 0);
    assert_eq!(exit["signal"], Value::Null);
    assert_eq!(
        world.stop(&id).await["state"],
        "stopped",
        "a second stop is no error"
    );
}

#[tokio::test]
async fn nothing_of_a_tool_outlives_the_stop() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let process = pid(&world.rest.session(&id).await);
    let marker = marker();
    let prompt = world.prompt(&id, json!([bash(&endless(&marker))])).await;
    world.made("started").await;
    wait_until("the tool runs", PATIENCE, || !marked(&marker).is_empty()).await;
    stopped(&world, &id, process).await;
    assert!(marked(&marker).is_empty(), "{:#?}", marked(&marker));
    let turn = world.rest.turns(&id).await.remove(0);
    assert_eq!(turn["prompts"], json!([prompt]));
    assert_eq!(turn["is_error"], true);
}

#[tokio::test]
async fn nothing_of_a_detached_tool_outlives_the_stop() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let process = pid(&world.rest.session(&id).await);
    let marker = marker();
    let detached =
        format!("setsid nohup python3 -c 'import time; time.sleep(600)' {marker} >/dev/null 2>&1 & echo on");
    world
        .answer(&id, json!([bash(&detached), { "text": "left" }]))
        .await;
    wait_until("it runs", PATIENCE, || !marked(&marker).is_empty()).await;
    stopped(&world, &id, process).await;
    assert!(marked(&marker).is_empty(), "{:#?}", marked(&marker));
}

#[tokio::test]
async fn a_stop_abandons_what_was_asked() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let process = pid(&world.rest.session(&id).await);
    world.prompt(&id, json!([bash("touch made.txt")])).await;
    let approval = world.rest.pending_approval(&id).await;
    stopped(&world, &id, process).await;
    let ended = world.approval(&id, &approval).await;
    assert_eq!(ended["state"], "abandoned");
    assert_eq!(ended["resolution"]["by"], "daemon");
    let late = world
        .rest
        .decide(&id, &text(&approval, "id"), json!({ "decision": "allow" }))
        .await;
    assert_eq!(late.body["approval"]["state"], "abandoned");
    assert_eq!(late.problem(409), "approval_not_pending");
    assert!(!world.exists("made.txt"));
    let inbox = world.rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(inbox["items"], json!([]));
}

#[tokio::test]
async fn a_cli_that_is_just_starting_can_be_stopped() {
    let world = World::start().await;
    let prompt = scripted(&json!([{ "text": "unheard" }]));
    let view = world
        .rest
        .create(json!({ "cwd": world.dir(), "prompt": prompt }))
        .await;
    let id = text(&view, "id");
    assert_eq!(view["state"], "starting");
    let view = world.stop(&id).await;
    assert_eq!(view["state"], "stopped");
    assert_eq!(view["open_prompts"], json!([]));
    let view = world.resume(&id).await;
    assert_eq!(view["state"], "idle");
    assert_eq!(world.answer(&id, json!([{ "text": "heard" }])).await, "heard");
}

/// MCP servers that were started through a shell and do not care about signals.
#[tokio::test]
async fn nothing_of_an_mcp_server_outlives_the_stop() {
    let world = World::start().await;
    let marker = marker();
    let server = |name: &str, detach: &str| {
        let program = format!(
            "trap '' TERM INT HUP; touch {name}; {detach} python3 -c 'import time; time.sleep(600)' {marker} & cat; wait"
        );
        json!({ "type": "stdio", "command": "sh", "args": ["-c", program] })
    };
    let servers = json!({ "plain": server("plain", ""), "detached": server("detached", "setsid") });
    let id = world.session(json!({ "mcp_servers": servers })).await;
    world.made("plain").await;
    world.made("detached").await;
    wait_until("both run", PATIENCE, || marked(&marker).len() >= 4).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let view = world.stop(&id).await;
    assert_eq!(view["state"], "stopped");
    assert!(marked(&marker).is_empty(), "{:#?}", marked(&marker));
}
