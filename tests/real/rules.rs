//! Owns the tests of rules on the real CLI: it takes their answers, and asks on where none matches.

use serde_json::{Value, json};

use crate::{
    support::wait::{PATIENCE, wait_for},
    world::{World, bash},
};

async fn session(world: &World, rules: Value) -> String {
    let cwd = world.dir();
    world
        .rest
        .create_ready(json!({ "cwd": cwd, "rules": rules }))
        .await
}

#[tokio::test]
async fn a_rule_allows_one_command_and_denies_another_and_a_person_is_asked_for_the_rest() {
    let world = World::start().await;
    let id = session(
        &world,
        json!([
            { "id": "no-rm", "action": "deny", "input": { "command": { "command_prefix": ["rm"] } },
              "message": "Nothing is removed." },
            { "id": "make", "action": "allow", "tool": "Bash",
              "input": { "command": { "command_prefix": ["touch", "made.txt"] } } },
            { "id": "here", "action": "allow", "tool": "Write", "input": { "file_path": { "path_prefix": "." } } },
        ]),
    )
    .await;
    let write =
        json!({ "tool": "Write", "input": { "file_path": world.dir().join("written.txt"), "content": "x" } });
    let said = world
        .answer(
            &id,
            json!([bash("touch made.txt"), write, bash("rm -f made.txt"), { "text": "Done." }]),
        )
        .await;
    assert_eq!(said, "Done.");
    assert!(world.exists("made.txt"), "it was allowed, and not removed");
    assert!(world.exists("written.txt"));
    let told = world.last_request().await["messages"].to_string();
    assert!(told.contains("Nothing is removed."), "{told}");
    let path = format!("/v1/sessions/{id}/approvals?how=rule");
    let decided = world.rest.get(&path).await.expect(200);
    let mut by: Vec<&str> = decided["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|approval| approval["resolution"]["by"].as_str().unwrap())
        .collect();
    by.reverse();
    assert_eq!(by, ["rule:make", "rule:here", "rule:no-rm"]);

    // A command that only begins like it is asked for.
    world
        .prompt(
            &id,
            json!([bash("touch made.txt && touch other.txt"), { "text": "Over." }]),
        )
        .await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["rule"], Value::Null);
    world.decide(&id, &approval, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 2).await;
    assert!(!world.exists("other.txt"));
}

/// An allow-all rule leaves a question to a person, and a deadline that names the kind ends it.
#[tokio::test]
async fn a_question_is_never_answered_by_a_rule() {
    let world = World::start().await;
    let id = session(&world, json!([{ "id": "all", "action": "allow" }])).await;
    let question = json!({ "tool": "AskUserQuestion", "input": { "questions": [{
        "question": "Which?", "header": "W", "multiSelect": false,
        "options": [{ "label": "a", "description": "a" }, { "label": "b", "description": "b" }] }] } });
    world
        .prompt(
            &id,
            json!([bash("touch made.txt"), question, { "text": "Done." }]),
        )
        .await;
    // The command is pending too, for the moment until its rule has decided it.
    let approval = wait_for("the question waits", PATIENCE, async || {
        let approval = world.rest.pending_approval(&id).await;
        (approval["kind"] == "question").then_some(approval)
    })
    .await;
    assert_eq!(approval["rule"], Value::Null);
    assert!(world.exists("made.txt"));
    let soon = json!({ "id": "soon", "action": "ask", "kind": "question", "deadline_ms": 1 });
    let path = format!("/v1/sessions/{id}/rules?position=0");
    world.rest.post(&path, soon).await.expect(201);
    world.idle_after(&id, 1).await;
    let ended = world.approval(&id, &approval).await;
    assert_eq!(
        (&ended["state"], &ended["resolution"]["how"]),
        (&json!("denied"), &json!("expiry"))
    );
}

/// The file would say what the agent may do from then on.
#[tokio::test]
async fn a_rule_over_a_directory_allows_no_safety_check() {
    let world = World::start().await;
    let here = json!({ "file_path": { "path_prefix": "." } });
    let rule = json!({ "id": "edits", "action": "allow", "tool": "{Edit,Write}", "input": here });
    let id = session(&world, json!([rule])).await;
    let settings = world.dir().join(".claude/settings.local.json");
    let write = json!({ "tool": "Write", "input": { "file_path": settings, "content": "{}" } });
    let plain =
        json!({ "tool": "Write", "input": { "file_path": world.dir().join("plain.txt"), "content": "x" } });
    let steps = json!([plain, write, bash("touch x; echo {} > .mcp.json"), { "text": "Done." }]);
    world.prompt(&id, steps).await;
    let approval = wait_for("the settings wait", PATIENCE, async || {
        let approval = world.rest.pending_approval(&id).await;
        (approval["reason_type"] == "safetyCheck").then_some(approval)
    })
    .await;
    assert_eq!(approval["rule"], Value::Null, "{approval:#}");
    assert!(world.exists("plain.txt"), "the rule does hold");
    let query = json!({ "tool": "Write", "input": { "file_path": settings }, "reason_type": "safetyCheck" });
    let path = format!("/v1/sessions/{id}/rules/test");
    let verdict = world.rest.post(&path, query.clone()).await.expect(200);
    assert_eq!(verdict["decision"], "ask");
    assert!(
        verdict["passed"][0]["why_not"]
            .to_string()
            .contains("safetyCheck"),
        "{verdict:#}"
    );

    // By its name it is allowed. A line of several commands has another reason, and waits all the same.
    let named = json!({ "id": "named", "action": "allow", "tool": "Write", "input": here, "reason_type": ["safetyCheck"] });
    let all = json!({ "id": "all", "action": "allow", "tool": "Bash" });
    let rules = format!("/v1/sessions/{id}/rules");
    world
        .rest
        .put(&rules, json!({ "items": [named, all] }))
        .await
        .expect(200);
    let approval = wait_for("the line waits", PATIENCE, async || {
        let approval = world.rest.pending_approval(&id).await;
        (approval["tool_name"] == "Bash").then_some(approval)
    })
    .await;
    assert!(settings.exists());
    assert_eq!(
        world.rest.post(&path, query).await.expect(200)["rule"]["id"],
        "named"
    );
    assert_eq!(
        (&approval["rule"], &approval["state"]),
        (&Value::Null, &json!("pending"))
    );
    world.decide(&id, &approval, json!({ "decision": "deny" })).await;
    world.idle_after(&id, 1).await;
    assert!(!world.exists(".mcp.json"));
}

#[tokio::test]
async fn a_denied_command_is_denied_to_monitor_too() {
    let world = World::start().await;
    let rm = json!({ "command": { "command_prefix": ["rm"] } });
    let id = session(
        &world,
        json!([{ "id": "no-rm", "action": "deny", "tool": "Bash", "input": rm }, { "id": "all", "action": "allow" }]),
    )
    .await;
    world.write("victim", "x");
    let monitor = json!({ "tool": "Monitor", "input": {
        "command": "rm victim; echo hi", "description": "watch", "timeout_ms": 5000, "persistent": false } });
    world
        .answer(&id, json!([monitor, bash("touch made.txt"), { "text": "Done." }]))
        .await;
    assert!(world.exists("victim") && world.exists("made.txt"));
    let path = format!("/v1/sessions/{id}/approvals?how=rule");
    let decided = world.rest.get(&path).await.expect(200);
    let denied = decided["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["subject"] == "Monitor");
    assert_eq!(denied.unwrap()["resolution"]["by"], "rule:no-rm");
}
