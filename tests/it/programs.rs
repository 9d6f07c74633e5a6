//! Shows that the test programs do what other tests build on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    model_api::ModelApi,
    proc,
    programs::{clean_env, fake_claude, fake_prompt, scripted},
    wait::{PATIENCE, wait_until},
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

#[tokio::test]
async fn settings_of_the_api_hold_until_changed() {
    let api = ModelApi::start();
    api.default_script(json!([{ "text": "first" }, { "text": "last" }]))
        .await;
    let conversation = json!([user("a"), assistant("x"), user("b"), assistant("first")]);
    assert_eq!(ask(&api, conversation).await.1["content"][0]["text"], "last");
    assert_eq!(
        ask(&api, json!([user("a")])).await.1["content"][0]["text"],
        "first"
    );
    api.control(json!({ "errors": { "status": 401, "times": 1, "message": "who?" } }))
        .await;
    let (status, error) = ask(&api, json!([user("a")])).await;
    assert_eq!(status, 401);
    assert_eq!(error["error"]["type"], "authentication_error");
    assert_eq!(error["error"]["message"], "who?");
    assert_eq!(ask(&api, json!([user("a")])).await.0, 200);
    let last = api.requests().await.pop().unwrap();
    assert_eq!(last["status"], 200);
    assert_eq!(last["messages"][0]["text"], "a");
    let body = api.body(last["n"].as_u64().unwrap()).await;
    assert_eq!(body["messages"], json!([user("a")]));
}

#[tokio::test]
async fn placeholders_of_a_tool_come_from_the_conversation() {
    let api = ModelApi::start();
    let prompt = scripted(&json!([{
        "tool": "Bash",
        "input": { "command": "kill ${MATCH:task ([a-z0-9]+) runs}", "list": ["${PLAN_FILE}"] },
    }]));
    let told = format!("task b12 runs, plan in /home/u/.claude/plans/a-b.md. {prompt}");
    let (_, message) = ask(&api, json!([user(&told)])).await;
    let expected = json!({ "command": "kill b12", "list": ["/home/u/.claude/plans/a-b.md"] });
    assert_eq!(message["content"][0]["input"], expected);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
async fn processes_are_found_by_their_environment_and_place() {
    let home = tempfile::tempdir().unwrap();
    let mut cli = Command::new(fake_claude())
        .arg("--input-format=stream-json")
        .env_clear()
        .envs(clean_env(home.path(), "http://127.0.0.1:9"))
        .env("TRUNKLINE_RUN", home.path().file_name().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let child = json!([{ "child": { "setsid": true, "double_fork": true, "ignore_term": true } }]);
    let prompt = json!({
        "type": "user",
        "message": { "role": "user", "content": fake_prompt(&child) },
    });
    writeln!(cli.stdin.as_ref().unwrap(), "{prompt}").unwrap();
    let mut lines = BufReader::new(cli.stdout.take().unwrap()).lines();
    let pid = lines.find_map(|line| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (line["type"] == "fake_child").then(|| line["pid"].as_i64().unwrap())
    });
    let child = i32::try_from(pid.unwrap()).unwrap();
    let parent = i32::try_from(cli.id()).unwrap();

    let run = home.path().file_name().unwrap().to_str().unwrap();
    let pids = |found: Vec<proc::Process>| {
        let mut pids: Vec<i32> = found.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids
    };
    let mut both = vec![parent, child];
    both.sort_unstable();
    assert_eq!(pids(proc::with_env("TRUNKLINE_RUN", run)), both);
    assert_eq!(pids(proc::below(home.path())), both);

    proc::signal(parent, Signal::SIGKILL);
    cli.wait().unwrap();
    proc::signal(child, Signal::SIGTERM);
    assert_eq!(pids(proc::below(home.path())), [child]);
    assert_ne!(proc::read(child).unwrap().parent, parent);
    proc::signal(child, Signal::SIGKILL);
    wait_until("the child is gone", PATIENCE, || !proc::is_alive(child)).await;
    assert!(proc::below(home.path()).is_empty());
}

#[test]
fn a_fake_prompt_is_what_the_fake_cli_looks_for() {
    let prompt = fake_prompt(&json!([{ "text": "x" }]));
    assert_eq!(prompt, r#"FAKE:[{"text":"x"}]:END"#);
}
