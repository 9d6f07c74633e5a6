//! Owns section P: permissions and questions, with several askers and several deciders.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, answer_heard, nothing_was_answered, of_type, path, pid, plain, records},
    support::{
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// Waits until so many approvals of the session are pending; oldest first.
async fn pending(rest: &Rest, session: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} pending approvals"), PATIENCE, async || {
        let view = rest.session(session).await;
        let items = view["pending_approvals"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

fn id_of(approval: &Value) -> &str {
    approval["id"].as_str().unwrap()
}

#[tokio::test]
async fn an_answer_is_completed_so_that_the_cli_takes_it() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            { "ask": { "ids": ["q-1"], "input": { "command": "ls", "timeout": 5 } } },
            { "ask": { "ids": ["q-2"] } },
        ]),
    )
    .await;
    pending(&rest, &id, 1).await;
    let answer = |request: &str, behavior: &str| json!({ "type": "control_response", "response": { "subtype": "success", "request_id": request, "response": { "behavior": behavior } } });
    client.send(&answer("q-1", "allow")).await;
    let heard = answer_heard(&mut client, "q-1").await;
    assert_eq!(heard["valid"], true, "{heard:#}");
    assert_eq!(
        heard["response"]["response"]["updatedInput"],
        json!({ "command": "ls", "timeout": 5 })
    );
    client
        .until("the second question", |frame| {
            frame["data"]["request_id"] == "q-2" && frame["src"] == "cli"
        })
        .await;
    client.send(&answer("q-2", "deny")).await;
    let heard = answer_heard(&mut client, "q-2").await;
    assert_eq!(heard["valid"], true, "{heard:#}");
    assert!(
        !heard["response"]["response"]["message"]
            .as_str()
            .unwrap()
            .is_empty()
    );
    client.cli_line("result").await;
}

#[tokio::test]
async fn parallel_requests_are_answered_in_any_order() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ["q-1", "q-2", "q-3"], "tool_use_ids": ["t-1", "t-1", "t-3"] } }]),
    )
    .await;
    let asked = pending(&rest, &id, 3).await;
    for (place, decision) in [(2, "allow"), (0, "deny"), (1, "allow")] {
        let decided = rest
            .decide(&id, id_of(&asked[place]), json!({ "decision": decision }))
            .await;
        decided.expect(200);
        let heard = answer_heard(&mut client, &format!("q-{}", place + 1)).await;
        assert_eq!(heard["response"]["response"]["behavior"], decision, "{heard:#}");
    }
    client.cli_line("result").await;
    assert_eq!(
        rest.in_state(&id, &["idle"]).await["pending_approvals"],
        json!([])
    );
}

#[tokio::test]
async fn a_request_that_was_withdrawn_is_dead() {
    let (daemon, rest, id) = plain().await;
    let gate = daemon.home().join("gate");
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([
            { "ask": { "ids": ["q-1"], "wait": false } },
            { "wait_file": gate },
            { "cancel": "never-heard-of" },
            { "cancel": "q-1" },
            { "silent": 1 },
        ]),
    )
    .await;
    let asked = pending(&rest, &id, 1).await;
    fs::write(&gate, "").unwrap();
    let told = client
        .until("the withdrawal", |frame| frame["data"]["type"] == "decision")
        .await
        .pop()
        .unwrap();
    assert_eq!(told["data"]["state"], "withdrawn", "{told:#}");
    let late = rest
        .decide(&id, id_of(&asked[0]), json!({ "decision": "allow" }))
        .await;
    assert_eq!(late.problem(409), "approval_not_pending");
    client
        .send(&json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "q-1", "response": { "behavior": "allow" } } }))
        .await;
    let refusal = client
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    let told = ["code", "state", "by"].map(|name| refusal[name].as_str().unwrap());
    assert_eq!(told, ["approval_not_pending", "withdrawn", "cli"]);
    let shown = rest
        .get(&path(&id, &format!("approvals/{}", id_of(&asked[0]))))
        .await
        .expect(200);
    assert_eq!(shown["state"], "withdrawn", "{shown:#}");
    nothing_was_answered(&rest, &id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_two_decisions_wins_and_all_learn_it() {
    let (daemon, rest, id) = plain().await;
    let mut viewer = daemon.attach(&id, None).await;
    for round in 0..5 {
        let request = format!("q-{round}");
        act(&rest, &id, json!([{ "ask": { "ids": [request] } }])).await;
        let asked = pending(&rest, &id, 1).await;
        let approval = id_of(&asked[0]);
        let (allow, deny) = tokio::join!(
            rest.decide(&id, approval, json!({ "decision": "allow" })),
            rest.decide(&id, approval, json!({ "decision": "deny", "message": "no" })),
        );
        let (winner, loser, state) = if allow.status == 200 {
            (allow, deny, "allowed")
        } else {
            (deny, allow, "denied")
        };
        assert_eq!(winner.expect(200)["state"], state);
        assert_eq!(loser.body["approval"]["state"], state, "{:#}", loser.body);
        assert_eq!(loser.problem(409), "already_decided");
        let again = rest.decide(&id, approval, json!({ "decision": "allow" })).await;
        assert_eq!(again.problem(409), "already_decided");
        let told = viewer
            .until("the decision", |frame| frame["data"]["type"] == "decision")
            .await
            .pop()
            .unwrap();
        assert_eq!(told["data"]["state"], state);
        assert_eq!(told["data"]["by"], "rest");
        rest.in_state(&id, &["idle"]).await;
    }
    let records = records(&rest, &id).await;
    let answers = of_type(&records, "cli", "fake_answer");
    assert_eq!(answers.len(), 5, "one answer per request");
    assert!(answers.iter().all(|answer| answer["expected"] == true));
}

#[tokio::test]
async fn the_death_of_the_cli_abandons_its_requests_and_leaves_a_way_out() {
    let (_daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    act(&rest, &id, json!([{ "ask": {} }])).await;
    let asked = pending(&rest, &id, 1).await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["pending_approvals"], json!([]));
    let shown = rest
        .get(&path(&id, &format!("approvals/{}", id_of(&asked[0]))))
        .await
        .expect(200);
    assert_eq!(shown["state"], "abandoned", "{shown:#}");
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    rest.ask(fork["id"].as_str().unwrap(), "on").await;
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "on").await;
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
}

#[tokio::test]
async fn a_question_is_answered_by_a_person_only() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    let questions = json!({ "questions": [
        { "question": "Which colour?", "header": "Colour", "multiSelect": false,
          "options": [{ "label": "red", "description": "r" }, { "label": "blue", "description": "b" }] },
        { "question": "Which sizes?", "header": "Sizes", "multiSelect": true,
          "options": [{ "label": "S", "description": "s" }, { "label": "L", "description": "l" }] },
    ] });
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ["q-1"], "tool": "AskUserQuestion", "input": questions } }]),
    )
    .await;
    let asked = pending(&rest, &id, 1).await;
    assert_eq!(asked[0]["kind"], "question");
    let answers = json!({ "Which colour?": "blue", "Which sizes?": "S, L" });
    rest.decide(
        &id,
        id_of(&asked[0]),
        json!({ "decision": "answer", "answers": answers }),
    )
    .await
    .expect(200);
    let heard = answer_heard(&mut client, "q-1").await;
    let input = &heard["response"]["response"]["updatedInput"];
    assert_eq!(input["answers"], answers, "{heard:#}");
    assert_eq!(input["questions"], questions["questions"]);
}
