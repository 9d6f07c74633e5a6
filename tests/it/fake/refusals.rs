//! Owns what becomes of a session whose start the CLI refuses, or whose conversation the model refuses.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act_through, body, of_type, path, pid, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

const WORDS: &str = "API Error: 400 image exceeds the maximum";

/// A daemon that restarts what dies at once, three times.
async fn eager() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

async fn runs(rest: &Rest, id: &str) -> usize {
    let runs = rest.get(&path(id, "runs")).await.expect(200);
    runs["items"].as_array().unwrap().len()
}

fn says(view: &Value, words: &str) {
    let detail = view["reason"]["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(words), "{view:#}");
}

/// An error of the model API, as the CLI puts it into a `result`.
fn api_error(num_turns: u64) -> Value {
    json!({
        "subtype": "success", "is_error": true, "api_error_status": 400, "num_turns": num_turns, "result": WORDS,
        "terminal_reason": "api_error",
    })
}

/// The lines of a CLI that cannot go on with its conversation and ends before it is ready.
fn refused_at_start() -> Value {
    let mut result = api_error(0);
    for (name, value) in [
        ("type", json!("result")),
        ("session_id", json!("$SESSION_ID")),
        ("uuid", json!("$UUID")),
        ("total_cost_usd", json!(0)),
    ] {
        result[name] = value;
    }
    let init = json!({ "type": "system", "subtype": "init", "session_id": "$SESSION_ID", "uuid": "$UUID" });
    json!({ "start": [{ "line": init }, { "line": result }, { "exit": 1 }] })
}

#[tokio::test]
async fn a_conversation_that_the_model_refuses_at_start_is_named() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let settings = json!({ "starts": [{}, refused_at_start(), {}] });
    let id = session(&daemon, "a", settings).await;
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "conversation_unusable", "{view:#}");
    says(&view, WORDS);
    assert_eq!(view["ways_out"][0], "fork", "{view:#}");
    assert_eq!(runs(&rest, &id).await, 2, "the same start is tried once");
    assert_eq!(rest.turns(&id).await.len(), 1, "a start is no turn");
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    rest.ask(fork["id"].as_str().unwrap(), "and on").await;
}

#[tokio::test]
async fn a_conversation_whose_answers_are_errors_is_named() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let refuses = json!({ "prompt": [{ "result": api_error(1), "cost": 0 }] });
    let settings = json!({ "starts": [{}, refuses, {}] });
    let id = session(&daemon, "a", settings).await;
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "one").await;
    let view = rest.session(&id).await;
    assert_eq!(view["reason"], Value::Null, "it may be that prompt: {view:#}");
    rest.ask(&id, "two").await;
    let view = rest.session(&id).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    assert_eq!(view["reason"]["code"], "conversation_unusable", "{view:#}");
    says(&view, WORDS);
    assert_eq!(view["ways_out"], json!(["fork", "fresh_start"]), "{view:#}");
    rest.ask(&id, "three").await;
    let notices = records(&rest, &id).await;
    let notices = of_type(&notices, "daemon", "notice");
    let told = |notice: &&&Value| notice["code"] == "conversation_unusable";
    assert_eq!(notices.iter().filter(told).count(), 1, "{notices:#?}");
    // Both ways out work.
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({}))
        .await
        .expect(201);
    rest.ask(fork["id"].as_str().unwrap(), "and on").await;
    let fresh = rest
        .lifecycle(&id, "restart?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    assert_eq!(fresh["reason"], Value::Null, "{fresh:#}");
    rest.ask(&id, "from the beginning").await;
}

/// A CLI that ends over each answer is no crash loop.
#[tokio::test]
async fn a_conversation_that_ends_the_cli_with_errors_is_named() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let refuses = json!({ "prompt": [{ "result": api_error(1), "cost": 0 }, { "exit": 1 }] });
    let settings = json!({ "starts": [{}, refuses] });
    let id = session(&daemon, "a", settings).await;
    act_through(&rest, &id, json!([{ "text": "first" }])).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "one").await;
    wait_for("the next process is idle", PATIENCE, async || {
        let view = rest.session(&id).await;
        (runs(&rest, &id).await == 3 && view["state"] == "idle").then_some(())
    })
    .await;
    rest.ask(&id, "two").await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "conversation_unusable", "{view:#}");
    says(&view, WORDS);
    assert_eq!(view["ways_out"][0], "fork", "{view:#}");
}

