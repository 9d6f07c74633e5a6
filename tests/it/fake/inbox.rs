//! Owns the tests of forms and dialogs: they wait for a person as permissions do.

use std::fs;

use serde_json::{Value, json};

use crate::{
    fake::bed::{
        act, answer_heard, nothing_was_answered, of_type, path, plain, records, session, session_with,
    },
    support::{
        browser_sdk::BrowserSdk,
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

const SCHEMA: &str = r#"{"type":"object","required":["name"],"properties":{
    "name":{"type":"string"},"size":{"type":"string","enum":["S","L"]},"age":{"type":"integer"}}}"#;

fn form() -> Value {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    json!({ "subtype": "elicitation", "mcp_server_name": "shop", "message": "Who?", "mode": "form",
            "requested_schema": schema })
}

fn dialog() -> Value {
    json!({ "subtype": "request_user_dialog", "dialog_kind": "pick", "payload": { "items": [1, 2] } })
}

async fn pending(rest: &Rest, session: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} pending approvals"), PATIENCE, async || {
        let list = rest
            .get(&path(session, "approvals?state=pending"))
            .await
            .expect(200);
        let mut items = list["items"].as_array().unwrap().clone();
        items.sort_by_key(|item| item["seq"].as_u64());
        (items.len() == count).then_some(items)
    })
    .await
}

fn id_of(approval: &Value) -> &str {
    approval["id"].as_str().unwrap()
}

fn raw_answer(request: &str, response: Value) -> Value {
    json!({ "type": "control_response",
            "response": { "subtype": "success", "request_id": request, "response": response } })
}

#[tokio::test]
async fn a_form_and_a_dialog_wait_for_a_person() {
    let daemon = TestDaemon::with_fake().start().await;
    let options = json!({ "supported_dialog_kinds": ["pick"] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let rest = daemon.rest();
    act(
        &rest,
        &id,
        json!([
            { "request": form(), "id": "f-1", "wait": false },
            { "request": dialog(), "id": "d-1", "wait": false },
            { "wait_answer": "f-1" },
            { "wait_answer": "d-1" },
        ]),
    )
    .await;
    let asked = pending(&rest, &id, 2).await;
    assert_eq!(
        (&asked[0]["kind"], &asked[0]["subject"]),
        (&json!("elicitation"), &json!("shop"))
    );
    assert_eq!(
        (&asked[1]["kind"], &asked[1]["subject"]),
        (&json!("dialog"), &json!("pick"))
    );
    assert_eq!(asked[1]["payload"], json!({ "items": [1, 2] }));
    assert_eq!(rest.session(&id).await["state"], "waiting");
    let mut client = daemon.attach(&id, Some(0)).await;
    // In any order.
    let result = json!({ "decision": "complete", "result": { "item": 2 } });
    rest.decide(&id, id_of(&asked[1]), result).await.expect(200);
    let heard = answer_heard(&mut client, "d-1").await;
    assert_eq!(
        heard["response"]["response"],
        json!({ "behavior": "completed", "result": { "item": 2 } })
    );
    let content = json!({ "decision": "accept", "content": { "name": "Ada", "size": "S", "age": 36 } });
    rest.decide(&id, id_of(&asked[0]), content).await.expect(200);
    let heard = answer_heard(&mut client, "f-1").await;
    assert_eq!(heard["response"]["response"]["action"], "accept", "{heard:#}");
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "daemon", "fallback").len(), 0);
    assert_eq!(of_type(&records, "cli", "fake_answer").len(), 2, "once each");
    assert_eq!(of_type(&records, "daemon", "approval")[0]["subject"], "shop");
}

