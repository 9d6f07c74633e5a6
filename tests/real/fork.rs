//! Owns the tests of forks: what they know, and that their parent does not notice.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    support::{proc, programs::scripted},
    world::{World, bash, fresh_id, nanos, pid, text},
};

async fn fork(world: &World, parent: &str, body: Value) -> Value {
    let path = format!("/v1/sessions/{parent}/fork?wait=result");
    world.rest.post(&path, body).await.expect(201)
}

#[tokio::test]
async fn a_fork_of_a_busy_session_leaves_it_alone() {
    let world = World::start().await;
    let parent = world.session(json!({ "model": "sonnet" })).await;
    let first = world.ask(&parent, json!([{ "text": "common past" }])).await;
    let unit = nanos(&first["turn"]["cost_usd"]);
    let before = world.rest.session(&parent).await;
    let held = json!([{ "text": "answer of the parent", "wait": "held", "wait_at": 1 }]);
    let running = world.prompt(&parent, held).await;
    world.api.at_gate("held").await;

    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    let child = fork(&world, &parent, json!({ "prompt": prompt, "title": "the fork" })).await;
    assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
    assert_eq!(child["parent_id"], json!(parent));
    assert_eq!(child["title"], "the fork");
    assert_eq!(child["options"]["model"], "sonnet");
    assert_ne!(child["cli"]["session_id"], before["cli"]["session_id"]);
    assert_eq!(nanos(&child["outcome"]["turn"]["cost_usd"]), unit);
    assert_eq!(
        nanos(&child["cost_usd"]),
        unit,
        "the parent's cost is not the fork's"
    );
    assert!(world.last_request().await.to_string().contains("common past"));

    let during = world.rest.session(&parent).await;
    assert_eq!(during["state"], "busy");
    assert_eq!(pid(&during), pid(&before));
    assert_eq!(during["cost_usd"], before["cost_usd"]);
    world.api.release("held").await;
    let after = world.idle_after(&parent, 2).await;
    assert_eq!(after["cli"], before["cli"], "same process, same conversation");
    assert_eq!(nanos(&after["cost_usd"]), 2 * unit);
    let turn = world.rest.turns(&parent).await.remove(1);
    assert_eq!(turn["prompts"], json!([running]));
    let result = world.lines(&parent, "result").await.remove(1);
    assert_eq!(result["result"], "answer of the parent");
    assert_eq!(world.answer(&parent, json!([{ "text": "on" }])).await, "on");
    let request = world.last_request().await.to_string();
    assert!(request.contains("answer of the parent") && !request.contains("answer of the fork"));
}

#[tokio::test]
async fn a_fork_begins_at_the_message_that_it_names() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    for name in ["answer alpha", "answer beta"] {
        world.answer(&parent, json!([{ "text": name }])).await;
    }
    let alpha = text(&world.messages(&parent).await[1], "uuid");
    let held = json!([{ "text": "answer gamma", "wait": "held", "wait_at": 1 }]);
    world.prompt(&parent, held).await;
    world.api.at_gate("held").await;
    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    let child = fork(&world, &parent, json!({ "at": alpha, "prompt": prompt })).await;
    assert_eq!(child["forked_at"], json!(alpha));
    assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
    let request = world.last_request().await.to_string();
    assert!(request.contains("answer alpha"), "{request}");
    assert!(!request.contains("answer beta"), "{request}");
    assert_eq!(world.rest.session(&parent).await["state"], "busy");
    world.api.release("held").await;
    world.idle_after(&parent, 3).await;
    assert_eq!(world.answer(&parent, json!([{ "text": "on" }])).await, "on");
    let request = world.last_request().await.to_string();
    for known in ["answer alpha", "answer beta", "answer gamma"] {
        assert!(request.contains(known), "{known} is lost: {request}");
    }
    assert!(!request.contains("answer of the fork"));
    let past = world.messages(&text(&child, "id")).await;
    let told = json!(past).to_string();
    assert!(
        told.contains("answer alpha") && !told.contains("answer beta"),
        "{told}"
    );
    assert_eq!(
        past.iter().filter(|it| it["copied"] == true).count(),
        2,
        "{past:#?}"
    );
    // The fork is a session of its own: it stops and goes on by itself.
    let child = text(&child, "id");
    world.stop(&child).await;
    world.resume(&child).await;
    assert_eq!(
        world.answer(&child, json!([{ "text": "own way" }])).await,
        "own way"
    );
    let request = world.last_request().await.to_string();
    assert!(request.contains("answer of the fork") && !request.contains("answer beta"));
}

