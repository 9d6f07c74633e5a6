//! Owns the rows of section S that only the real CLI can show: where it finds conversations, those that it has without us, what is
//! in its files, and what it is told after a restart of the daemon.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::{
    support::programs::{clean_env, real_claude, scripted},
    world::{World, fresh_id, nanos, pid, said, text},
};

/// The daemon ends in order and another one takes its place.
async fn next_daemon(world: &mut World) {
    assert_eq!(world.daemon.stop().code(), Some(0));
    world.daemon.start().await;
    world.rest = world.daemon.rest();
}

/// The CLI's file of a conversation.
fn transcript(world: &World, conversation: &str) -> PathBuf {
    let projects = world.daemon.home().join(".claude/projects");
    let mut folders = fs::read_dir(projects).unwrap().flatten();
    let file = folders.find_map(|folder| {
        let file = folder.path().join(format!("{conversation}.jsonl"));
        file.exists().then_some(file)
    });
    file.unwrap_or_else(|| panic!("the CLI has not kept {conversation}"))
}

/// The flags of a process.
fn flags(pid: i32) -> BTreeSet<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let flags = text.split('\0').filter(|arg| arg.starts_with("--"));
    flags.map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_conversation_goes_on_where_it_began_whatever_a_link_says_later() {
    let mut world = World::start().await;
    let (project, other) = (world.dir(), world.daemon.work_dir("other"));
    let link = project.with_file_name("link");
    symlink(&project, &link).unwrap();
    let id = world.rest.create_ready(json!({ "cwd": link })).await;
    assert_eq!(world.rest.session(&id).await["cwd"], json!(project));
    world.answer(&id, json!([{ "text": "one" }])).await;
    world.stop(&id).await;
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    next_daemon(&mut world).await;
    let view = world.resume(&id).await;
    assert_eq!(
        fs::read_link(format!("/proc/{}/cwd", pid(&view))).unwrap(),
        project
    );
    world.answer(&id, json!([{ "text": "two" }])).await;
    assert!(world.last_request().await["messages"].to_string().contains("one"));

    // A fork into another directory would find nothing there, so it is refused; the same one by another name is not another.
    let fork = format!("/v1/sessions/{id}/fork?wait=ready");
    for elsewhere in [&other, &link] {
        let refused = world.rest.post(&fork, json!({ "cwd": elsewhere })).await;
        assert_eq!(refused.body["field"], "cwd", "{:#}", refused.body);
        assert_eq!(refused.problem(422), "fork_cwd_differs");
    }
    let list = world.rest.get("/v1/sessions").await.expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list:#}");
    let again = project.with_file_name("again");
    symlink(&project, &again).unwrap();
    let made = world.rest.post(&fork, json!({ "cwd": again })).await.expect(201);
    let made = text(&made, "id");
    world.answer(&made, json!([{ "text": "three" }])).await;
    assert!(world.last_request().await["messages"].to_string().contains("two"));
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the CLI by hand stands for what a person does"
)]
async fn a_conversation_of_a_terminal_goes_on_as_a_session() {
    let world = World::start().await;
    let conversation = fresh_id();
    let mut by_hand = Command::new(real_claude());
    by_hand
        .args(["--print", "--session-id", &conversation])
        .arg(scripted(&json!([{ "text": "said in a terminal" }])))
        .env_clear()
        .envs(clean_env(&world.daemon.home(), world.api.url()))
        .current_dir(world.dir());
    let output = tokio::task::spawn_blocking(move || by_hand.output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let adopt = |cwd: PathBuf, id: &str| {
        let body = json!({ "cwd": cwd, "options": { "resume": id } });
        let rest = world.rest.clone();
        async move { rest.post("/v1/sessions?wait=ready", body).await }
    };
    let unknown = fresh_id();
    let refused = adopt(world.dir(), &unknown).await;
    assert!(
        text(&refused.body, "detail").contains(&unknown),
        "{:#}",
        refused.body
    );
    assert_eq!(refused.problem(404), "conversation_not_found");
    assert_eq!(
        world.rest.get("/v1/sessions").await.expect(200)["items"],
        json!([])
    );

    let view = adopt(world.dir(), &conversation).await.expect(201);
    let id = text(&view, "id");
    assert_eq!(text(&view["cli"], "session_id"), conversation);
    let first = world.ask(&id, json!([{ "text": "said in the session" }])).await;
    assert!(
        world.last_request().await["messages"]
            .to_string()
            .contains("said in a terminal")
    );
    let second = world.ask(&id, json!([{ "text": "and more" }])).await;
    let costs = [&first, &second].map(|answer| nanos(&answer["turn"]["cost_usd"]));
    assert!(
        costs[0] > 0 && costs[0] == costs[1],
        "what it cost before is not the session's: {costs:?}"
    );
    // The session's history is its own.
    let messages = world.messages(&id).await;
    assert_eq!(messages.len(), 4, "{messages:#?}");
    world.stop(&id).await;
    let view = world.resume(&id).await;
    assert!(flags(pid(&view)).contains(&format!("--resume={conversation}")));
    world.answer(&id, json!([{ "text": "on" }])).await;
    let request = world.last_request().await["messages"].to_string();
    assert!(request.contains("said in a terminal") && request.contains("said in the session"));
}

#[tokio::test]
async fn foreign_lines_in_the_transcript_change_nothing_of_our_history() {
    let mut world = World::start().await;
    let id = world.session(json!({})).await;
    for answer in ["one", "two"] {
        world.answer(&id, json!([{ "text": answer }])).await;
    }
    let view = world.stop(&id).await;
    let before = (
        world.messages(&id).await,
        world.rest.turns(&id).await,
        world.rest.events(&id, 0).await,
    );
    let file = transcript(&world, &text(&view["cli"], "session_id"));
    let lines = fs::read_to_string(&file).unwrap();
    let mut foreign = Vec::new();
    for line in lines.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["message"].is_object() {
            line["sessionId"] = json!(fresh_id());
            line["uuid"] = json!(fresh_id());
            line["parentUuid"] = Value::Null;
            line["message"]["content"] = json!([{ "type": "text", "text": "FOREIGN WORDS" }]);
            foreign.push(line.to_string());
        }
    }
    assert!(foreign.len() >= 4, "both turns are there, twice");
    foreign.push("no line of anybody".to_owned());
    fs::write(&file, format!("{lines}{}\n", foreign.join("\n"))).unwrap();

    next_daemon(&mut world).await;
    assert_eq!(world.messages(&id).await, before.0);
    assert_eq!(world.rest.turns(&id).await, before.1);
    assert_eq!(world.rest.events(&id, 0).await, before.2);
    world.resume(&id).await;
    assert_eq!(world.answer(&id, json!([{ "text": "three" }])).await, "three");
    let after = world.messages(&id).await;
    assert_eq!(after[..4], before.0[..]);
    assert_eq!((after.len(), &*said(&after[5])), (6, "three"));
    assert!(!world.daemon.journal(&id).contains("FOREIGN WORDS"));
    // Nor is anything lost when there is no file at all.
    world.stop(&id).await;
    fs::remove_file(&file).unwrap();
    next_daemon(&mut world).await;
    assert_eq!(world.messages(&id).await, after);
}

