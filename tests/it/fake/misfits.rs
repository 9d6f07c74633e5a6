//! Owns the tests of answers of which the CLI would drop a part without a word, and of answers that are errors.

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, answer_heard, path, plain, session_with},
    support::{
        daemon::TestDaemon,
        server::Server,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

fn answer(request: &str, response: Value) -> Value {
    json!({ "type": "control_response",
            "response": { "subtype": "success", "request_id": request, "response": response } })
}

async fn refusal(client: &mut Ws) -> Value {
    client
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await
}

fn updates(update: Value) -> Value {
    json!({ "behavior": "allow", "updatedPermissions": [update] })
}

#[tokio::test]
async fn a_misspelt_key_of_an_answer_is_refused() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ["q-1"], "wait": false } }, { "wait_answer": "q-1" }]),
    )
    .await;
    let approval = rest.pending_approval(&id).await;
    let rule = json!({ "toolName": "Bash", "rule_content": "ls" });
    let ruled = |rule: Value| json!({ "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session" });
    for wrong in [
        updates(ruled(json!({ "toolName": "Bash", "ruleContent": "" }))),
        updates(ruled(json!({ "toolName": "Bash", "ruleContent": "*" }))),
        updates(ruled(json!({ "toolName": "Bash(touch:*)" }))),
        updates(json!({ "type": "addDirectories", "directories": ["/a\nb"], "destination": "session" })),
        json!({ "behavior": "allow", "updated_input": { "command": "safe" } }),
        json!({ "behavior": "allow", "updatedinput": { "command": "safe" } }),
        json!({ "behavior": "allow", "updated-input": { "command": "safe" } }),
        json!({ "behavior": "allow", "updateInput": { "command": "safe" } }),
        json!({ "behavior": "allow", "updatedInputs": { "command": "safe" } }),
        json!({ "behavior": "allow", "updatedInput ": { "command": "safe" } }),
        json!({ "behavior": "allow", "decision": "deny" }),
        json!({ "behavior": "allow", "updated_permissions": [] }),
        json!({ "behavior": "deny", "message": "no", "INTERRUPT": true }),
        updates(ruled(rule)),
        updates(json!({ "type": "addRule", "rules": [], "behavior": "allow", "destination": "session" })),
        updates(json!({ "type": "setMode", "mode": "weird", "destination": "session" })),
        updates(json!({ "type": "setMode", "mode": "acceptEdits", "destination": "nowhere" })),
        updates(json!({ "type": "setMode", "mode": "bypassPermissions", "destination": "session" })),
    ] {
        client.send(&answer("q-1", wrong.clone())).await;
        let error = refusal(&mut client).await;
        assert_eq!(error["code"], "invalid_decision", "{wrong} {error:#}");
        assert_eq!(
            (&error["request_id"], &error["approval_id"]),
            (&json!("q-1"), &approval["id"])
        );
        if let Some(updates) = wrong.get("updatedPermissions") {
            let decision = json!({ "decision": "allow", "updated_permissions": updates });
            let refused = rest.decide(&id, approval["id"].as_str().unwrap(), decision).await;
            assert_eq!(refused.problem(400), "invalid_decision", "{wrong}");
        }
    }
    assert_eq!(rest.session(&id).await["state"], "waiting");
    // A key that is new passes.
    let good = json!({ "behavior": "allow", "updatedInput": { "command": "safe" }, "brandNew": 1 });
    client.send(&answer("q-1", good)).await;
    let heard = answer_heard(&mut client, "q-1").await;
    assert_eq!(heard["response"]["response"]["updatedInput"]["command"], "safe");
}

#[tokio::test]
async fn an_error_of_a_client_denies_with_its_words() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ["q-1"] } }, { "text": "done" }]),
    )
    .await;
    let approval = rest.pending_approval(&id).await;
    let error = json!({ "subtype": "error", "request_id": "q-1", "error": "my callback broke" });
    client
        .send(&json!({ "type": "control_response", "response": error }))
        .await;
    let heard = answer_heard(&mut client, "q-1").await;
    assert_eq!(
        heard["response"]["response"],
        json!({ "behavior": "deny", "message": "my callback broke" })
    );
    rest.in_state(&id, &["idle"]).await;
    let ended = rest
        .get(&path(
            &id,
            &format!("approvals/{}", approval["id"].as_str().unwrap()),
        ))
        .await
        .expect(200);
    assert_eq!(
        (&ended["state"], &ended["resolution"]["how"]),
        (&json!("denied"), &json!("person"))
    );
}

/// The output of a hook may allow as an answer does.
#[tokio::test]
async fn a_hook_output_that_would_be_misread_is_refused() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let url = server.url("/hook").uri().to_string();
    let block = |target: Value| json!({ "event": "PreToolUse", "on_failure": "block", "target": target });
    let options = json!({ "hooks": [
        block(json!({ "type": "client", "client_id": "x" })),
        block(json!({ "type": "webhook", "url": url })),
    ] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash" });
    let call = |id: &str, callback: &str| json!({ "request": { "subtype": "hook_callback", "callback_id": callback, "input": input }, "id": id });
    act(
        &rest,
        &id,
        json!([call("h-0", "trunkline/0"), call("h-1", "trunkline/1"), { "text": "done" }]),
    )
    .await;
    client
        .find("the hook", |frame| frame["data"]["request_id"] == "h-0")
        .await;
    let rule = json!({ "type": "addRules", "rules": [{ "toolName": "Bash" }], "behavior": "deny", "destination": "session" });
    let specific = |specific: Value| json!({ "hookSpecificOutput": specific });
    let all = [
        specific(
            json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow", "updated_input": { "command": "safe" } }),
        ),
        specific(json!({ "permissionDecision": "deny" })),
        specific(json!({ "hookEventName": "PostToolUse", "permissionDecision": "deny" })),
        specific(json!({ "hookEventName": "PreToolUse", "permissionDecision": "Deny" })),
        specific(
            json!({ "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": null }),
        ),
        specific(
            json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": "safe" }),
        ),
        json!({ "decision": "deny" }),
        // The CLI overlooks updates beside the decision: they would hold nowhere.
        specific(json!({ "hookEventName": "PreToolUse", "updatedPermissions": [rule] })),
    ];
    for wrong in &all {
        client.send(&answer("h-0", wrong.clone())).await;
        let error = refusal(&mut client).await;
        assert_eq!(
            (&error["code"], &error["request_id"]),
            (&json!("invalid_decision"), &json!("h-0")),
            "{wrong} {error:#}"
        );
    }
    client.send(&answer("h-0", json!({}))).await;
    let asked = server.next().await;
    asked
        .answer("200 OK\ncontent-type: application/json", &all[1].to_string())
        .await;
    let told = wait_for("the stated answer", PATIENCE, async || {
        let records = rest.events(&id, 0).await;
        let mut answers = records.into_iter().filter(|record| record["src"] == "client");
        answers.find(|record| record["data"]["response"]["request_id"] == "h-1")
    })
    .await;
    let output = &told["data"]["response"]["response"]["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{told:#}");

    // One that is always the same is refused at once.
    for wrong in all {
        let fixed = json!({ "hooks": [block(json!({ "type": "fixed", "output": wrong }))] });
        let refused = rest
            .post(
                "/v1/sessions",
                json!({ "cwd": daemon.work_dir("b"), "options": fixed }),
            )
            .await;
        assert_eq!(
            refused.body["field"], "options.hooks[0].target.output",
            "{wrong} {:#}",
            refused.body
        );
    }
}
