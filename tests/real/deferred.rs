//! Owns the tests of calls that a hook put off: they wait for a person, without a process too, and are decided once.

use serde_json::{Value, json};

use crate::{
    hooks::{answer, decision, hook_asked},
    support::{programs::scripted, ws::Ws},
    world::{World, bash, text},
};

/// A session whose hook put a call off, its client, and the approval of the call.
async fn deferred(world: &World) -> (String, Ws, Value) {
    let hook =
        json!({ "event": "PreToolUse", "matcher": "Bash", "target": { "type": "client", "client_id": "x" } });
    let id = world
        .session(json!({ "hooks": [hook], "allowed_tools": ["Bash"] }))
        .await;
    let mut client = world.daemon.attach_as("x", &id, None).await;
    world
        .prompt(&id, json!([bash("touch made.txt"), { "text": "done" }]))
        .await;
    let asked = hook_asked(&mut client).await;
    client
        .send(&answer(&asked["request_id"], decision("defer", json!({}))))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(
        (&approval["kind"], &approval["tool_name"]),
        (&json!("deferred"), &json!("Bash")),
        "{approval:#}"
    );
    (id, client, approval)
}

async fn ended(world: &World, id: &str, approval: &Value) -> Value {
    let path = format!("/v1/sessions/{id}/approvals/{}", text(approval, "id"));
    world.daemon.rest().get(&path).await.expect(200)
}

#[tokio::test]
async fn a_call_that_was_put_off_is_decided_by_a_person() {
    let world = World::start().await;
    let (id, _client, approval) = deferred(&world).await;
    let view = world.rest.in_state(&id, &["waiting"]).await;
    assert_eq!(view["turns"], 1);
    let turns = world.rest.turns(&id).await;
    assert_eq!(turns[0]["terminal_reason"], "tool_deferred", "{turns:#?}");
    // The CLI would drop the call.
    let path = format!("/v1/sessions/{id}/messages");
    let refused = world.rest.post(&path, json!({ "text": "and now?" })).await;
    assert_eq!(refused.problem(409), "call_deferred");
    assert!(!world.exists("made.txt"));
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    world.idle_after(&id, 2).await;
    assert!(world.exists("made.txt"));
    let ended = ended(&world, &id, &approval).await;
    assert_eq!(
        (
            &ended["state"],
            &ended["resolution"]["how"],
            &ended["resolution"]["by"]
        ),
        (&json!("allowed"), &json!("person"), &json!("rest")),
        "{ended:#}"
    );
    let results = world.lines(&id, "result").await;
    assert_eq!(results[1]["result"], "done", "{results:#?}");
    assert_eq!(world.answer(&id, json!([{ "text": "heard" }])).await, "heard");
}

#[tokio::test]
async fn a_call_that_was_put_off_outlives_park_and_daemon() {
    let mut world = World::start().await;
    let (id, client, approval) = deferred(&world).await;
    drop(client);
    let parked = world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    assert_eq!(parked["state"], "parked");
    world.daemon.kill();
    world.daemon.start().await;
    let rest = world.daemon.rest();
    let pending = rest.pending_approval(&id).await;
    assert_eq!(pending["id"], approval["id"]);
    let refused = rest
        .post(
            &format!("/v1/sessions/{id}/messages"),
            json!({ "text": "and now?" }),
        )
        .await;
    assert_eq!(refused.problem(409), "call_deferred");
    let deny = json!({ "decision": "deny", "message": "not today" });
    rest.decide(&id, &text(&approval, "id"), deny).await.expect(200);
    let world = World { rest, ..world };
    world.idle_after(&id, 2).await;
    assert!(!world.exists("made.txt"));
    let told = world.last_request().await["messages"].to_string();
    assert!(told.contains("not today"), "{told}");
    assert_eq!(ended(&world, &id, &approval).await["state"], "denied");
}

