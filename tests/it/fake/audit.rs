//! Owns the tests of the audit log where nobody was asked: what hooks decide, and what the CLI denies by itself.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::{
        bed::{act, act_through, pid, plain, session_with},
        rules::approvals,
    },
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        server::Server,
        wait::{PATIENCE, wait_for},
    },
};

/// printf '{"command":"rm x"}' | sha256sum
const RM: &str = "18a68d0668b04425a7440e38876f9a1f63c5b5e38cc058bc2edd35d6fc9831f0";
/// printf '{"command":"ls"}' | sha256sum
const LS: &str = "4cf29611a66934862f29acfcc817e30b905c1ab73d5e65831413eb6b454d49db";

fn output(decision: Option<&str>, updated: Option<Value>) -> Value {
    let mut specific = json!({ "hookEventName": "PreToolUse" });
    if let Some(decision) = decision {
        specific["permissionDecision"] = json!(decision);
    }
    if let Some(updated) = updated {
        specific["updatedInput"] = updated;
    }
    json!({ "hookSpecificOutput": specific })
}

fn hook(target: Value) -> Value {
    json!({ "event": "PreToolUse", "target": target })
}

fn call(id: &str, callback: &str) -> Value {
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "rm x" },
        "tool_use_id": format!("use-{id}") });
    json!({ "request": { "subtype": "hook_callback", "callback_id": callback, "input": input,
        "tool_use_id": format!("use-{id}") }, "id": id })
}

#[tokio::test]
async fn each_decision_of_a_hook_is_in_the_log() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let url = server.url("/hook").uri().to_string();
    let fixed = |output: Value| hook(json!({ "type": "fixed", "output": output }));
    let options = json!({ "hooks": [
        hook(json!({ "type": "webhook", "url": url })),
        fixed(output(Some("deny"), None)),
        fixed(json!({})),
        fixed(output(None, Some(json!({ "command": "ls" })))),
        hook(json!({ "type": "client", "client_id": "x" })),
    ] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let calls: Vec<Value> = (0..5)
        .map(|n| call(&format!("h-{n}"), &format!("trunkline/{n}")))
        .collect();
    // The host's denial is listed by the result too, and is one entry all the same.
    let listed =
        json!([{ "tool_name": "Bash", "tool_use_id": "use-h-1", "tool_input": { "command": "rm x" } }]);
    let mut actions = calls;
    actions.push(json!({ "result": { "permission_denials": listed } }));
    act(&rest, &id, Value::Array(actions)).await;
    let rewritten = output(Some("allow"), Some(json!({ "command": "ls" }))).to_string();
    let asked = server.next().await;
    asked
        .answer("200 OK\ncontent-type: application/json", &rewritten)
        .await;
    client
        .find("the client's hook", |frame| frame["data"]["request_id"] == "h-4")
        .await;
    let allow = json!({ "type": "control_response", "response": {
        "subtype": "success", "request_id": "h-4", "response": output(Some("allow"), None) } });
    client.send(&allow).await;
    rest.in_state(&id, &["idle"]).await;
    let log = approvals(&rest, &id, "how=hook").await;
    let by: Vec<&str> = log
        .iter()
        .map(|it| it["resolution"]["by"].as_str().unwrap())
        .collect();
    assert_eq!(by[..3], ["webhook:0", "fixed:1", "fixed:3"], "{log:#?}");
    assert!(by[3].starts_with("ws:") && by.len() == 4, "{by:?}");
    for (entry, state, ran, changed) in [
        (&log[0], "allowed", json!(LS), true),
        (&log[1], "denied", Value::Null, false),
        (&log[2], "changed", json!(LS), true),
        (&log[3], "allowed", json!(RM), false),
    ] {
        assert_eq!(
            (&entry["state"], &entry["subject"]),
            (&json!(state), &json!("Bash"))
        );
        assert_eq!(entry["input_sha256"], RM);
        assert_eq!(entry["resolution"]["ran_sha256"], ran, "{entry:#}");
        assert_eq!(entry["resolution"]["input_changed"], changed, "{entry:#}");
        assert!(entry["tool_use_id"].as_str().unwrap().starts_with("use-h-"));
    }
    assert!(approvals(&rest, &id, "how=cli").await.is_empty());
    assert!(approvals(&rest, &id, "state=pending").await.is_empty());
    let csv = rest
        .get(&format!("/v1/sessions/{id}/approvals?by=webhook:0"))
        .await
        .expect(200);
    assert_eq!(csv["items"].as_array().unwrap().len(), 1);
}

/// The CLI runs the call: it ends the turn behind it, or does not wait for the hook.
#[tokio::test]
async fn an_output_that_holds_no_call_up_is_no_denial() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut put_off = output(Some("deny"), None);
    put_off["async"] = json!(true);
    let outputs = [json!({ "continue": false, "stopReason": "enough" }), put_off];
    let hooks = outputs.map(|output| hook(json!({ "type": "fixed", "output": output })));
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    act_through(
        &rest,
        &id,
        json!([call("h-0", "trunkline/0"), call("h-1", "trunkline/1")]),
    )
    .await;
    let log = approvals(&rest, &id, "how=hook").await;
    assert!(log.is_empty(), "{log:#?}");
}

