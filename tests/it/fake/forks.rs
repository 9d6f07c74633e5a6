//! Owns where a fork begins, and that one which cannot begin leaves nothing.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, plain, session},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

async fn sessions(rest: &Rest) -> usize {
    let list = rest.get("/v1/sessions").await.expect(200);
    list["items"].as_array().unwrap().len()
}

/// The id of the last message of the agent.
async fn last_answer(rest: &Rest, id: &str) -> String {
    let page = rest.get(&format!("/v1/sessions/{id}/messages")).await.expect(200);
    let items = page["items"].as_array().unwrap();
    let answer = items.iter().rev().find(|item| item["role"] == "assistant");
    answer.unwrap()["uuid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_fork_that_cannot_begin_leaves_nothing() {
    let (_daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([{ "text": "one" }])).await;
    let old = last_answer(&rest, &id).await;
    let line = json!({ "line": {
        "type": "system", "subtype": "compact_boundary", "session_id": "$SESSION_ID", "uuid": "$UUID",
        "compact_metadata": { "trigger": "manual", "pre_tokens": 100 },
    } });
    let sub = "bbbbbbbb-0000-4000-8000-0000000000aa";
    let of_sub_agent = json!({ "line": {
        "type": "assistant", "session_id": "$SESSION_ID", "uuid": sub, "parent_tool_use_id": "toolu_1",
        "message": { "id": "msg_sub", "model": "m", "role": "assistant", "content": [] },
    } });
    act_through(&rest, &id, json!([line, of_sub_agent, { "text": "two" }])).await;
    for (at, status, code) in [
        (old.as_str(), 422, "message_not_forkable"),
        (sub, 422, "message_not_forkable"),
        ("bbbbbbbb-0000-4000-8000-0000000000bb", 404, "message_not_found"),
    ] {
        for wait in ["", "?wait=ready"] {
            let reply = rest
                .lifecycle(&id, &format!("fork{wait}"), json!({ "at": at }))
                .await;
            assert_eq!(reply.body["uuid"], at, "{:#}", reply.body);
            assert_eq!(reply.problem(status), code);
        }
    }
    assert_eq!(sessions(&rest).await, 1);
    let at = last_answer(&rest, &id).await;
    rest.lifecycle(&id, "fork?wait=ready", json!({ "at": at }))
        .await
        .expect(201);
}

/// The CLI is asked for the conversation in which the message is.
#[tokio::test]
async fn a_fork_asks_for_the_conversation_of_its_message() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let id = session(&daemon, "a", json!({ "dump": dump })).await;
    act_through(&rest, &id, json!([{ "text": "one" }])).await;
    let (first, at) = (
        rest.session(&id).await["cli"]["session_id"].clone(),
        last_answer(&rest, &id).await,
    );
    rest.ask(&id, "/clear").await;
    act_through(&rest, &id, json!([{ "text": "two" }])).await;
    let second = rest.session(&id).await["cli"]["session_id"].clone();
    assert_ne!(first, second);
    for (at, conversation) in [(at, first), (last_answer(&rest, &id).await, second)] {
        let fork = rest
            .lifecycle(&id, "fork?wait=ready", json!({ "at": at }))
            .await
            .expect(201);
        assert_eq!(fork["forked_at"], json!(at));
        let starts = fs::read_to_string(&dump).unwrap();
        let start = starts.lines().last().unwrap();
        let conversation = conversation.as_str().unwrap();
        assert!(start.contains(&format!("--resume={conversation}")), "{start}");
        assert!(start.contains(&format!("--resume-session-at={at}")), "{start}");
    }
}

/// Only the CLI knows what is in a conversation that was begun elsewhere. It is asked once.
#[tokio::test]
async fn a_fork_that_the_cli_refuses_leaves_nothing() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let first = session(&daemon, "a", json!({})).await;
    act_through(&rest, &first, json!([{ "text": "one" }])).await;
    let conversation = rest.session(&first).await["cli"]["session_id"].clone();
    rest.delete(&format!("/v1/sessions/{first}")).await.expect(204);

    let dump = daemon.home().join("dump");
    let refusal = json!({ "line": {
        "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0,
        "errors": ["No message found with message.uuid of: x"], "session_id": "$SESSION_ID", "uuid": "$UUID",
    } });
    let refuses = json!({ "dump": dump, "start": [refusal, { "exit": 1 }] });
    let settings = json!({ "starts": [{}, refuses] });
    let made = rest
        .create(body(&daemon, "a", settings, json!({ "resume": conversation })))
        .await;
    let id = made["id"].as_str().unwrap().to_owned();
    let at = "bbbbbbbb-0000-4000-8000-0000000000bb";
    let reply = rest.lifecycle(&id, "fork", json!({ "at": at })).await;
    assert_eq!(reply.problem(404), "message_not_found");
    assert_eq!(fs::read_to_string(&dump).unwrap().lines().count(), 1);
    assert_eq!(sessions(&rest).await, 1);
}

