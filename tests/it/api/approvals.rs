//! Owns decisions: who may decide what, once, and that a wrong one changes nothing.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    api::common::{asking, id_of, problem},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// A session that waits for a person, and the approval.
async fn waiting(daemon: &TestDaemon, rest: &Rest, name: &str) -> (String, String) {
    let session = rest
        .create(json!({"cwd": daemon.work_dir(name), "prompt": asking()}))
        .await;
    let id = id_of(&session);
    let approval = id_of(&rest.pending_approval(&id).await);
    (id, approval)
}

/// The answers that the CLI got, byte for byte.
async fn answers(rest: &Rest, id: &str) -> Vec<Value> {
    let records = rest.events(id, 0).await;
    let answers = records
        .into_iter()
        .filter(|it| it["data"]["type"] == "fake_answer");
    answers.map(|mut it| it["data"].take()).collect()
}

#[tokio::test]
async fn a_wrong_decision_leaves_the_approval_pending() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&daemon, &rest, "a").await;
    let (other, _) = waiting(&daemon, &rest, "b").await;
    for (decision, code) in [
        (json!({}), "invalid_field"),
        (json!({"decision": "maybe"}), "invalid_field"),
        (json!({"decision": "allow", "input": {}}), "invalid_field"),
        (json!({"decision": "allow", "message": "x"}), "invalid_decision"),
        (
            json!({"decision": "deny", "updated_input": {}}),
            "invalid_decision",
        ),
        (json!({"decision": "answer"}), "invalid_decision"),
        (
            json!({"decision": "answer", "answers": {"q": "a"}}),
            "invalid_decision",
        ),
        (
            json!({"decision": "allow", "updated_input": "rm -rf"}),
            "invalid_decision",
        ),
        (
            json!({"decision": "allow", "updated_input": []}),
            "invalid_decision",
        ),
        (
            json!({"decision": "allow", "updated_permissions": {}}),
            "invalid_decision",
        ),
        (
            json!({"decision": "allow", "updated_permissions": [{"type": "setMode", "mode": "acceptEdits"}]}),
            "invalid_decision",
        ),
    ] {
        let status = if code == "invalid_field" { 422 } else { 400 };
        problem(rest.decide(&id, &approval, decision.clone()).await, status, code);
    }
    let allow = json!({"decision": "allow"});
    problem(
        rest.decide(&id, &Uuid::now_v7().to_string(), allow.clone()).await,
        404,
        "approval_not_found",
    );
    problem(
        rest.decide(&other, &approval, allow.clone()).await,
        404,
        "approval_not_found",
    );
    let of_other = rest
        .get(&format!("/v1/sessions/{other}/approvals/{approval}"))
        .await;
    problem(of_other, 404, "approval_not_found");
    assert!(
        answers(&rest, &id).await.is_empty(),
        "a refused decision reached the CLI"
    );
    let view = rest.session(&id).await;
    assert_eq!(
        (&view["state"], &view["pending_approvals"][0]["id"]),
        (&json!("waiting"), &json!(approval))
    );

    let decided = rest.decide(&id, &approval, allow).await.expect(200);
    assert_eq!(
        (&decided["state"], &decided["resolution"]["by"]),
        (&json!("allowed"), &json!("rest"))
    );
    rest.in_state(&id, &["idle"]).await;
    let answers = answers(&rest, &id).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (&answers[0]["expected"], &answers[0]["valid"]),
        (&json!(true), &json!(true)),
        "{answers:#?}"
    );
    // The input goes back as it came.
    let raw = answers[0]["raw"].as_str().unwrap();
    assert!(
        raw.contains(r#""updatedInput":{"command":"make  all","n":1.0}"#),
        "{raw}"
    );
}

