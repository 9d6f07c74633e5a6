//! Owns the tests of tools that need a person: allowed, changed, denied.

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    support::{
        programs::scripted64,
        wait::{PATIENCE, wait_for},
    },
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

/// Waits until so many approvals of the session are pending; oldest first.
async fn pending(world: &World, id: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} pending approvals"), PATIENCE, async || {
        let path = format!("/v1/sessions/{id}/approvals?state=pending");
        let mut list = world.rest.get(&path).await.expect(200);
        let mut items = list["items"].as_array_mut().map(std::mem::take)?;
        items.reverse();
        (items.len() == count).then_some(items)
    })
    .await
}

/// The words that the model was told about a call.
async fn told_about(world: &World, call: &str) -> String {
    let request = world.last_request().await;
    let messages = request["messages"].as_array().unwrap();
    let mut blocks = messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let result = blocks.find(|block| block["tool_use_id"] == call);
    result.unwrap_or_else(|| panic!("nothing about {call}"))["content"].to_string()
}

#[tokio::test]
async fn calls_that_ask_at_the_same_time_are_answered_in_any_order() {
    let world = World::start().await;
    let elsewhere = world.daemon.work_dir("elsewhere");
    let read = |name: &str| {
        let path = elsewhere.join(name);
        std::fs::write(&path, format!("text of {name}")).unwrap();
        json!({ "name": "Read", "id": format!("toolu_{name}"), "input": { "file_path": path } })
    };
    let calls = json!([read("first"), read("second"), read("third")]);
    read("fourth");
    let id = world.session(json!({})).await;
    world
        .prompt(&id, json!([{ "tools": calls }, { "text": "read" }]))
        .await;
    let asked = pending(&world, &id, 3).await;
    let calls: Vec<_> = asked
        .iter()
        .map(|approval| text(approval, "tool_use_id"))
        .collect();
    assert_eq!(calls, ["toolu_first", "toolu_second", "toolu_third"]);
    let other = json!({ "decision": "allow", "updated_input": { "file_path": elsewhere.join("fourth") } });
    for (place, decision) in [
        (2, json!({ "decision": "allow" })),
        (0, json!({ "decision": "deny", "message": "not this one" })),
        (1, other),
    ] {
        world.decide(&id, &asked[place], decision).await;
    }
    world.idle_after(&id, 1).await;
    assert!(told_about(&world, "toolu_first").await.contains("not this one"));
    assert!(
        told_about(&world, "toolu_second")
            .await
            .contains("text of fourth")
    );
    assert!(told_about(&world, "toolu_third").await.contains("text of third"));
    let result = world.lines(&id, "result").await.remove(0);
    assert_eq!(
        result["permission_denials"].as_array().unwrap().len(),
        1,
        "{result:#}"
    );
}

#[tokio::test]
async fn sub_agents_that_ask_at_the_same_time_are_told_apart() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let agent = |name: &str| {
        let inner = scripted64(&json!([bash(&format!("touch {name}")), { "text": "sub final" }]));
        let input = json!({ "description": name, "prompt": inner, "subagent_type": "general-purpose", "run_in_background": false });
        json!({ "name": "Agent", "input": input })
    };
    let agents = json!([agent("one"), agent("two")]);
    world
        .prompt(&id, json!([{ "tools": agents }, { "text": "main final" }]))
        .await;
    let asked = pending(&world, &id, 2).await;
    let agents = [text(&asked[0], "agent_id"), text(&asked[1], "agent_id")];
    assert_ne!(agents[0], agents[1]);
    // In the lists of sessions, in the snapshot and in the inbox it is the same.
    let mut client = world.daemon.attach(&id, None).await;
    let snapshot = client.next().await;
    for (place, agent) in agents.iter().enumerate() {
        assert_eq!(snapshot["pending_approvals"][place]["agent_id"], json!(agent));
    }
    for approval in asked.iter().rev() {
        let command = text(&approval["request"]["input"], "command");
        let decision = if command == "touch two" { "allow" } else { "deny" };
        world.decide(&id, approval, json!({ "decision": decision })).await;
    }
    world.idle_after(&id, 1).await;
    assert!(world.exists("two") && !world.exists("one"));
    // The call of each agent says whose it is.
    let messages = world.messages(&id).await;
    for name in ["touch one", "touch two"] {
        let call = messages
            .iter()
            .find(|message| message["role"] == "assistant" && message["content"].to_string().contains(name));
        assert!(
            call.is_some_and(|call| call["parent_tool_use_id"].is_string()),
            "{messages:#?}"
        );
    }
}

/// An input is not re-written on its way: half a character, the order of names, the form of numbers.
#[tokio::test]
async fn an_input_goes_back_byte_for_byte() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let call = |name: &str| {
        format!(
            r#"{{"tool":"Bash","input":{{"timeout":9000,"description":"cut \ud83d","command":"touch {name}"}}}}"#
        )
    };
    let prompt = format!(
        r#"SCRIPT:[{},{},{{"text":"done"}}]:END"#,
        call("one"),
        call("two")
    );
    world.rest.prompt(&id, &prompt).await;
    // No parser that is strict reads the whole approval.
    let next = async |before: &Value| {
        wait_for("the next call", PATIENCE, async || {
            let view = world.rest.session(&id).await;
            let next = view["pending_approvals"].get(0)?.clone();
            (next["id"] != before["id"]).then_some(next)
        })
        .await
    };
    let first = next(&Value::Null).await;
    world.decide(&id, &first, json!({ "decision": "allow" })).await;
    let second = next(&first).await;
    let changed = r#"{ "timeout":1e4,"command":"touch three", "description":"\ud83d cut","\u0064escription":"\udc00" }"#;
    let path = format!("/v1/sessions/{id}/approvals/{}", text(&second, "id"));
    let request = world
        .rest
        .builder(Method::POST, &path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(format!(r#"{{"decision":"allow","updated_input":{changed}}}"#));
    world.rest.send(request).await.expect(200);
    world.idle_after(&id, 1).await;
    assert!(world.exists("one") && !world.exists("two") && world.exists("three"));
    let journal = world.daemon.journal(&id);
    let line = |source: &str, part: &str| {
        let source = format!(r#""src":"{source}""#);
        let mut lines = journal.lines().filter(|line| line.contains(&source));
        assert!(lines.any(|line| line.contains(part)), "no {part} of {source}");
    };
    let asked = r#"{"command":"touch one","timeout":9000,"description":"cut \ud83d"}"#;
    line("cli", &format!(r#""input":{asked}"#));
    line("client", &format!(r#""updatedInput":{asked}"#));
    line("client", &format!(r#""updatedInput":{changed}"#));
}
