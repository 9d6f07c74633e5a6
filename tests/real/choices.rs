//! Owns the tests of what a person sets at run time on the real CLI: it holds however the process ends.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    hooks::{answer, decision, hook_asked},
    support::{
        proc,
        wait::{PATIENCE, wait_for},
    },
    world::{MCP_SERVER, World, pid},
};

/// Kills the CLI and waits for the process that the daemon starts in its place.
async fn kill(world: &World, id: &str) {
    let old = pid(&world.rest.session(id).await);
    proc::signal(old, Signal::SIGKILL);
    wait_for("another process", PATIENCE, async || {
        let view = world.rest.session(id).await;
        let new = view["cli"]["pid"].as_i64()?;
        (new != i64::from(old) && view["state"] == "idle").then_some(())
    })
    .await;
}

/// Ends the process of the session in this way. The next prompt, or this, starts another.
async fn end(world: &World, id: &str, how: &str) {
    match how {
        "park" => drop(world.rest.lifecycle(id, "park", json!({})).await.expect(200)),
        "kill" => kill(world, id).await,
        "stop" => {
            world.stop(id).await;
            world.resume(id).await;
        }
        other => panic!("no such end: {other}"),
    }
}

fn touch(name: &str) -> Value {
    json!([{ "tool": "Bash", "input": { "command": format!("touch {name}") } }, { "text": "done" }])
}

async fn restarting() -> World {
    World::with(|daemon| {
        daemon
            .env("TRUNKLINE_RESTART_MAX_RESTARTS", "5")
            .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
    })
    .await
}

#[tokio::test]
async fn a_deny_holds_over_park_kill_and_stop() {
    let world = restarting().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    world.answer(&id, touch("allowed")).await;
    assert!(world.exists("allowed"));
    let settings = json!({ "permissions": { "deny": ["Bash(touch *)"] }, "effortLevel": "low" });
    let route = format!("/v1/sessions/{id}/settings");
    world
        .rest
        .patch(&route, json!({ "settings": settings }))
        .await
        .expect(200);
    for how in ["park", "kill", "stop"] {
        end(&world, &id, how).await;
        world.answer(&id, touch(how)).await;
        assert!(!world.exists(how), "after the {how} the denied command ran");
        let request = world.last_request().await;
        assert_eq!(request["output_config"]["effort"], "low", "after the {how}");
    }
    // Another person takes it back.
    let none = json!({ "settings": { "permissions": null } });
    world.rest.patch(&route, none).await.expect(200);
    world.answer(&id, touch("taken-back")).await;
    assert!(world.exists("taken-back"));
    for how in ["park", "kill", "stop"] {
        end(&world, &id, how).await;
        let allowed = format!("after-the-{how}");
        world.answer(&id, touch(&allowed)).await;
        assert!(world.exists(&allowed), "after the {how}");
    }
}

#[tokio::test]
async fn how_thinking_is_shown_holds_over_park_and_stop() {
    let world = World::start().await;
    let id = world.session(json!({ "thinking": { "type": "adaptive" } })).await;
    let thinking = json!({ "max_thinking_tokens": 8000, "display": "summarized" });
    world
        .rest
        .put(&format!("/v1/sessions/{id}/thinking"), thinking)
        .await
        .expect(200);
    world.answer(&id, json!([{ "text": "before" }])).await;
    let before = world.last_request().await["thinking"].clone();
    assert_eq!(before["display"], "summarized", "{before}");
    for how in ["park", "stop"] {
        end(&world, &id, how).await;
        world.answer(&id, json!([{ "text": how }])).await;
        assert_eq!(world.last_request().await["thinking"], before, "after the {how}");
    }
}