/// A start that the CLI would refuse again is tried once, and its words are said.
#[tokio::test]
async fn a_start_that_is_refused_in_order_is_tried_once() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let sandbox = json!({ "line": {
        "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0,
        "errors": ["Sandbox is required and bubblewrap is not installed"], "session_id": "$SESSION_ID", "uuid": "$UUID",
    } });
    for (name, settings, words) in [
        (
            "sandbox",
            json!({ "start": [sandbox, { "exit": 1 }] }),
            "bubblewrap is not installed",
        ),
        (
            "file",
            json!({ "exit_at_start": { "code": 1, "stderr": "Error: System prompt file not found: /nope\n" } }),
            "System prompt file not found: /nope",
        ),
        (
            "initialize",
            json!({ "controls": { "initialize": { "error": "an agent has no name" } } }),
            "an agent has no name",
        ),
    ] {
        let made = rest.create(body(&daemon, name, settings, json!({}))).await;
        let id = made["id"].as_str().unwrap();
        let view = rest.in_state(id, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "start_failed", "{name}: {view:#}");
        says(&view, words);
        assert_eq!(runs(&rest, id).await, 1, "{name}");
        assert_eq!(
            view["ways_out"],
            json!(["change_options"]),
            "{name}: no start works as it is"
        );
        // It is up to people to mend it, and then it starts.
        fs::write(daemon.work_dir(name).join(".fake-claude.json"), "{}").unwrap();
        rest.lifecycle(id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        act_through(&rest, id, json!([{ "text": "fine" }])).await;
    }
}

/// A process that was killed before the model said anything has kept nothing that could be copied.
#[tokio::test]
async fn a_fork_is_no_way_out_of_an_unkept_conversation() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "save": "never" })).await;
    crate::fake::bed::act(&rest, &id, json!([{ "exit": 1 }])).await;
    let view = rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["ways_out"], json!(["resume", "fresh_start"]), "{view:#}");
}

/// The model API refuses each later turn of a conversation with such a message in it.
#[tokio::test]
async fn a_message_that_says_nothing_is_refused_on_each_way() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    for content in [
        json!(""),
        json!(" \n\t"),
        json!([]),
        json!([text("")]),
        json!([text("  "), text("\n")]),
        json!([{ "type": "text" }]),
    ] {
        let key = if content.is_string() { "text" } else { "content" };
        let reply = rest
            .post(&path(&id, "messages"), json!({ key: content.clone() }))
            .await;
        assert_eq!(reply.problem(422), "empty_prompt", "{content}");
        let uuid = trunkline::domain::SessionId::new().to_string();
        let message = json!({ "role": "user", "content": content.clone() });
        client
            .send(&json!({ "type": "user", "message": message, "uuid": uuid }))
            .await;
        let answer = client
            .find("an answer", |frame| {
                frame["type"] == "trunkline.error" || frame["type"] == "trunkline.ack"
            })
            .await;
        assert_eq!(
            (&answer["code"], &answer["uuid"]),
            (&json!("empty_prompt"), &json!(uuid)),
            "{content}: {answer:#}"
        );
    }
    let image =
        json!({ "type": "image", "source": { "type": "url", "url": "https://example.invalid/a.png" } });
    let message = json!({ "role": "user", "content": [image] });
    client.send(&json!({ "type": "user", "message": message })).await;
    client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.session(&id).await["turns"], 1);
}