#[tokio::test]
async fn a_resume_asks_the_hook_again_which_decides() {
    let world = World::start().await;
    let (id, mut client, approval) = deferred(&world).await;
    world.stop(&id).await;
    let pending = ended(&world, &id, &approval).await;
    assert_eq!(pending["state"], "pending", "no process is needed: {pending:#}");
    world.resume(&id).await;
    let asked = hook_asked(&mut client).await;
    client
        .send(&answer(&asked["request_id"], decision("allow", json!({}))))
        .await;
    world.idle_after(&id, 2).await;
    assert!(world.exists("made.txt"));
    let ended = ended(&world, &id, &approval).await;
    assert_eq!(
        (
            &ended["state"],
            &ended["resolution"]["how"],
            &ended["resolution"]["by"]
        ),
        (&json!("allowed"), &json!("hook"), &json!("ws:x")),
        "{ended:#}"
    );
}

#[tokio::test]
async fn a_fork_has_the_call_too_and_its_message_comes_after() {
    let world = World::start().await;
    let (id, _client, approval) = deferred(&world).await;
    let prompt = scripted(&json!([{ "text": "heard" }]));
    let fork = world
        .rest
        .lifecycle(&id, "fork", json!({ "prompt": prompt }))
        .await;
    let fork = text(&fork.expect(201), "id");
    let mut client = world.daemon.attach_as("x", &fork, Some(0)).await;
    let asked = hook_asked(&mut client).await;
    client
        .send(&answer(&asked["request_id"], decision("allow", json!({}))))
        .await;
    world.idle_after(&fork, 2).await;
    assert!(world.exists("made.txt"));
    let results = world.lines(&fork, "result").await;
    let said: Vec<_> = results.iter().map(|result| &result["result"]).collect();
    assert_eq!(said, ["done", "heard"]);
    assert_eq!(ended(&world, &id, &approval).await["state"], "pending");
}

#[tokio::test]
async fn a_message_in_the_queue_of_the_cli_withdraws_the_call() {
    let world = World::start().await;
    let hook =
        json!({ "event": "PreToolUse", "matcher": "Bash", "target": { "type": "client", "client_id": "x" } });
    let id = world
        .session(json!({ "hooks": [hook], "allowed_tools": ["Bash"] }))
        .await;
    let mut client = world.daemon.attach_as("x", &id, None).await;
    world
        .prompt(&id, json!([bash("touch made.txt"), { "text": "done" }]))
        .await;
    let asked = hook_asked(&mut client).await;
    world.prompt(&id, json!([{ "text": "second" }])).await;
    client
        .send(&answer(&asked["request_id"], decision("defer", json!({}))))
        .await;
    world.idle_after(&id, 2).await;
    let path = format!("/v1/sessions/{id}/approvals?kind=deferred");
    let log = world.rest.get(&path).await.expect(200);
    assert_eq!(log["items"][0]["state"], "withdrawn", "{log:#}");
    world.stop(&id).await;
    world.resume(&id).await;
    assert_eq!(world.answer(&id, json!([{ "text": "third" }])).await, "third");
    assert!(!world.exists("made.txt"));
}

#[tokio::test]
async fn of_two_calls_that_were_put_off_the_log_has_both() {
    let world = World::start().await;
    let hook = json!({ "event": "PreToolUse", "matcher": "Bash",
        "target": { "type": "fixed", "output": decision("defer", json!({})) } });
    let id = world
        .session(json!({ "hooks": [hook], "allowed_tools": ["Bash"] }))
        .await;
    let call = |name: &str| json!({ "name": "Bash", "id": format!("toolu_{name}"), "input": { "command": format!("touch {name}") } });
    world
        .prompt(
            &id,
            json!([{ "tools": [call("one"), call("two")] }, { "text": "done" }]),
        )
        .await;
    world.rest.pending_approval(&id).await;
    let path = format!("/v1/sessions/{id}/approvals?kind=deferred");
    let log = world.rest.get(&path).await.expect(200);
    let told: Vec<_> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (text(entry, "tool_use_id"), text(entry, "state")))
        .collect();
    let entry = |call: &str, state: &str| (call.to_owned(), state.to_owned());
    assert_eq!(told.len(), 2, "{log:#}");
    assert!(told.contains(&entry("toolu_one", "withdrawn")), "{log:#}");
    assert!(told.contains(&entry("toolu_two", "pending")), "{log:#}");
    assert!(!world.exists("one") && !world.exists("two"));
}
