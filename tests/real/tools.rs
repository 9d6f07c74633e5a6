//! Owns the tests of tools that need a person: allowed, changed, denied.

use serde_json::{Value, json};

use crate::{
    support::programs::scripted64,
    world::{World, bash, pid, said, text},
};

const MAKE: &str = "touch made.txt && ls";

/// A session whose CLI asks whether it may make a file; the request.
async fn asks(world: &World) -> (String, Value) {
    let id = world.session(json!({})).await;
    world
        .prompt(&id, json!([bash(MAKE), { "text": "All done." }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "tool");
    assert_eq!(approval["tool_name"], "Bash");
    assert_eq!(approval["request"]["input"]["command"], MAKE);
    let view = world.rest.session(&id).await;
    assert_eq!(view["state"], "waiting");
    assert_eq!(view["pending_approvals"][0]["id"], approval["id"]);
    assert!(!world.exists("made.txt"));
    (id, approval)
}

/// The results of tools that the model was told.
async fn told(world: &World) -> String {
    let request = world.last_request().await;
    let messages = request["messages"].as_array().unwrap();
    messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].to_string())
        .collect()
}

#[tokio::test]
async fn an_allowed_tool_runs() {
    let world = World::start().await;
    let (id, approval) = asks(&world).await;
    let decided = world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    assert_eq!(decided["state"], "allowed");
    assert_eq!(decided["resolution"]["by"], "rest");
    let view = world.idle_after(&id, 1).await;
    assert_eq!(view["pending_approvals"], json!([]));
    assert!(world.exists("made.txt"));
    assert!(told(&world).await.contains("made.txt"));
    let messages = world.messages(&id).await;
    assert_eq!(said(messages.last().unwrap()), "All done.");
    // A second decision changes nothing and is shown the first.
    let late = world
        .rest
        .decide(&id, &text(&approval, "id"), json!({ "decision": "deny" }))
        .await;
    assert_eq!(late.body["approval"]["state"], "allowed");
    assert_eq!(late.problem(409), "already_decided");
}

#[tokio::test]
async fn an_allowed_tool_runs_with_the_changed_input() {
    let world = World::start().await;
    let (id, approval) = asks(&world).await;
    let changed =
        json!({ "decision": "allow", "updated_input": { "command": "touch other.txt; echo CHANGED" } });
    world.decide(&id, &approval, changed).await;
    world.idle_after(&id, 1).await;
    assert!(world.exists("other.txt"));
    assert!(!world.exists("made.txt"));
    assert!(told(&world).await.contains("CHANGED"));
}

#[tokio::test]
async fn an_allowed_rule_is_not_asked_again() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let steps = json!([bash("touch one.txt"), bash("touch one.txt"), { "text": "twice" }]);
    world.prompt(&id, steps).await;
    let approval = world.rest.pending_approval(&id).await;
    let rule = approval["request"]["permission_suggestions"][0].clone();
    assert_eq!(rule["type"], "addRules", "{approval:#}");
    let allow = json!({ "decision": "allow", "updated_permissions": [rule] });
    world.decide(&id, &approval, allow).await;
    world.idle_after(&id, 1).await;
    let path = format!("/v1/sessions/{id}/approvals");
    let list = world.rest.get(&path).await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_denied_tool_does_not_run_and_the_model_hears_why() {
    let world = World::start().await;
    let (id, approval) = asks(&world).await;
    let denied = json!({ "decision": "deny", "message": "use another name" });
    let decided = world.decide(&id, &approval, denied).await;
    assert_eq!(decided["state"], "denied");
    world.idle_after(&id, 1).await;
    assert!(!world.exists("made.txt"));
    assert!(told(&world).await.contains("use another name"));
    let result = world.lines(&id, "result").await.remove(0);
    assert_eq!(result["result"], "All done.", "the turn goes on");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash");
}

#[tokio::test]
async fn a_denial_can_end_the_turn() {
    let world = World::start().await;
    let (id, approval) = asks(&world).await;
    let process = pid(&world.rest.session(&id).await);
    let denied = json!({ "decision": "deny", "message": "stop here", "interrupt": true });
    world.decide(&id, &approval, denied).await;
    world.idle_after(&id, 1).await;
    let turns = world.rest.turns(&id).await;
    assert_eq!(turns[0]["subtype"], "error_during_execution");
    assert_eq!(turns[0]["terminal_reason"], "aborted_tools");
    assert!(!world.exists("made.txt"));
    assert_eq!(world.answer(&id, json!([{ "text": "next" }])).await, "next");
    assert_eq!(pid(&world.rest.session(&id).await), process);
}

#[tokio::test]
async fn a_sub_agent_that_asks_is_named() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let inner = scripted64(&json!([bash("touch sub.txt"), { "text": "sub final" }]));
    let input = json!({ "description": "do it", "prompt": inner, "subagent_type": "general-purpose", "run_in_background": false });
    let agent = json!({ "tool": "Agent", "input": input });
    world.prompt(&id, json!([agent, { "text": "main final" }])).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["request"]["input"]["command"], "touch sub.txt");
    let agent = text(&approval["request"], "agent_id");
    assert!(!agent.is_empty());
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    world.idle_after(&id, 1).await;
    assert!(world.exists("sub.txt"));
    let messages = world.messages(&id).await;
    let inner = messages
        .iter()
        .find(|message| {
            message["content"].to_string().contains("touch sub.txt") && message["role"] == "assistant"
        })
        .filter(|message| message["parent_tool_use_id"].is_string());
    assert!(inner.is_some(), "the sub-agent's call is marked: {messages:#?}");
    assert_eq!(said(messages.last().unwrap()), "main final");
}