#[tokio::test]
async fn a_wrong_answer_leaves_a_form_and_a_dialog_open() {
    let (daemon, rest, id) = plain().await;
    act(
        &rest,
        &id,
        json!([
            { "request": form(), "id": "f-1", "wait": false },
            { "request": dialog(), "id": "d-1", "wait": false },
            { "ask": { "ids": ["q-1"] } },
        ]),
    )
    .await;
    let asked = pending(&rest, &id, 3).await;
    let (form, dialog, tool) = (id_of(&asked[0]), id_of(&asked[1]), id_of(&asked[2]));
    let accept = |content: Value| json!({ "decision": "accept", "content": content });
    for (approval, decision, said) in [
        (form, json!({ "decision": "accept" }), "name is missing"),
        (form, accept(json!({})), "name is missing"),
        (form, accept(json!([])), "must be an object"),
        (form, accept(json!({ "name": 7 })), "name must be a string"),
        (form, accept(json!({ "name": null })), "name must be a string"),
        (
            form,
            accept(json!({ "name": "A", "size": "M" })),
            "size is none of the choices",
        ),
        (
            form,
            accept(json!({ "name": "A", "age": 1.5 })),
            "age must be an integer",
        ),
        (form, json!({ "decision": "allow" }), "accept, decline or cancel"),
        (form, json!({ "decision": "deny" }), "accept, decline or cancel"),
        (
            form,
            json!({ "decision": "complete", "result": {} }),
            "accept, decline or cancel",
        ),
        (
            form,
            json!({ "decision": "decline", "content": {} }),
            "content does not go",
        ),
        (dialog, json!({ "decision": "complete" }), "result is missing"),
        (dialog, json!({ "decision": "accept" }), "complete or cancel"),
        (dialog, json!({ "decision": "decline" }), "complete or cancel"),
        (tool, json!({ "decision": "accept" }), "allow or deny"),
        (tool, json!({ "decision": "cancel" }), "allow or deny"),
        (tool, json!({ "decision": "allow", "plan": "x" }), "allow or deny"),
        (
            tool,
            json!({ "decision": "answer", "skipped": ["x"] }),
            "allow or deny",
        ),
    ] {
        let reply = rest.decide(&id, approval, decision.clone()).await;
        let detail = reply.body["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains(said), "{decision}: {detail}");
        assert_eq!(reply.problem(400), "invalid_decision");
    }
    let mut client = daemon.attach(&id, None).await;
    for (request, answer) in [
        ("f-1", json!({ "behavior": "allow" })),
        ("f-1", json!({ "action": "accept", "content": { "name": 7 } })),
        ("d-1", json!({ "action": "accept" })),
        ("d-1", json!({ "behavior": "completed" })),
    ] {
        client.send(&raw_answer(request, answer.clone())).await;
        let error = client
            .find("a refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(error["code"], "invalid_decision", "{answer}: {error:#}");
    }
    pending(&rest, &id, 3).await;
    let written = records(&rest, &id).await;
    assert_eq!(of_type(&written, "client", "control_response").len(), 0);
    // By raw answers of a client.
    client
        .send(&raw_answer("f-1", json!({ "action": "cancel" })))
        .await;
    answer_heard(&mut client, "f-1").await;
    client
        .send(&raw_answer("d-1", json!({ "behavior": "cancelled" })))
        .await;
    answer_heard(&mut client, "d-1").await;
    let left = pending(&rest, &id, 1).await;
    assert_eq!(left[0]["kind"], "tool");
    for approval in [form, dialog] {
        let shown = rest
            .get(&path(&id, &format!("approvals/{approval}")))
            .await
            .expect(200);
        assert_eq!(shown["state"], "cancelled", "{shown:#}");
        assert!(shown["resolution"]["by"].as_str().unwrap().starts_with("ws:"));
    }
}

#[tokio::test]
async fn a_form_that_was_withdrawn_is_dead() {
    let (daemon, rest, id) = plain().await;
    let gate = daemon.home().join("gate");
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            { "request": form(), "id": "f-1", "wait": false },
            { "request": dialog(), "id": "d-1", "wait": false },
            { "wait_file": gate },
            { "cancel": "f-1" },
            { "cancel": "d-1" },
            { "silent": 1 },
        ]),
    )
    .await;
    let asked = pending(&rest, &id, 2).await;
    fs::write(&gate, "").unwrap();
    for _ in 0..2 {
        let told = client
            .until("the withdrawal", |frame| frame["data"]["type"] == "decision")
            .await;
        assert_eq!(told.last().unwrap()["data"]["state"], "withdrawn");
    }
    for (approval, decision) in [
        (
            &asked[0],
            json!({ "decision": "accept", "content": { "name": "A" } }),
        ),
        (&asked[1], json!({ "decision": "cancel" })),
    ] {
        let late = rest.decide(&id, id_of(approval), decision).await;
        assert_eq!(
            late.body["approval"]["resolution"]["how"], "withdrawal",
            "{:#}",
            late.body
        );
        assert_eq!(late.problem(409), "approval_not_pending");
    }
    nothing_was_answered(&rest, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_two_answers_to_a_form_wins() {
    let (_daemon, rest, id) = plain().await;
    act(&rest, &id, json!([{ "request": form(), "id": "f-1" }])).await;
    let asked = pending(&rest, &id, 1).await;
    let approval = id_of(&asked[0]);
    let (accept, decline) = tokio::join!(
        rest.decide(
            &id,
            approval,
            json!({ "decision": "accept", "content": { "name": "A" } })
        ),
        rest.decide(&id, approval, json!({ "decision": "decline" })),
    );
    let (state, loser) = if accept.status == 200 {
        ("allowed", decline)
    } else {
        assert_eq!(decline.status, 200);
        ("denied", accept)
    };
    assert_eq!(loser.body["approval"]["state"], state, "{:#}", loser.body);
    assert_eq!(loser.problem(409), "already_decided");
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "cli", "fake_answer").len(), 1, "one answer");
}