/// A question to the hook at this place, about this call.
fn asked(id: &str, call: &str, place: usize) -> Value {
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "rm x" },
        "tool_use_id": call });
    json!({ "id": id, "request": { "subtype": "hook_callback", "callback_id": format!("trunkline/{place}"),
        "input": input, "tool_use_id": call } })
}

/// The end of a call as the CLI tells it, with the reason for which it did not run, if it did not.
fn result_of(call: &str, held: Option<&str>) -> Value {
    let content =
        json!([{ "type": "tool_result", "tool_use_id": call, "content": "x", "is_error": held.is_some() }]);
    let mut line = json!({ "type": "user", "message": { "role": "user", "content": content } });
    if let Some(kind) = held {
        line["tool_result_meta"] = json!([{ "id": call, "non_execution_kind": kind }]);
    }
    json!({ "line": line })
}

/// Each entry's call, state and hash of what was let through.
fn told(log: &[Value]) -> Vec<(&str, &str, Option<&str>)> {
    log.iter()
        .map(|it| {
            let call = it["tool_use_id"].as_str().unwrap();
            let (state, ran) = (
                it["state"].as_str().unwrap(),
                it["resolution"]["ran_sha256"].as_str(),
            );
            (call, state, ran)
        })
        .collect()
}

#[tokio::test]
async fn a_call_that_others_held_is_not_said_to_have_run() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let outputs = [
        output(Some("allow"), None),
        output(Some("deny"), None),
        output(None, Some(json!({ "command": "ls" }))),
    ];
    let hooks = outputs.map(|output| hook(json!({ "type": "fixed", "output": output })));
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    let listed = ["use-rule", "use-changed", "use-old"]
        .map(|call| json!({ "tool_name": "Bash", "tool_use_id": call, "tool_input": { "command": "rm x" } }));
    let actions = json!([
        asked("h-0", "use-first", 0),
        asked("h-1", "use-first", 1),
        asked("h-2", "use-second", 1),
        asked("h-3", "use-second", 0),
        asked("h-4", "use-rule", 0),
        result_of("use-rule", Some("permission-rule")),
        asked("h-5", "use-changed", 2),
        result_of("use-changed", Some("user-rejected")),
        asked("h-6", "use-old", 0),
        asked("h-7", "use-ran", 0),
        result_of("use-ran", None),
        asked("h-8", "use-cut", 0),
        result_of("use-cut", Some("interrupted")),
        { "result": { "permission_denials": listed } },
    ]);
    act_through(&rest, &id, actions).await;
    let check = |log: &[Value]| {
        assert_eq!(
            told(log),
            [
                ("use-first", "overruled", None),
                ("use-first", "denied", None),
                ("use-second", "denied", None),
                ("use-second", "overruled", None),
                ("use-rule", "overruled", None),
                ("use-changed", "changed", None),
                ("use-old", "overruled", None),
                ("use-ran", "allowed", Some(RM)),
                ("use-cut", "allowed", Some(RM)),
            ]
        );
    };
    check(&approvals(&rest, &id, "how=hook").await);
    assert_eq!(approvals(&rest, &id, "state=overruled").await.len(), 4);
    daemon.kill();
    daemon.start().await;
    check(&approvals(&daemon.rest(), &id, "how=hook").await);
}