#[tokio::test]
async fn rules_of_a_decision_hold_over_park_kill_and_stop() {
    let world = restarting().await;
    let id = world.session(json!({ "allowed_tools": ["Bash(touch *)"] })).await;
    let steps = json!([{ "tool": "Bash", "input": { "command": "node -e 1" } }, { "text": "done" }]);
    world.prompt(&id, steps).await;
    let approval = world.rest.pending_approval(&id).await;
    let rules = |behavior: &str, rules: Value| json!({ "type": "addRules", "behavior": behavior, "rules": rules, "destination": "session" });
    let denied = json!([
        { "toolName": "Bash", "ruleContent": "touch denied*" },
        { "toolName": "Bash", "ruleContent": "touch (denied), too" },
    ]);
    let updates = json!([
        rules("deny", denied),
        rules(
            "ask",
            json!([{ "toolName": "Bash", "ruleContent": "touch asked*" }])
        ),
    ]);
    let allow = json!({ "decision": "allow", "updated_permissions": updates });
    world.decide(&id, &approval, allow).await;
    world.idle_after(&id, 1).await;
    let mut turns = 1;
    for how in ["nothing", "park", "kill", "stop"] {
        if how != "nothing" {
            end(&world, &id, how).await;
        }
        world.answer(&id, touch("denied")).await;
        assert!(!world.exists("denied"), "after the {how} the denied command ran");
        world.answer(&id, touch(&format!("other-{how}"))).await;
        assert!(world.exists(&format!("other-{how}")), "after the {how}");
        world.prompt(&id, touch("asked")).await;
        let approval = world.rest.pending_approval(&id).await;
        world
            .decide(&id, &approval, json!({ "decision": "deny", "message": "no" }))
            .await;
        turns += 3;
        world.idle_after(&id, turns).await;
        assert!(!world.exists("asked"), "after the {how}");
    }
    // New permissions keep the rule that asks.
    let route = format!("/v1/sessions/{id}/settings");
    let settings = json!({ "settings": { "permissions": { "deny": ["WebFetch"] } } });
    world.rest.patch(&route, settings).await.expect(200);
    for how in ["nothing", "park"] {
        if how != "nothing" {
            end(&world, &id, how).await;
        }
        world.prompt(&id, touch("asked")).await;
        let approval = world.rest.pending_approval(&id).await;
        world
            .decide(&id, &approval, json!({ "decision": "deny", "message": "no" }))
            .await;
        turns += 1;
        world.idle_after(&id, turns).await;
    }
}

/// To the CLI such a rule matches nothing. The next process would be given it as a text, which matches all commands.
#[tokio::test]
async fn no_rule_of_a_decision_allows_more_after_a_park() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let steps = json!([{ "tool": "Bash", "input": { "command": "node -e 1" } }, { "text": "done" }]);
    world.prompt(&id, steps).await;
    let approval = world.rest.pending_approval(&id).await;
    let allow = |rule: Value| {
        let update =
            json!({ "type": "addRules", "behavior": "allow", "rules": [rule], "destination": "session" });
        json!({ "decision": "allow", "updated_permissions": [update] })
    };
    for rule in [
        json!({ "toolName": "Bash", "ruleContent": "" }),
        json!({ "toolName": "Bash", "ruleContent": "*" }),
        json!({ "toolName": "Bash(touch:*)" }),
    ] {
        let approval = approval["id"].as_str().unwrap();
        let refused = world.rest.decide(&id, approval, allow(rule)).await;
        assert_eq!(refused.problem(400), "invalid_decision");
    }
    let rule = json!({ "toolName": "Bash", "ruleContent": "touch allowed*" });
    world.decide(&id, &approval, allow(rule)).await;
    world.idle_after(&id, 1).await;
    end(&world, &id, "park").await;
    world.answer(&id, touch("allowed")).await;
    assert!(world.exists("allowed"));
    world.prompt(&id, touch("asked")).await;
    let asked = world.rest.pending_approval(&id).await;
    world
        .decide(&id, &asked, json!({ "decision": "deny", "message": "no" }))
        .await;
    world.idle_after(&id, 3).await;
    assert!(!world.exists("asked"));
}

/// The CLI got the rule by a flag, which no update of its session takes back.
#[tokio::test]
async fn a_rule_that_is_removed_late_is_gone_from_the_next_process() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash(touch *)"] })).await;
    let decide = async |turns: u64, kind: &str| {
        let command = format!("node -e {turns}");
        let steps = json!([{ "tool": "Bash", "input": { "command": command } }, { "text": "done" }]);
        world.prompt(&id, steps).await;
        let approval = world.rest.pending_approval(&id).await;
        let rule = json!({ "toolName": "Bash", "ruleContent": "touch denied*" });
        let update = json!({ "type": kind, "behavior": "deny", "rules": [rule], "destination": "session" });
        let allow = json!({ "decision": "allow", "updated_permissions": [update] });
        world.decide(&id, &approval, allow).await;
        world.idle_after(&id, turns).await;
    };
    decide(1, "addRules").await;
    end(&world, &id, "park").await;
    world.answer(&id, touch("denied")).await;
    decide(3, "removeRules").await;
    world.answer(&id, touch("denied")).await;
    assert!(!world.exists("denied"), "this process began with the rule");
    end(&world, &id, "park").await;
    world.answer(&id, touch("denied")).await;
    assert!(world.exists("denied"));
}