#[tokio::test]
async fn the_first_decision_stands_and_the_others_are_told_which() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (id, approval) = waiting(&daemon, &rest, "a").await;
    let decisions = (0..8).map(|n| {
        let decision = if n % 2 == 0 {
            json!({"decision": "allow"})
        } else {
            json!({"decision": "deny", "message": "no"})
        };
        rest.decide(&id, &approval, decision)
    });
    let replies = futures_util::future::join_all(decisions).await;
    let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|it| it.status == 200);
    assert_eq!(won.len(), 1);
    let state = won[0].body["state"].clone();
    for reply in lost {
        let found = problem(reply, 409, "already_decided");
        assert_eq!(found["approval"]["state"], state, "{found:#}");
        assert_eq!(found["approval"]["resolution"]["by"], "rest");
    }
    rest.in_state(&id, &["idle"]).await;
    let late = problem(
        rest.decide(&id, &approval, json!({"decision": "deny"})).await,
        409,
        "already_decided",
    );
    assert_eq!(late["approval"]["state"], state);
    assert_eq!(answers(&rest, &id).await.len(), 1, "the CLI was answered twice");
    let shown = rest
        .get(&format!("/v1/sessions/{id}/approvals/{approval}"))
        .await
        .expect(200);
    assert_eq!(shown["state"], state);
    // Also once the session is stopped.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    problem(
        rest.decide(&id, &approval, json!({"decision": "allow"})).await,
        409,
        "already_decided",
    );
}

#[tokio::test]
async fn what_was_withdrawn_or_abandoned_takes_no_decision() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let prompt = fake_prompt(&json!([
        {"ask": {"ids": ["one"], "wait": false}}, {"wait_file": daemon.home().join("gate")}, {"cancel": "one"},
        {"text": "never mind"}
    ]));
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("a"), "prompt": prompt}))
            .await,
    );
    let approval = id_of(&rest.pending_approval(&id).await);
    std::fs::write(daemon.home().join("gate"), "").unwrap();
    let gone = wait_for("the request is withdrawn", PATIENCE, async || {
        let shown = rest
            .get(&format!("/v1/sessions/{id}/approvals/{approval}"))
            .await
            .expect(200);
        (shown["state"] != "pending").then_some(shown)
    })
    .await;
    assert_eq!(
        (&gone["state"], &gone["resolution"]["by"]),
        (&json!("withdrawn"), &json!("cli"))
    );
    let late = problem(
        rest.decide(&id, &approval, json!({"decision": "allow"})).await,
        409,
        "approval_not_pending",
    );
    assert_eq!(late["approval"]["state"], "withdrawn");
    assert!(
        answers(&rest, &id).await.is_empty(),
        "a withdrawn request was answered"
    );

    let (id, approval) = waiting(&daemon, &rest, "b").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let late = problem(
        rest.decide(&id, &approval, json!({"decision": "allow"})).await,
        409,
        "approval_not_pending",
    );
    assert_eq!(late["approval"]["state"], "abandoned");
    let pending = rest.get("/v1/approvals?state=pending").await.expect(200);
    assert_eq!(pending["items"], json!([]));
}

#[tokio::test]
async fn parallel_requests_are_answered_in_any_order() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let prompt =
        fake_prompt(&json!([{"ask": {"ids": ["r1", "r2", "r3"], "tool_use_ids": ["t1", "t1", "t3"]}}]));
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("a"), "prompt": prompt}))
            .await,
    );
    let pending = wait_for("three requests are pending", PATIENCE, async || {
        let list = rest
            .get(&format!("/v1/sessions/{id}/approvals?state=pending"))
            .await
            .expect(200);
        let mut items = list["items"].as_array().unwrap().clone();
        items.sort_by_key(|it| it["seq"].as_u64());
        (items.len() == 3).then_some(items)
    })
    .await;
    for (index, decision) in [
        (2, json!({"decision": "deny", "message": "not that"})),
        (0, json!({"decision": "allow"})),
        (1, json!({"decision": "deny"})),
    ] {
        rest.decide(&id, &id_of(&pending[index]), decision)
            .await
            .expect(200);
    }
    rest.in_state(&id, &["idle"]).await;
    let answers = answers(&rest, &id).await;
    let told: Vec<_> = answers
        .iter()
        .map(|it| {
            (
                it["request_id"].as_str().unwrap(),
                it["response"]["response"]["behavior"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("r3", "deny"), ("r1", "allow"), ("r2", "deny")]);
    assert!(answers.iter().all(|it| it["valid"] == true), "{answers:#?}");
}