/// Requests that wait go on waiting when the daemon is killed, and the next one answers each once.
#[tokio::test]
async fn what_waits_outlives_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let questions = json!({ "questions": [{ "question": "Which?", "header": "W", "multiSelect": false,
        "options": [{ "label": "a", "description": "a" }, { "label": "b", "description": "b" }] }] });
    act(
        &rest,
        &id,
        json!([
            { "request": form(), "id": "f-1", "wait": false },
            { "request": dialog(), "id": "d-1", "wait": false },
            { "ask": { "ids": ["q-1"], "tool": "AskUserQuestion", "input": questions } },
            { "ask": { "ids": ["p-1"], "tool": "ExitPlanMode", "input": { "plan": "old" } } },
            { "wait_answer": "f-1" },
            { "wait_answer": "d-1" },
        ]),
    )
    .await;
    let before = pending(&rest, &id, 3).await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(pending(&rest, &id, 3).await, before);
    let answers = json!({ "decision": "answer", "answers": { "Which?": "b" } });
    rest.decide(&id, id_of(&before[2]), answers).await.expect(200);
    let plan = pending(&rest, &id, 3).await.pop().unwrap();
    assert_eq!((&plan["kind"], &plan["plan"]), (&json!("plan"), &json!("old")));
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    for (approval, decision) in [
        (
            &plan,
            json!({ "decision": "allow", "plan": "new", "next_mode": "acceptEdits" }),
        ),
        (
            &before[0],
            json!({ "decision": "accept", "content": { "name": "Ada" } }),
        ),
        (&before[1], json!({ "decision": "complete", "result": 7 })),
    ] {
        rest.decide(&id, id_of(approval), decision).await.expect(200);
    }
    rest.in_state(&id, &["idle"]).await;
    let records = records(&rest, &id).await;
    let heard = of_type(&records, "cli", "fake_answer");
    assert_eq!(heard.len(), 4, "{heard:#?}");
    assert!(
        heard
            .iter()
            .all(|it| it["expected"] == true && it["valid"] == true),
        "{heard:#?}"
    );
    let of_plan = heard.iter().find(|it| it["request_id"] == "p-1").unwrap();
    let answer = &of_plan["response"]["response"];
    assert_eq!(answer["updatedInput"]["plan"], "new");
    assert_eq!(answer["updatedPermissions"][0]["mode"], "acceptEdits");
}

#[tokio::test]
async fn forms_and_dialogs_end_with_the_process() {
    let (_daemon, rest, id) = plain().await;
    act(
        &rest,
        &id,
        json!([{ "request": form(), "id": "f-1", "wait": false }, { "request": dialog(), "id": "d-1" }]),
    )
    .await;
    let asked = pending(&rest, &id, 2).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    for approval in &asked {
        let shown = rest
            .get(&path(&id, &format!("approvals/{}", id_of(approval))))
            .await
            .expect(200);
        assert_eq!(shown["state"], "abandoned", "{shown:#}");
        assert_eq!(shown["resolution"]["how"], "abandonment");
    }
}

/// A request says which sub-agent it comes from.
#[tokio::test]
async fn a_request_of_a_sub_agent_is_in_the_inbox() {
    let (_daemon, rest, id) = plain().await;
    let extra = json!({ "agent_id": "agent-7", "blocked_path": "/etc/hosts", "decision_reason": "outside" });
    act(&rest, &id, json!([{ "ask": { "ids": ["q-1"], "extra": extra } }])).await;
    let asked = rest.pending_approval(&id).await;
    for (field, value) in [
        ("agent_id", "agent-7"),
        ("blocked_path", "/etc/hosts"),
        ("reason", "outside"),
    ] {
        assert_eq!(asked[field], value, "{asked:#}");
    }
    assert!(asked["tool_use_id"].as_str().unwrap().starts_with("toolu_"));
}

#[tokio::test]
async fn the_browser_sdk_answers_a_dialog() {
    let daemon = TestDaemon::with_fake().start().await;
    let options = json!({ "supported_dialog_kinds": ["pick"] });
    let id = session_with(&daemon, "sdk", json!({}), options).await;
    let outcome = BrowserSdk::start(&daemon, &id, "dialog").outcome().await;
    assert_eq!(outcome["asked"], json!([["pick", { "items": [1, 2] }]]));
    let records = records(&daemon.rest(), &id).await;
    let answers = of_type(&records, "cli", "fake_answer");
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(
        answers[0]["response"]["response"],
        json!({ "behavior": "completed", "result": { "picked": 2 } })
    );
}
