//! Shows that the test programs do what other tests build on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{
    model_api::ModelApi,
    programs::{fake_prompt, scripted},
};

/// Asks the API as a CLI would: one conversation, not streamed.
async fn ask(api: &ModelApi, messages: Value) -> (u16, Value) {
    let response = reqwest::Client::new()
        .post(format!("{}/v1/messages", api.url()))
        .json(&json!({ "model": "claude-x", "max_tokens": 10, "messages": messages }))
        .send()
        .await
        .unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
}

#[tokio::test]
async fn the_conversation_decides_which_step_answers() {
    let api = ModelApi::start();
    let prompt = scripted(&json!([
        { "text": "one", "tool": "Bash", "input": { "command": "true" } },
        { "text": "two", "usage": { "output_tokens": 7 } },
    ]));
    let (status, first) = ask(&api, json!([user(&prompt)])).await;
    assert_eq!(status, 200);
    assert_eq!(first["model"], "claude-x");
    assert_eq!(first["stop_reason"], "tool_use");
    assert_eq!(first["content"][1]["name"], "Bash");
    let (_, second) = ask(&api, json!([user(&prompt), assistant("one"), user("result")])).await;
    assert_eq!(second["content"][0]["text"], "two");
    assert_eq!(second["usage"]["output_tokens"], 7);
    let (_, plain) = ask(&api, json!([user("no script")])).await;
    assert_eq!(plain["content"][0]["text"], "Hello from the stand-in model.");
    assert_eq!(api.message_requests().await, 3);
}

#[tokio::test]
async fn an_error_holds_as_often_as_it_says() {
    let api = ModelApi::start();
    let prompt = scripted(&json!([{ "status": 529, "times": 2, "text": "recovered" }]));
    for expected in [529, 529, 200] {
        assert_eq!(ask(&api, json!([user(&prompt)])).await.0, expected);
    }
}

#[tokio::test]
async fn an_answer_waits_at_its_gate() {
    let api = ModelApi::start();
    let prompt = scripted(&json!([{ "wait": "door", "text": "let in" }]));
    let conversation = json!([user(&prompt)]);
    let mut answer = std::pin::pin!(ask(&api, conversation));
    tokio::select! {
        _ = &mut answer => panic!("the gate was open"),
        () = api.at_gate("door") => {}
    }
    let early = tokio::time::timeout(Duration::from_millis(50), &mut answer).await;
    assert!(early.is_err(), "the gate did not hold");
    api.release("door").await;
    let (_, message) = answer.await;
    assert_eq!(message["content"][0]["text"], "let in");
}

#[test]
fn a_fake_prompt_is_what_the_fake_cli_looks_for() {
    let prompt = fake_prompt(&json!([{ "text": "x" }]));
    assert_eq!(prompt, r#"FAKE:[{"text":"x"}]:END"#);
}
