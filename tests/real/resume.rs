//! Owns the tests of what a session is after its process ended, and of the process that goes on with it.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    support::{
        proc,
        programs::{clean_env, real_claude},
        wait::{PATIENCE, wait_until},
    },
    world::{World, bash, endless, marked, marker, pid, said, text},
};

/// The arguments of a process.
fn argv(pid: i32) -> BTreeSet<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.split('\0')
        .filter(|arg| arg.starts_with("--"))
        .map(ToOwned::to_owned)
        .collect()
}

/// The environment of a process, without what differs between two runs on purpose.
fn environ(pid: i32) -> BTreeSet<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.split('\0')
        .filter(|entry| !entry.starts_with("TRUNKLINE_RUN="))
        .map(ToOwned::to_owned)
        .collect()
}

#[tokio::test]
async fn a_resumed_session_keeps_its_settings() {
    let world = World::start().await;
    let extra = world.daemon.work_dir("extra");
    let id = world
        .session(json!({
            "model": "sonnet",
            "permission_mode": "acceptEdits",
            "additional_directories": [extra],
            "system_prompt": "You are a test of settings.",
            "allowed_tools": ["Bash(ls *)", "Read"],
            "max_turns": 7,
            "env": { "OF_THE_SESSION": "kept" },
        }))
        .await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let before = world.rest.session(&id).await;
    let (first_args, first_env) = (argv(pid(&before)), environ(pid(&before)));
    let first_request = world.last_request().await;
    world.stop(&id).await;
    let after = world.resume(&id).await;
    assert_ne!(pid(&after), pid(&before));
    let (args, env) = (argv(pid(&after)), environ(pid(&after)));
    let conversation = text(&before["cli"], "session_id");
    let new: Vec<&String> = args.difference(&first_args).collect();
    let gone: Vec<&String> = first_args.difference(&args).collect();
    assert_eq!(new, [&format!("--resume={conversation}")]);
    assert_eq!(gone, [&format!("--session-id={conversation}")]);
    for arg in [
        "--model=sonnet".to_owned(),
        "--permission-mode=acceptEdits".to_owned(),
        format!("--add-dir={}", extra.display()),
        "--max-turns=7".to_owned(),
    ] {
        assert!(args.contains(&arg), "{arg} is not in {args:#?}");
    }
    assert_eq!(env, first_env);
    assert!(env.contains("OF_THE_SESSION=kept"));

    assert_eq!(world.answer(&id, json!([{ "text": "two" }])).await, "two");
    let request = world.last_request().await;
    assert_eq!(request["model"], first_request["model"]);
    assert!(
        request["system"]
            .to_string()
            .contains("You are a test of settings.")
    );
    assert!(request["messages"].to_string().contains("one"));
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["permission_mode"], "acceptEdits");
    assert_eq!(view["cli"]["session_id"], before["cli"]["session_id"]);
    let runs = world.runs(&id).await;
    assert_eq!(
        (&runs[0]["mode"], &runs[1]["mode"]),
        (&json!("new"), &json!("resume"))
    );
    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 4, "both processes wrote one conversation");
    assert_eq!((&*said(&messages[1]), &*said(&messages[3])), ("one", "two"));
}

#[tokio::test]
async fn a_killed_cli_fails_the_session_and_a_resume_mends_it() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    let killed = pid(&world.rest.session(&id).await);
    let marker = marker();
    let prompt = world.prompt(&id, json!([bash(&endless(&marker))])).await;
    world.made("started").await;
    wait_until("the tool runs", PATIENCE, || !marked(&marker).is_empty()).await;
    proc::signal(killed, Signal::SIGKILL);
    let view = world.rest.in_state(&id, &["failed"]).await;
    assert_eq!(view["reason"]["code"], "cli_killed");
    let detail = text(&view["reason"], "detail");
    assert!(
        detail.contains("signal 9") && detail.contains("in the middle of a turn"),
        "{detail}"
    );
    wait_until("the tool is gone", PATIENCE, || marked(&marker).is_empty()).await;
    assert_eq!(world.runs(&id).await[0]["exit"]["signal"], 9);
    let turn = world.rest.turns(&id).await.remove(0);
    assert_eq!(turn["subtype"], "interrupted");
    assert_eq!(turn["prompts"], json!([prompt]));
    assert_eq!(turn["cost_usd"], Value::Null);
    let late = world
        .rest
        .post(&format!("/v1/sessions/{id}/messages"), json!({ "text": "hello" }))
        .await;
    assert_eq!(late.problem(409), "session_not_live");

    let view = world.resume(&id).await;
    assert_eq!(view["state"], "idle");
    assert_eq!(view["reason"], Value::Null);
    assert_eq!(world.answer(&id, json!([{ "text": "back" }])).await, "back");
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["turns_with_unknown_cost"], 1);
    assert!(
        world.last_request().await["messages"]
            .to_string()
            .contains(&marker)
    );
}

#[tokio::test]
async fn a_cli_that_was_killed_before_it_kept_anything_can_be_resumed() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    let killed = pid(&world.rest.session(&id).await);
    world
        .prompt(&id, json!([{ "text": "never", "wait": "held" }]))
        .await;
    world.api.at_gate("held").await;
    proc::signal(killed, Signal::SIGKILL);
    let before = world.rest.in_state(&id, &["failed"]).await;
    // Whether the CLI had kept anything by then is a matter of milliseconds; here it had not.
    let kept = world.daemon.home().join(".claude/projects");
    if kept.exists() {
        fs::remove_dir_all(kept).unwrap();
    }
    let view = world.resume(&id).await;
    assert_eq!(view["state"], "idle");
    assert_ne!(view["cli"]["session_id"], before["cli"]["session_id"]);
    assert_eq!(world.answer(&id, json!([{ "text": "back" }])).await, "back");
    world.stop(&id).await;
    world.resume(&id).await;
    assert_eq!(world.answer(&id, json!([{ "text": "again" }])).await, "again");
    assert!(world.last_request().await.to_string().contains("back"));
}