/// Waits until the server that was set is connected.
async fn connected(world: &World, id: &str) {
    wait_for("the server is connected", PATIENCE, async || {
        let reply = world
            .rest
            .get(&format!("/v1/sessions/{id}/mcp"))
            .await
            .expect(200);
        let servers = reply["response"]["mcpServers"].as_array()?;
        let good = servers.iter().find(|server| server["name"] == "good")?;
        (good["status"] == "connected").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_was_set_is_there_after_a_park() {
    let world = World::start().await;
    world.write("server.py", MCP_SERVER);
    let id = world.session(json!({})).await;
    let server = json!({ "type": "stdio", "command": "python3", "args": [world.dir().join("server.py")] });
    let servers = json!({ "servers": { "good": server } });
    let route = format!("/v1/sessions/{id}/mcp");
    world.rest.put(&route, servers).await.expect(200);
    connected(&world, &id).await;
    world.answer(&id, json!([{ "text": "before" }])).await;
    end(&world, &id, "park").await;
    world.answer(&id, json!([{ "text": "after" }])).await;
    connected(&world, &id).await;
}

#[tokio::test]
async fn an_effort_that_was_typed_holds_over_park_kill_and_stop() {
    let world = restarting().await;
    let id = world.session(json!({ "effort": "high" })).await;
    let effort = async || {
        world.answer(&id, json!([{ "text": "done" }])).await;
        world.last_request().await["output_config"]["effort"].clone()
    };
    assert_eq!(effort().await, "high");
    world.rest.ask(&id, "/effort low").await;
    assert_eq!(effort().await, "low");
    for how in ["park", "kill", "stop"] {
        end(&world, &id, how).await;
        assert_eq!(effort().await, "low", "after the {how}");
    }
    world.rest.ask(&id, "/effort no-such-effort").await;
    end(&world, &id, "park").await;
    assert_eq!(effort().await, "low", "that was refused");
    world.rest.ask(&id, "/effort auto").await;
    let own = effort().await;
    assert_ne!(own, "low");
    end(&world, &id, "park").await;
    assert_eq!(effort().await, own);
    let events = world.rest.events(&id, 0).await;
    let notices: Vec<_> = events
        .iter()
        .filter(|it| it["data"]["type"] == "notice")
        .collect();
    assert!(notices.is_empty(), "{notices:#?}");
}

/// A hook may be a guard: it holds before the first prompt of the next process, and its client need not register it again.
#[tokio::test]
async fn a_hook_of_a_named_client_holds_over_park_kill_and_stop() {
    let world = World::with(|daemon| {
        daemon
            .env("TRUNKLINE_RESTART_MAX_RESTARTS", "5")
            .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
            .env("TRUNKLINE_SESSIONS_RETURN_GRACE_MS", "1000")
    })
    .await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let mut client = world.daemon.attach_as("editor", &id, None).await;
    let hooks = json!({ "PreToolUse": [{ "matcher": "Bash", "hookCallbackIds": ["guard"] }] });
    let request = json!({ "subtype": "initialize", "hooks": hooks });
    client
        .send(&json!({ "type": "control_request", "request_id": "1", "request": request }))
        .await;
    client
        .find("the answer", |frame| frame["response"]["request_id"] == "1")
        .await;
    for (turns, how) in (1..).zip(["kill", "stop", "park"]) {
        if how == "park" {
            drop(client);
            wait_for("nobody is waited for", PATIENCE, async || {
                let parked = world.rest.lifecycle(&id, "park", json!({})).await;
                parked.status.is_success().then_some(())
            })
            .await;
            client = world.daemon.attach_as("editor", &id, None).await;
        } else {
            end(&world, &id, how).await;
        }
        world.prompt(&id, touch(how)).await;
        let asked = hook_asked(&mut client).await;
        assert_eq!(asked["request"]["callback_id"], "editor/guard", "after the {how}");
        let output = decision("deny", json!({ "permissionDecisionReason": "no" }));
        client.send(&answer(&asked["request_id"], output)).await;
        world.idle_after(&id, turns).await;
        assert!(!world.exists(how), "after the {how} the denied command ran");
    }
}