#[tokio::test]
async fn a_fork_of_a_killed_session_goes_on_from_what_was_kept() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "common past" }])).await;
    world
        .prompt(&parent, json!([{ "text": "never", "wait": "held" }]))
        .await;
    world.api.at_gate("held").await;
    proc::signal(pid(&world.rest.session(&parent).await), Signal::SIGKILL);
    world.rest.in_state(&parent, &["failed"]).await;
    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    let child = fork(&world, &parent, json!({ "prompt": prompt })).await;
    assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
    assert!(world.last_request().await.to_string().contains("common past"));
    assert_eq!(world.rest.session(&parent).await["state"], "failed");
}

/// The ids of all sessions.
async fn sessions(world: &World) -> Vec<Value> {
    let list = world.rest.get("/v1/sessions").await.expect(200);
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["id"].clone()).collect()
}

#[tokio::test]
async fn a_fork_at_an_unknown_message_leaves_nothing() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "common past" }])).await;
    let path = format!("/v1/sessions/{parent}/fork");
    let at = fresh_id();
    for wait in ["", "?wait=ready"] {
        let reply = world
            .rest
            .post(&format!("{path}{wait}"), json!({ "at": at }))
            .await;
        assert!(text(&reply.body, "detail").contains(&at), "{:#}", reply.body);
        assert_eq!(reply.problem(404), "message_not_found");
    }
    assert_eq!(sessions(&world).await, [json!(parent)]);
    assert_eq!(world.rest.session(&parent).await["state"], "idle");
}

#[tokio::test]
async fn a_fork_of_a_conversation_that_is_gone_leaves_nothing() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "answer alpha" }])).await;
    let path = format!("/v1/sessions/{parent}/fork");
    let conversation = text(&world.rest.session(&parent).await["cli"], "session_id");
    let projects = fs::read_dir(world.daemon.home().join(".claude/projects")).unwrap();
    let mut files = projects.map(|folder| folder.unwrap().path().join(format!("{conversation}.jsonl")));
    let file = files.find(|file| file.exists()).expect("the CLI has kept it");
    fs::remove_file(file).unwrap();
    for state in ["idle", "stopped"] {
        if state == "stopped" {
            world.stop(&parent).await;
        }
        for wait in ["", "?wait=ready"] {
            let reply = world.rest.post(&format!("{path}{wait}"), json!({})).await;
            assert_eq!(reply.problem(404), "conversation_not_found", "{state}, {wait}");
        }
        assert_eq!(sessions(&world).await, [json!(parent)]);
        assert_eq!(world.rest.session(&parent).await["state"], state);
    }
}

#[tokio::test]
async fn a_fork_right_after_a_fresh_start_is_refused() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "answer alpha" }])).await;
    world.stop(&parent).await;
    let resume = format!("/v1/sessions/{parent}/resume?wait=ready");
    world
        .rest
        .post(&resume, json!({ "fresh": true }))
        .await
        .expect(200);
    let path = format!("/v1/sessions/{parent}/fork");
    let reply = world.rest.post(&path, json!({})).await;
    assert_eq!(reply.problem(409), "conversation_not_started");
    assert_eq!(sessions(&world).await, [json!(parent)]);
    world.answer(&parent, json!([{ "text": "answer beta" }])).await;
    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    fork(&world, &parent, json!({ "prompt": prompt })).await;
    let request = world.last_request().await.to_string();
    assert!(request.contains("answer beta") && !request.contains("answer alpha"));
    world.rest.ask(&parent, "/clear").await;
    // The CLI keeps something of what begins there, so it is asked.
    let path = format!("{path}?wait=ready");
    let child = world.rest.post(&path, json!({})).await.expect(201);
    assert_eq!(child["state"], "idle", "{child:#}");
}