/// A process that was killed early has kept no conversation.
#[tokio::test]
async fn a_fork_of_an_unkept_conversation_leaves_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "save": "never" })).await;
    act(&rest, &id, json!([{ "text": "half" }, { "exit": 1 }])).await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["turns"], 1, "{view:#}");
    let reply = rest.lifecycle(&id, "fork", json!({})).await;
    assert_eq!(reply.problem(404), "conversation_not_found");
    assert_eq!(sessions(&rest).await, 1);
    let _: Value = rest.session(&id).await;
}

/// Somebody removed the file in which the CLI had kept it.
#[tokio::test]
async fn a_fork_of_a_conversation_that_is_gone_leaves_nothing() {
    let (daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([{ "text": "one" }])).await;
    let conversation = rest.session(&id).await["cli"]["session_id"].clone();
    let file = format!(".claude-fake/{}.jsonl", conversation.as_str().unwrap());
    fs::remove_file(daemon.home().join(file)).unwrap();
    for state in ["idle", "stopped"] {
        if state == "stopped" {
            rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        }
        for (route, body) in [
            ("fork", json!({})),
            ("fork?wait=result", json!({ "prompt": "go on" })),
        ] {
            let reply = rest.lifecycle(&id, route, body).await;
            assert_eq!(reply.problem(404), "conversation_not_found", "{state}, {route}");
        }
        assert_eq!(sessions(&rest).await, 1, "{state}");
        let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap();
        assert_eq!(folders.count(), 1, "{state}");
        assert_eq!(rest.session(&id).await["state"], state);
    }
}