#[tokio::test]
async fn after_a_restart_of_the_daemon_the_model_is_told_the_same() {
    let mut world = World::start().await;
    let extra = world.daemon.work_dir("extra");
    let id = world
        .session(json!({
            "model": "sonnet", "permission_mode": "acceptEdits", "additional_directories": [extra],
            "system_prompt": "You are a test of settings.", "tools": ["Bash", "Read"], "allowed_tools": ["Bash(ls *)"],
            "disallowed_tools": ["Read(//etc/**)"], "max_turns": 7, "effort": "low", "setting_sources": ["user"],
        }))
        .await;
    world.answer(&id, json!([{ "text": "one" }])).await;
    let before = world.rest.session(&id).await;
    let expected = (flags(pid(&before)), world.last_request().await);
    next_daemon(&mut world).await;
    let after = world.resume(&id).await;
    world.answer(&id, json!([{ "text": "two" }])).await;
    let found = (flags(pid(&after)), world.last_request().await);
    let conversation = text(&before["cli"], "session_id");
    let of_this_start = |flag: &String| flag == &format!("--resume={conversation}");
    assert_eq!(
        found
            .0
            .difference(&expected.0)
            .filter(|flag| !of_this_start(flag))
            .count(),
        0,
        "{found:#?}"
    );
    let gone: Vec<&String> = expected.0.difference(&found.0).collect();
    assert_eq!(gone, [&format!("--session-id={conversation}")]);
    let names = |request: &Value| -> Vec<Value> {
        let tools = request["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].clone()).collect()
    };
    assert!(names(&expected.1).contains(&json!("Bash")) && !names(&expected.1).contains(&json!("WebFetch")));
    assert_eq!(names(&found.1), names(&expected.1));
    for field in ["model", "max_tokens", "thinking", "output_config"] {
        assert_eq!(found.1[field], expected.1[field], "{field}");
    }
    assert!(
        found.1["system"]
            .to_string()
            .contains("You are a test of settings.")
    );
    assert!(
        found.1["messages"].to_string().contains("one"),
        "the model has forgotten everything"
    );
    assert_eq!(world.rest.session(&id).await["permission_mode"], "acceptEdits");
}