#[tokio::test]
async fn each_call_that_a_hook_put_off_is_in_the_log() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let outputs = [
        output(Some("defer"), None),
        output(Some("allow"), None),
        output(Some("defer"), Some(json!({ "command": "ls" }))),
    ];
    let hooks = outputs.map(|output| hook(json!({ "type": "fixed", "output": output })));
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    let named = json!({ "id": "use-2", "name": "Bash", "input": { "command": "rm x" } });
    let actions = json!([
        asked("h-1", "use-1", 0),
        asked("h-2", "use-1", 0),
        asked("h-3", "use-2", 0),
        asked("h-4", "use-3", 1),
        result_of("use-3", None),
        asked("h-5", "use-4", 2),
        { "result": { "terminal_reason": "tool_deferred", "deferred_tool_use": named } },
    ]);
    act(&rest, &id, actions).await;
    rest.in_state(&id, &["waiting"]).await;
    let check = |log: &[Value]| {
        let told: Vec<_> = log
            .iter()
            .map(|it| (it["tool_use_id"].as_str().unwrap(), it["state"].as_str().unwrap()))
            .collect();
        let expected = [
            ("use-1", "withdrawn"),
            ("use-4", "withdrawn"),
            ("use-2", "pending"),
        ];
        assert_eq!(told, expected, "{log:#?}");
        assert_eq!(
            (&log[0]["subject"], &log[0]["input_sha256"]),
            (&json!("Bash"), &json!(RM))
        );
        assert_eq!(log[0]["request"]["input"]["command"], "rm x");
        let end = &log[0]["resolution"];
        assert_eq!((&end["by"], &end["how"]), (&json!("cli"), &json!("withdrawal")));
    };
    // The hook that put a call off has changed it, too.
    assert_eq!(
        told(&approvals(&rest, &id, "how=hook").await),
        [("use-3", "allowed", Some(RM)), ("use-4", "changed", None)]
    );
    let withdrawn = r#"kind="deferred",how="withdrawal",by="cli""#;
    assert_eq!(counted(&rest, withdrawn).await, Some(2));
    check(&approvals(&rest, &id, "kind=deferred").await);
    daemon.kill();
    daemon.start().await;
    check(&approvals(&daemon.rest(), &id, "kind=deferred").await);
}

#[tokio::test]
async fn a_call_that_one_hook_allowed_and_another_put_off_is_overruled() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let hooks = ["allow", "defer"]
        .map(|decision| hook(json!({ "type": "fixed", "output": output(Some(decision), None) })));
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    let named = json!({ "id": "use-2", "name": "Bash", "input": { "command": "rm x" } });
    let actions = json!([
        asked("h-1", "use-1", 0),
        asked("h-2", "use-1", 1),
        asked("h-3", "use-2", 1),
        asked("h-4", "use-2", 0),
        { "result": { "terminal_reason": "tool_deferred", "deferred_tool_use": named } },
    ]);
    act(&rest, &id, actions).await;
    rest.in_state(&id, &["waiting"]).await;
    let expected = [("use-1", "overruled", None), ("use-2", "overruled", None)];
    assert_eq!(told(&approvals(&rest, &id, "how=hook").await), expected);
    daemon.kill();
    daemon.start().await;
    let log = approvals(&daemon.rest(), &id, "how=hook").await;
    assert_eq!(told(&log), expected);
}

#[tokio::test]
async fn a_call_whose_process_ended_before_a_person_decided_is_overruled() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let allow = hook(json!({ "type": "fixed", "output": output(Some("allow"), None) }));
    for ending in ["stop", "death"] {
        let id = session_with(&daemon, ending, json!({}), json!({ "hooks": [&allow] })).await;
        let actions = json!([
            asked("h-1", "use-1", 0),
            { "ask": { "tool": "Bash", "input": { "command": "rm x" }, "tool_use_ids": ["use-1"] } },
        ]);
        act(&rest, &id, actions).await;
        rest.pending_approval(&id).await;
        assert_eq!(
            told(&approvals(&rest, &id, "how=hook").await),
            [("use-1", "allowed", Some(RM))]
        );
        if ending == "stop" {
            rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        } else {
            proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
            rest.in_state(&id, &["failed"]).await;
        }
        assert_eq!(
            told(&approvals(&rest, &id, "").await),
            [("use-1", "overruled", None), ("use-1", "abandoned", None)],
            "{ending}"
        );
    }
}