#[tokio::test]
async fn a_fork_right_after_a_fresh_start_is_refused_without_a_process() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let id = session(&daemon, "a", json!({ "dump": dump })).await;
    act_through(&rest, &id, json!([{ "text": "one" }])).await;
    let at = last_answer(&rest, &id).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    let reply = rest.lifecycle(&id, "fork", json!({})).await;
    let detail = reply.body["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("no turn yet"), "{:#}", reply.body);
    assert_eq!(reply.problem(409), "conversation_not_started");
    let starts = fs::read_to_string(&dump).unwrap().lines().count();
    assert_eq!(starts, 2, "the session's own");
    assert_eq!(sessions(&rest).await, 1);
    // The conversation before can be named.
    let body = json!({ "at": at });
    rest.lifecycle(&id, "fork?wait=ready", body).await.expect(201);
    act_through(&rest, &id, json!([{ "text": "two" }])).await;
    rest.lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
}

/// The process of the fork outlives the daemon, so a caller that is told that nothing is made would make a second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_waits_for_the_clis_word_is_named_when_the_daemon_ends() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let waits = json!({ "init": { "wait_file": gate } });
    let starts = json!({ "starts": [{}, {}, waits, waits] });
    let parent = session(&daemon, "a", starts.clone()).await;
    act_through(&rest, &parent, json!([{ "text": "one" }])).await;
    let left = session(&daemon, "b", starts.clone()).await;
    act_through(&rest, &left, json!([{ "text": "one" }])).await;
    let conversation = rest.session(&left).await["cli"]["session_id"].clone();
    rest.delete(&format!("/v1/sessions/{left}")).await.expect(204);

    let adopt = body(&daemon, "b", starts, json!({ "resume": conversation }));
    let requests = [
        (format!("/v1/sessions/{parent}/fork"), json!({})),
        ("/v1/sessions".to_owned(), adopt),
    ];
    let mut asked = tokio::task::JoinSet::new();
    for (key, (path, body)) in requests.clone().into_iter().enumerate() {
        let request = rest.builder(Method::POST, &path).json(&body);
        let (rest, request) = (rest.clone(), request.header("idempotency-key", key));
        asked.spawn(async move { rest.send(request).await });
    }
    wait_for("both processes", PATIENCE, async || {
        let list = rest.get("/v1/sessions").await.expect(200);
        let items = list["items"].as_array().unwrap().iter();
        let waiting = items.filter(|it| it["state"] == "starting" && it["cli"]["pid"].is_i64());
        (waiting.count() == 2).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().code(), Some(0));
    let mut made = Vec::new();
    while let Some(reply) = asked.join_next().await {
        made.push(reply.unwrap().expect(201)["id"].as_str().unwrap().to_owned());
    }
    fs::write(&gate, "").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    for (key, (path, body)) in requests.into_iter().enumerate() {
        let request = rest.builder(Method::POST, &path).json(&body);
        let again = rest
            .send(request.header("idempotency-key", key))
            .await
            .expect(201);
        assert!(made.iter().any(|id| again["id"] == **id), "{again:#}");
    }
    for id in &made {
        rest.in_state(id, &["idle"]).await;
    }
    assert_eq!(sessions(&rest).await, 3);
    // With `detach` no end of the daemon ends their processes.
    for id in made.iter().chain([&parent]) {
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    }
}

/// The conversation, as a reader of the messages sees it.
async fn said(rest: &Rest, id: &str) -> Vec<Value> {
    let page = rest.get(&format!("/v1/sessions/{id}/messages")).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

/// The same without what is of the one session alone.
fn words(messages: &[Value]) -> Vec<Value> {
    let of = |message: &Value| {
        json!([
            message["role"],
            message["uuid"],
            message["content"],
            message["ts"]
        ])
    };
    messages.iter().map(of).collect()
}

#[tokio::test]
async fn a_fork_can_be_read_before_its_first_turn_and_without_its_parent() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let parent = session(&daemon, "a", json!({})).await;
    for text in ["answer alpha", "answer beta"] {
        act_through(&rest, &parent, json!([{ "text": text }])).await;
    }
    let all = said(&rest, &parent).await;
    let alpha = all
        .iter()
        .find(|it| it.to_string().contains("answer alpha") && it["role"] == "assistant");
    let fork = async |of: &str, body: Value| {
        let made = rest.lifecycle(of, "fork?wait=ready", body).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    };
    let whole = fork(&parent, json!({})).await;
    let half = fork(&parent, json!({ "at": alpha.unwrap()["uuid"] })).await;
    assert_eq!(words(&said(&rest, &whole).await), words(&all));
    assert_eq!(words(&said(&rest, &half).await), words(&all[..2]));
    assert!(said(&rest, &half).await.iter().all(|it| it["copied"] == true));
    assert!(all.iter().all(|it| it["copied"].is_null()));
    let view = rest.session(&half).await;
    assert_eq!(
        (&view["turns"], &view["cost_usd"], &view["last_prompt"]),
        (&json!(0), &json!(0.0), &Value::Null)
    );
    let newest = rest
        .get(&format!("/v1/sessions/{half}/messages?order=desc&limit=1"))
        .await
        .expect(200);
    assert_eq!(words(newest["items"].as_array().unwrap()), words(&all[1..2]));
    let first = &rest.events(&half, 0).await[0];
    assert_eq!(
        (&first["src"], &first["data"]["type"]),
        (&json!("daemon"), &json!("history"))
    );
    assert_eq!(first["data"]["session_id"], json!(parent));
    let originals = rest.events(&parent, 0).await;
    assert!(
        originals.contains(&first["data"]["record"]),
        "byte for byte: {first:#}"
    );
    let stub = rest
        .get(&format!("/v1/sessions/{half}/events?limit=2&stub_above=1024"))
        .await
        .expect(200);
    assert_eq!(stub["items"][0], *first, "a small one is whole");
    let found = rest
        .get(&format!("/v1/sessions/{half}/find?q=alpha"))
        .await
        .expect(200);
    assert!(!found["items"].as_array().unwrap().is_empty(), "{found:#}");
    let export = rest.builder(Method::GET, &format!("/v1/sessions/{half}/export"));
    let export = export.send().await.unwrap().text().await.unwrap();
    assert!(
        export.contains("answer alpha") && !export.contains("answer beta"),
        "{export}"
    );

    act_through(&rest, &half, json!([{ "text": "answer gamma" }])).await;
    let own = said(&rest, &half).await;
    assert_eq!(words(&own[..2]), words(&all[..2]));
    assert!(own[2..].iter().all(|it| it["copied"].is_null()));
    // A fork of the fork has both.
    let of_fork = fork(&half, json!({})).await;
    assert_eq!(words(&said(&rest, &of_fork).await), words(&own));
    let first = &rest.events(&of_fork, 0).await[0];
    assert_eq!(first["data"]["session_id"], json!(parent), "{first:#}");

    rest.delete(&format!("/v1/sessions/{parent}")).await.expect(204);
    let view = rest.session(&half).await;
    assert_eq!(
        (&view["parent_id"], &view["parent_deleted"]),
        (&json!(parent), &json!(true))
    );
    // A message of the session that is gone is one to fork at still.
    let at_the_past = fork(&half, json!({ "at": all[1]["uuid"] })).await;
    assert_eq!(words(&said(&rest, &at_the_past).await), words(&all[..2]));
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(words(&said(&rest, &half).await), words(&own));
    assert_eq!(rest.session(&half).await["parent_id"], json!(parent));
    assert_eq!(rest.session(&half).await["turns"], 1);
    assert_eq!(rest.session(&of_fork).await["parent_deleted"], false);
}

/// A fresh start begins another conversation, which a fork of the one before does not know.
#[tokio::test]
async fn a_fork_has_the_past_of_its_own_conversation_alone() {
    let (_daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([{ "text": "answer alpha" }])).await;
    let alpha = last_answer(&rest, &id).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    act_through(&rest, &id, json!([{ "text": "answer beta" }])).await;
    for (body, known, unknown) in [
        (json!({}), "answer beta", "answer alpha"),
        (json!({ "at": alpha }), "answer alpha", "answer beta"),
    ] {
        let made = rest.lifecycle(&id, "fork?wait=ready", body).await.expect(201);
        let told = json!(said(&rest, made["id"].as_str().unwrap()).await).to_string();
        assert!(told.contains(known) && !told.contains(unknown), "{told}");
    }
}