/// A conversation that the session has left is still there.
#[tokio::test]
async fn a_fork_may_begin_in_an_earlier_conversation() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "answer alpha" }])).await;
    world.rest.ask(&parent, "/clear").await;
    world.answer(&parent, json!([{ "text": "answer beta" }])).await;
    world.stop(&parent).await;
    let resume = format!("/v1/sessions/{parent}/resume?wait=ready");
    world
        .rest
        .post(&resume, json!({ "fresh": true }))
        .await
        .expect(200);
    world.answer(&parent, json!([{ "text": "answer gamma" }])).await;
    let messages = world.messages(&parent).await;
    let all = ["alpha", "beta", "gamma"];
    for known in all {
        let message = messages
            .iter()
            .find(|message| message["role"] == "assistant" && message.to_string().contains(known));
        let at = text(message.unwrap(), "uuid");
        let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
        let child = fork(&world, &parent, json!({ "at": at, "prompt": prompt })).await;
        assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
        let request = world.last_request().await["messages"].to_string();
        for name in all {
            let is_told = request.contains(&format!("answer {name}"));
            assert_eq!(is_told, name == known, "{known}: {request}");
        }
        // The fork's own past is its parent's: it may begin there too.
        let grandchild = fork(&world, &text(&child, "id"), json!({ "at": at, "prompt": prompt })).await;
        assert_eq!(grandchild["outcome"]["result"]["result"], "answer of the fork");
    }
}

/// The CLI looks no further back than its last compaction.
#[tokio::test]
async fn a_fork_behind_a_compaction_is_refused_at_once() {
    let world = World::start().await;
    let parent = world.session(json!({})).await;
    world.answer(&parent, json!([{ "text": "answer alpha" }])).await;
    let at = text(&world.messages(&parent).await[1], "uuid");
    world.rest.ask(&parent, "/compact").await;
    world.answer(&parent, json!([{ "text": "answer beta" }])).await;
    let path = format!("/v1/sessions/{parent}/fork");
    let reply = world.rest.post(&path, json!({ "at": at })).await;
    assert_eq!(reply.problem(422), "message_not_forkable");
    assert_eq!(sessions(&world).await, [json!(parent)]);
    let messages = world.messages(&parent).await;
    let at = text(messages.last().unwrap(), "uuid");
    let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
    let child = fork(&world, &parent, json!({ "at": at, "prompt": prompt })).await;
    assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
}

#[tokio::test]
async fn a_fork_may_begin_at_what_the_agent_was_told() {
    let world = World::start().await;
    let parent = world.session(json!({ "allowed_tools": ["Bash"] })).await;
    world
        .answer(
            &parent,
            json!([bash("echo of-the-tool"), { "text": "answer alpha" }]),
        )
        .await;
    world.answer(&parent, json!([{ "text": "answer beta" }])).await;
    let messages = world.messages(&parent).await;
    // A prompt, the result of a tool, a later prompt: the messages that are not the agent's own.
    for (number, known) in [(0, &[][..]), (2, &["toolu"]), (4, &["toolu", "answer alpha"])] {
        let at = text(&messages[number], "uuid");
        let prompt = scripted(&json!([{ "text": "answer of the fork" }]));
        let child = fork(&world, &parent, json!({ "at": at, "prompt": prompt })).await;
        assert_eq!(child["outcome"]["result"]["result"], "answer of the fork");
        let request = world.last_request().await;
        let all = request["messages"].as_array().unwrap();
        let answers: String = all
            .iter()
            .filter(|message| message["role"] == "assistant")
            .map(ToString::to_string)
            .collect();
        for part in ["toolu", "answer alpha", "answer beta"] {
            assert_eq!(
                answers.contains(part),
                known.contains(&part),
                "{number}: {part}, {answers}"
            );
        }
    }
}