#[tokio::test]
async fn a_cleared_conversation_has_a_new_id_in_the_same_session() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "a secret word" }])).await;
    let before = world.rest.session(&id).await;
    let reply = world.rest.ask(&id, "/clear").await;
    assert_eq!(reply["turn"]["is_error"], false);
    let view = world.idle_after(&id, 2).await;
    assert_eq!(view["id"], json!(id));
    assert_eq!(pid(&view), pid(&before));
    let (old, new) = (
        text(&before["cli"], "session_id"),
        text(&view["cli"], "session_id"),
    );
    assert_ne!(new, old);
    assert_eq!(
        world.answer(&id, json!([{ "text": "empty head" }])).await,
        "empty head"
    );
    assert!(!world.last_request().await.to_string().contains("a secret word"));
    // The earlier messages stay in the session's own history, and their cost in the sum.
    let messages = world.messages(&id).await;
    assert!(messages.iter().any(|message| said(message) == "a secret word"));
    let view = world.idle_after(&id, 3).await;
    let costs: Vec<i64> = world
        .rest
        .turns(&id)
        .await
        .iter()
        .map(|turn| crate::world::nanos(&turn["cost_usd"]))
        .collect();
    assert!(costs[0] > 0 && costs[1] == 0 && costs[2] == costs[0], "{costs:?}");
    assert_eq!(crate::world::nanos(&view["cost_usd"]), 2 * costs[0]);
    // The new conversation is the one that goes on.
    world.stop(&id).await;
    let view = world.resume(&id).await;
    assert!(argv(pid(&view)).contains(&format!("--resume={new}")));
    assert_eq!(world.answer(&id, json!([{ "text": "again" }])).await, "again");
    let request = world.last_request().await.to_string();
    assert!(request.contains("empty head") && !request.contains("a secret word"));
}

#[tokio::test]
async fn a_session_that_was_just_cleared_can_be_resumed() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "a secret word" }])).await;
    world.rest.ask(&id, "/clear").await;
    world.stop(&id).await;
    let view = world.resume(&id).await;
    assert_eq!(view["state"], "idle");
    assert_eq!(world.answer(&id, json!([{ "text": "back" }])).await, "back");
    assert!(!world.last_request().await.to_string().contains("a secret word"));
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the second CLI stands for what a person does"
)]
async fn a_cli_in_a_terminal_on_the_conversation_is_named() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let conversation = text(&world.rest.session(&id).await["cli"], "session_id");
    world.stop(&id).await;
    // As somebody would go on with it by hand; it is given nothing to do.
    let home = world.daemon.home();
    let mut by_hand = std::process::Command::new(real_claude())
        .args(["--print", "--verbose", "--resume", &conversation])
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .env_clear()
        .envs(clean_env(&home, world.api.url()))
        .current_dir(world.dir())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = by_hand.stdin.take().unwrap();
    let request =
        json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "initialize" } });
    writeln!(stdin, "{request}").unwrap();
    let mut lines = BufReader::new(by_hand.stdout.take().unwrap()).lines();
    let first = tokio::task::spawn_blocking(move || lines.next()).await.unwrap();
    assert!(first.unwrap().unwrap().contains("control_response"));

    let refused = world.rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(refused.body["pid"], by_hand.id(), "{:#}", refused.body);
    assert_eq!(refused.body["conversation_id"], conversation);
    assert_eq!(refused.problem(409), "conversation_in_use");
    drop(stdin);
    by_hand.wait().unwrap();
    world.resume(&id).await;
    world.answer(&id, json!([{ "text": "two" }])).await;
}

/// The model refuses it in each later turn: the way out leaves it behind.
#[tokio::test]
async fn a_conversation_that_the_model_refuses_has_a_way_out() {
    let world = World::start().await;
    let id = world.session(json!({})).await;
    world.answer(&id, json!([{ "text": "common past" }])).await;
    world.stop(&id).await;
    world.resume(&id).await;
    let refused = json!([{ "status": 400, "message": "the poison", "times": -1 }]);
    for _ in 0..2 {
        let reply = world.ask(&id, refused.clone()).await;
        assert_eq!(reply["result"]["api_error_status"], 400, "{reply:#}");
    }
    let view = world.rest.session(&id).await;
    assert_eq!(view["state"], "idle", "{view:#}");
    assert_eq!(view["reason"]["code"], "conversation_unusable", "{view:#}");
    let detail = view["reason"]["detail"].as_str().unwrap();
    assert!(detail.contains("the poison"), "{detail}");
    assert_eq!(view["ways_out"][0], "fork", "{view:#}");
    let path = format!("/v1/sessions/{id}/fork?wait=ready");
    let fork = world.rest.post(&path, json!({})).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    world.answer(fork, json!([{ "text": "on" }])).await;
    let request = world.last_request().await["messages"].to_string();
    assert!(
        request.contains("common past") && !request.contains("poison"),
        "{request}"
    );
}
