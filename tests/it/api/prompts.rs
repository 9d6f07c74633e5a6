//! Owns messages at their limits: too large, sent twice, sent where nobody reads.

use serde_json::json;
use uuid::Uuid;

use crate::{
    api::common::{assert_nothing_made, endless, id_of, problem},
    support::{daemon::TestDaemon, rest::Rest},
};

const LIMIT: usize = 64 * 1024;

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", LIMIT.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w");
    let over = "x".repeat(LIMIT + 1);
    let blocks = json!([{"type": "text", "text": over}]);
    for prompt in [json!(over), json!({"text": over}), json!({"content": blocks})] {
        let found = problem(
            rest.post("/v1/sessions", json!({"cwd": cwd, "prompt": prompt}))
                .await,
            413,
            "prompt_too_large",
        );
        assert_eq!(found["limit_bytes"], LIMIT);
    }
    let beyond = json!({"cwd": cwd, "prompt": "x".repeat(LIMIT + 2 * 1024 * 1024)});
    problem(rest.post("/v1/sessions", beyond).await, 413, "body_too_large");
    assert_nothing_made(&daemon).await;

    let id = rest.create_ready(json!({"cwd": cwd})).await;
    let messages = format!("/v1/sessions/{id}/messages");
    problem(
        rest.post(&messages, json!({"text": over})).await,
        413,
        "prompt_too_large",
    );
    problem(
        rest.post(&messages, json!({"content": blocks})).await,
        413,
        "prompt_too_large",
    );
    let title = json!({"title": "x".repeat(2 * 1024 * 1024)});
    problem(
        rest.patch(&format!("/v1/sessions/{id}"), title).await,
        413,
        "body_too_large",
    );
    let answer = rest.ask(&id, &"x".repeat(LIMIT)).await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    assert_eq!(rest.turns(&id).await.len(), 1);
}

#[tokio::test]
async fn a_message_that_is_none_is_refused_in_a_session_too() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let messages = format!("/v1/sessions/{id}/messages");
    for (body, code) in [
        (json!({}), "empty_prompt"),
        (json!({"text": "\n"}), "empty_prompt"),
        (json!({"content": []}), "empty_prompt"),
        (json!({"content": {}}), "invalid_field"),
        (json!({"content": [null]}), "invalid_field"),
        (json!({"content": [["x"]]}), "invalid_field"),
        (json!({"text": "x", "role": "assistant"}), "invalid_field"),
        (json!({"text": "x", "uuid": "1"}), "invalid_field"),
        (json!({"text": "x", "priority": "urgent"}), "invalid_field"),
        (json!([]), "invalid_field"),
    ] {
        problem(rest.post(&messages, body).await, 422, code);
    }
    assert!(rest.turns(&id).await.is_empty());
    assert_eq!(rest.session(&id).await["state"], "idle");
}

#[tokio::test]
async fn the_same_id_runs_once_and_with_other_words_it_is_a_conflict() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let uuid = Uuid::new_v4();
    let first = send(&rest, &id, uuid, "one").await.expect(202);
    assert_eq!(first["repeated"], false);
    let again = send(&rest, &id, uuid, "one").await.expect(202);
    assert_eq!((&again["seq"], &again["repeated"]), (&first["seq"], &json!(true)));
    let other = problem(send(&rest, &id, uuid, "two").await, 409, "prompt_conflict");
    assert_eq!(other["uuid"], uuid.to_string());
    rest.in_state(&id, &["idle"]).await;
    problem(send(&rest, &id, uuid, "two").await, 409, "prompt_conflict");

    // At once and by many: one turn.
    let uuid = Uuid::new_v4();
    let sends = (0..8).map(|_| send(&rest, &id, uuid, "many"));
    let replies = futures_util::future::join_all(sends).await;
    let fresh = replies
        .into_iter()
        .map(|reply| reply.expect(202))
        .filter(|it| it["repeated"] == false);
    assert_eq!(fresh.count(), 1);
    rest.in_state(&id, &["idle"]).await;

    // Stopped and resumed, the daemon still knows it.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let stopped = send(&rest, &id, uuid, "many").await.expect(202);
    assert_eq!(stopped["repeated"], true, "a repeat needs no process");
    problem(send(&rest, &id, uuid, "other").await, 409, "prompt_conflict");
    rest.post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    assert_eq!(send(&rest, &id, uuid, "many").await.expect(202)["repeated"], true);
    problem(send(&rest, &id, uuid, "other").await, 409, "prompt_conflict");
    rest.ask(&id, "last").await;
    assert_eq!(rest.turns(&id).await.len(), 3, "a repeat was run again");
}

async fn send(rest: &Rest, id: &str, uuid: Uuid, text: &str) -> crate::support::rest::Reply {
    rest.post(
        &format!("/v1/sessions/{id}/messages"),
        json!({"text": text, "uuid": uuid}),
    )
    .await
}

#[tokio::test]
async fn a_wait_ends_at_its_limit_and_the_work_goes_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = json!({"cwd": daemon.work_dir("w"), "prompt": endless()});
    let path = "/v1/sessions?wait=result&timeout_ms=300";
    let found = problem(rest.post(path, session).await, 504, "wait_timeout");
    assert_eq!(found["side_effect_possible"], true);
    let id = found["session_id"].as_str().expect("the session's id").to_owned();
    let uuid = found["uuid"].as_str().expect("the message's id").to_owned();
    rest.in_turn(&id).await;

    let wait = json!({"text": "later", "uuid": Uuid::new_v4()});
    let messages = format!("/v1/sessions/{id}/messages?wait=result");
    let found = problem(
        rest.post(&format!("{messages}&timeout_ms=200"), wait.clone())
            .await,
        504,
        "wait_timeout",
    );
    assert_eq!(found["uuid"], wait["uuid"]);
    rest.lifecycle(&id, "interrupt", json!({})).await.expect(200);
    // The same message again waits on for its turn; it is not run twice.
    let answer = rest.post(&messages, wait).await.expect(200);
    assert_eq!(answer["repeated"], true);
    assert_eq!(answer["turn"]["subtype"], "success", "{answer:#}");
    let turns = rest.turns(&id).await;
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert_eq!(turns[0]["prompts"], json!([uuid]));
}

#[tokio::test]
async fn a_session_without_a_process_takes_no_message_and_says_how_to_go_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("w"), "prompt": "hello"}))
            .await,
    );
    rest.in_state(&id, &["idle"]).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let head = rest.session(&id).await["head_seq"].clone();
    for path in ["messages", "messages?wait=result"] {
        let found = problem(
            rest.post(&format!("/v1/sessions/{id}/{path}"), json!({"text": "x"}))
                .await,
            409,
            "session_not_live",
        );
        assert_eq!(found["state"], "stopped");
    }
    problem(
        rest.put(&format!("/v1/sessions/{id}/model"), json!({"model": "m"}))
            .await,
        409,
        "session_not_live",
    );
    problem(
        rest.post(
            &format!("/v1/sessions/{id}/control"),
            json!({"subtype": "get_context_usage"}),
        )
        .await,
        409,
        "session_not_live",
    );
    assert_eq!(
        rest.session(&id).await["head_seq"],
        head,
        "a refused message left a record"
    );
}