#[tokio::test]
async fn a_denial_of_the_cli_is_in_the_log_once() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session_with(&daemon, "a", json!({}), json!({})).await;
    let content =
        json!([{ "type": "tool_use", "id": "use-1", "name": "Bash", "input": { "command": "rm x" } }]);
    let calls = json!({ "type": "assistant", "message": { "role": "assistant", "content": content } });
    let denied = json!({ "type": "system", "subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": "use-1",
        "decision_reason_type": "mode", "message": "not in this mode" });
    let listed = json!([
        { "tool_name": "Bash", "tool_use_id": "use-1", "tool_input": { "command": "rm x" } },
        { "tool_name": "Write", "tool_use_id": "use-2", "tool_input": { "command": "ls" } },
        { "tool_name": "Edit", "tool_use_id": "use-3", "tool_input": {} },
    ]);
    act_through(
        &rest,
        &id,
        json!([{ "line": calls }, { "line": denied }, { "result": { "permission_denials": listed } }]),
    )
    .await;
    let check = |log: &[Value]| {
        let what: Vec<_> = log
            .iter()
            .map(|it| {
                (
                    it["subject"].as_str().unwrap(),
                    it["tool_use_id"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(what, [("Bash", "use-1"), ("Write", "use-2"), ("Edit", "use-3")]);
        assert_eq!(
            (&log[0]["reason_type"], &log[0]["input_sha256"]),
            (&json!("mode"), &json!(RM))
        );
        assert_eq!(log[0]["request"]["tool_input"]["command"], "rm x");
        assert_eq!(log[1]["input_sha256"], LS);
        for entry in log {
            let end = &entry["resolution"];
            assert_eq!(
                (&entry["state"], &end["by"], &end["ran_sha256"]),
                (&json!("denied"), &json!("cli"), &Value::Null)
            );
        }
    };
    let mut log = approvals(&rest, &id, "how=cli").await;
    log.sort_by_key(|it| it["tool_use_id"].to_string());
    check(&log);
    // A daemon that reads the journal again makes no second entries.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let mut log = wait_for("the log is read", PATIENCE, async || {
        let log = approvals(&rest, &id, "how=cli").await;
        (!log.is_empty()).then_some(log)
    })
    .await;
    log.sort_by_key(|it| it["tool_use_id"].to_string());
    check(&log);
}

#[tokio::test]
async fn an_answer_has_the_hash_of_what_ran() {
    let (_daemon, rest, id) = plain().await;
    for (decision, ran) in [
        (json!({ "decision": "allow" }), json!(RM)),
        (
            json!({ "decision": "allow", "updated_input": { "command": "ls" } }),
            json!(LS),
        ),
        (json!({ "decision": "deny" }), Value::Null),
    ] {
        act(
            &rest,
            &id,
            json!([{ "ask": { "tool": "Bash", "input": { "command": "rm x" } } }]),
        )
        .await;
        let approval = rest.pending_approval(&id).await;
        let decided = rest
            .decide(&id, approval["id"].as_str().unwrap(), decision)
            .await
            .expect(200);
        assert_eq!(decided["input_sha256"], RM);
        assert_eq!(decided["resolution"]["ran_sha256"], ran, "{decided:#}");
        rest.in_state(&id, &["idle"]).await;
    }
}

/// The daemon's counter of decisions with these labels.
async fn counted(rest: &Rest, labels: &str) -> Option<u64> {
    let text = rest.get("/metrics").await.expect(200);
    let name = format!("trunkline_approvals_ended_total{{{labels}}} ");
    let mut lines = text.as_str().unwrap().lines();
    lines.find_map(|line| line.strip_prefix(&name)?.parse().ok())
}

#[tokio::test]
async fn what_hooks_decide_at_other_events_is_in_the_log() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let block = || json!({ "decision": "block", "reason": "no" });
    let specific = |event: &str, name: &str, value: Value| json!({ "hookSpecificOutput": { "hookEventName": event, name: value } });
    let cases = [
        ("UserPromptSubmit", json!({ "prompt": "hi" }), block()),
        ("Stop", json!({}), block()),
        ("SubagentStop", json!({ "agent_id": "a" }), block()),
        ("PreCompact", json!({ "trigger": "auto" }), block()),
        (
            "PostToolUse",
            json!({ "tool_name": "mcp__a__b", "tool_response": { "command": "rm x" }, "tool_use_id": "use-1" }),
            specific("PostToolUse", "updatedMCPToolOutput", json!({ "command": "ls" })),
        ),
        (
            "PreModelSwitch",
            json!({ "to_model": "m" }),
            specific("PreModelSwitch", "permissionDecision", json!("deny")),
        ),
        (
            "Elicitation",
            json!({ "mcp_server_name": "forms" }),
            specific("Elicitation", "action", json!("accept")),
        ),
        (
            "PreSkillShellCommand",
            json!({ "tool_name": "Bash", "tool_input": { "command": "rm x" }, "tool_use_id": "use-2" }),
            specific("PreSkillShellCommand", "updatedInput", json!({ "command": "ls" })),
        ),
        // No opinion, nothing that can be held up, and the same as it was.
        ("UserPromptSubmit", json!({ "prompt": "hi" }), json!({})),
        ("Notification", json!({ "message": "hi" }), block()),
        (
            "PostToolUse",
            json!({ "tool_name": "Bash", "tool_response": { "a": 1 } }),
            specific("PostToolUse", "updatedToolOutput", json!({ "a": 1 })),
        ),
    ];
    let hooks: Vec<Value> = cases
        .iter()
        .map(|(event, _, output)| json!({ "event": event, "target": { "type": "fixed", "output": output } }))
        .collect();
    let id = session_with(&daemon, "a", json!({}), json!({ "hooks": hooks })).await;
    let asked: Vec<Value> = cases
        .iter()
        .enumerate()
        .map(|(n, (event, input, _))| {
            let mut input = input.clone();
            input["hook_event_name"] = json!(event);
            json!({ "id": format!("h-{n}"), "request": { "subtype": "hook_callback", "input": input,
                "callback_id": format!("trunkline/{n}") } })
        })
        .collect();
    act_through(&rest, &id, Value::Array(asked)).await;
    let check = |log: &[Value]| {
        let told: Vec<_> = log
            .iter()
            .map(|it| {
                let by = it["resolution"]["by"].as_str().unwrap();
                format!("{} {} {} {by}", it["kind"], it["subject"], it["state"]).replace('"', "")
            })
            .collect();
        assert_eq!(
            told,
            [
                "hook UserPromptSubmit denied fixed:0",
                "hook Stop denied fixed:1",
                "hook SubagentStop denied fixed:2",
                "hook PreCompact denied fixed:3",
                "hook PostToolUse changed fixed:4",
                "hook PreModelSwitch denied fixed:5",
                "elicitation forms allowed fixed:6",
                "tool Bash changed fixed:7",
            ]
        );
        for changed in [&log[4], &log[7]] {
            assert_eq!(changed["input_sha256"], RM, "{changed:#}");
            assert_eq!(changed["resolution"]["ran_sha256"], LS, "{changed:#}");
        }
        assert_eq!(log[4]["resolution"]["input_changed"], false);
        assert_eq!(log[7]["resolution"]["input_changed"], true);
        assert_eq!(log[0]["requires_user_interaction"], false);
        assert_eq!(log[0]["request"]["input"]["prompt"], "hi");
        assert_eq!(log[0]["resolution"]["response"]["reason"], "no");
    };
    check(&approvals(&rest, &id, "how=hook").await);
    assert_eq!(approvals(&rest, &id, "kind=hook").await.len(), 6);
    assert!(approvals(&rest, &id, "state=pending").await.is_empty());
    for (labels, count) in [
        (r#"kind="hook",how="hook",by="fixed""#, 6),
        (r#"kind="elicitation",how="hook",by="fixed""#, 1),
        (r#"kind="tool",how="hook",by="fixed""#, 1),
    ] {
        assert_eq!(counted(&rest, labels).await, Some(count), "{labels}");
    }
    daemon.kill();
    daemon.start().await;
    check(&approvals(&daemon.rest(), &id, "how=hook").await);
}
