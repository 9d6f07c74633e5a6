//! Owns the tests that the real CLI asks the hooks of each event, and has one answer to each.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    elicitation::ASKING_SERVER,
    host_controls::control,
    support::wait::{PATIENCE, wait_for},
    world::{World, bash},
};

/// Every event that is known.
const EVENTS: &str = include_str!("../fixtures/hook-events.txt");

/// Events of a session that works: prompts, tools, agents, tasks, worktrees, errors of the API, its end.
const WORK: &[&str] = &[
    "InstructionsLoaded",
    "MessageDisplay",
    "PostToolBatch",
    "PostToolUse",
    "PostToolUseFailure",
    "PreToolUse",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "TaskCompleted",
    "TaskCreated",
    "UserPromptSubmit",
    "WorktreeCreate",
    "WorktreeRemove",
];

/// Events of what a person or a host changes: commands, compaction, settings, directories, the model.
const CHANGES: &[&str] = &[
    "ConfigChange",
    "DirectoryAdded",
    "PostCompact",
    "PostModelSwitch",
    "PreCompact",
    "PreModelSwitch",
    "PreSkillShellCommand",
    "SessionStart",
    "UserPromptExpansion",
];

/// Events around what waits for a person.
const WAITING: &[&str] = &[
    "Elicitation",
    "ElicitationResult",
    "Notification",
    "PermissionDenied",
    "PermissionRequest",
];

/// Events of the directory, and of files that a hook named.
const PLACES: &[&str] = &["CwdChanged", "FileChanged"];

/// Events that no test brings the real CLI to ask a host about. `Setup` belongs to the flags `--init` and `--maintenance`, at
/// which the CLI runs the commands of its settings before a host can register anything; `TeammateIdle` belongs to a team that
/// these sessions do not have. The fake CLI asks about them, as about all others.
const FAKE_ONLY: &[&str] = &["Setup", "TeammateIdle"];

/// A session with a hook for each event, which has no opinion, and these options. It names a file to be watched.
async fn hooked(world: &World, mut options: Value) -> String {
    let worktree = world.dir().join("tree");
    fs::create_dir_all(&worktree).unwrap();
    let watched = world.dir().join("watched.txt");
    let output = |event: &str| match event {
        "WorktreeCreate" => {
            json!({ "hookSpecificOutput": { "hookEventName": event, "worktreePath": worktree } })
        }
        "SessionStart" => {
            json!({ "hookSpecificOutput": { "hookEventName": event, "watchPaths": [watched] } })
        }
        _ => json!({}),
    };
    let hook =
        |event: &str| json!({ "event": event, "target": { "type": "fixed", "output": output(event) } });
    options["hooks"] = EVENTS.lines().map(hook).collect();
    world.session(options).await
}

/// The events that a session's CLI asked about and got one answer to.
async fn answered(world: &World, id: &str) -> BTreeSet<String> {
    let records = world.rest.events(id, 0).await;
    let mut events = BTreeSet::new();
    for record in records.iter().filter(|it| it["src"] == "cli") {
        let request = &record["data"]["request"];
        if request["subtype"] != "hook_callback" {
            continue;
        }
        let is_answer = |it: &&Value| {
            it["src"] == "client" && it["data"]["response"]["request_id"] == record["data"]["request_id"]
        };
        let answers = records.iter().filter(is_answer).count();
        assert!(answers <= 1, "{request:#}");
        if answers == 1 {
            events.insert(request["input"]["hook_event_name"].as_str().unwrap().to_owned());
        }
    }
    events
}

/// Waits until the session's CLI asked about all these events and has its answers.
async fn all_answered(world: &World, id: &str, events: &[&str]) {
    wait_for(&format!("{events:?} are answered"), PATIENCE, async || {
        let answered = answered(world, id).await;
        events.iter().all(|event| answered.contains(*event)).then_some(())
    })
    .await;
    let taken_back = world.lines(id, "control_cancel_request").await;
    assert_eq!(taken_back, Vec::<Value>::new(), "the CLI did not have to give up");
}

#[tokio::test]
async fn a_session_that_works_asks_its_hooks() {
    let world = World::start().await;
    // Those of the working directory may be read before the CLI has its hooks; these are read with the file beside them.
    let inner = world.dir().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("CLAUDE.md"), "Be kind.\n").unwrap();
    let note = inner.join("note.txt");
    fs::write(&note, "a note\n").unwrap();
    let tools = json!([
        "Bash",
        "Agent",
        "TaskCreate",
        "TaskUpdate",
        "EnterWorktree",
        "ExitWorktree"
    ]);
    let id = hooked(&world, json!({ "allowed_tools": tools })).await;
    let agent = json!({ "description": "look", "prompt": "look", "subagent_type": "general-purpose",
        "run_in_background": false });
    let steps = json!([
        bash("echo one"),
        bash("exit 3"),
        { "tool": "Read", "input": { "file_path": note } },
        { "tool": "Agent", "input": agent },
        { "tool": "TaskCreate", "input": { "subject": "a", "description": "b" } },
        { "tool": "TaskUpdate", "input": { "taskId": "1", "status": "completed" } },
        { "tool": "EnterWorktree", "input": { "name": "tree" } },
        { "tool": "ExitWorktree", "input": { "action": "remove", "discard_changes": true } },
        { "text": "done" },
    ]);
    assert_eq!(world.answer(&id, steps).await, "done");
    let failed = world.ask(&id, json!([{ "status": 400, "times": -1 }])).await;
    assert_eq!(failed["result"]["is_error"], true, "{failed:#}");
    world.stop(&id).await;
    all_answered(&world, &id, WORK).await;
}

#[tokio::test]
async fn what_is_changed_from_outside_asks_its_hooks() {
    let world = World::start().await;
    let folder = world.dir().join(".claude/commands");
    fs::create_dir_all(&folder).unwrap();
    let command = "---\nallowed-tools: Bash(echo:*)\n---\nSay !`echo hi`\n";
    fs::write(folder.join("greet.md"), command).unwrap();
    let settings = world.dir().join(".claude/settings.json");
    fs::write(&settings, "{}\n").unwrap();
    let id = hooked(&world, json!({})).await;
    for prompt in ["/greet", "/compact"] {
        let reply = world.rest.ask(&id, prompt).await;
        assert_eq!(reply["result"]["is_error"], false, "{reply:#}");
    }
    let inner = world.dir().join("inner");
    fs::create_dir(&inner).unwrap();
    let root = json!({ "subtype": "register_repo_root", "directory": inner });
    control(&world, &id, root).await;
    let model = json!({ "subtype": "set_model", "model": "claude-haiku-4-5" });
    control(&world, &id, model).await;
    // The CLI may not watch the file yet: then it hears of a later change.
    let mut changed: Option<Instant> = None;
    let mut number = 0;
    wait_for("a change of the settings is heard of", PATIENCE, async || {
        if changed.is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
            number += 1;
            fs::write(
                &settings,
                json!({ "env": { "N": number.to_string() } }).to_string(),
            )
            .unwrap();
            changed = Some(Instant::now());
        }
        answered(&world, &id).await.contains("ConfigChange").then_some(())
    })
    .await;
    all_answered(&world, &id, CHANGES).await;
}

#[tokio::test]
async fn another_directory_and_a_watched_file_ask_their_hooks() {
    // The CLI asks its host about directories where its settings have a hook of that event too.
    let command = json!({ "hooks": [{ "type": "command", "command": "true" }] });
    let settings = json!({ "hooks": { "CwdChanged": [command] } }).to_string();
    let world = World::with(|daemon| daemon.home_file(".claude/settings.json", &settings)).await;
    fs::create_dir(world.dir().join("inner")).unwrap();
    world.write("watched.txt", "0");
    let id = hooked(&world, json!({ "allowed_tools": ["Bash"] })).await;
    // The start of the session was before the CLI had its hooks; this one names the file.
    let cleared = world.rest.ask(&id, "/clear").await;
    assert_eq!(cleared["result"]["is_error"], false, "{cleared:#}");
    let mut changed: Option<Instant> = None;
    wait_for("a change of the file is heard of", PATIENCE, async || {
        if changed.is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
            let mut file = fs::OpenOptions::new()
                .append(true)
                .open(world.dir().join("watched.txt"))
                .unwrap();
            file.write_all(b"1").unwrap();
            changed = Some(Instant::now());
        }
        answered(&world, &id).await.contains("FileChanged").then_some(())
    })
    .await;
    let steps = json!([bash("cd inner"), bash("pwd"), { "text": "done" }]);
    assert_eq!(world.answer(&id, steps).await, "done");
    all_answered(&world, &id, PLACES).await;
}

#[tokio::test]
async fn what_waits_for_a_person_asks_its_hooks() {
    let world = World::start().await;
    world.write("asking.cjs", ASKING_SERVER);
    let server = json!({ "type": "stdio", "command": "node", "args": [world.dir().join("asking.cjs")] });
    let options = json!({ "mcp_servers": { "asking": server }, "allowed_tools": ["mcp__asking__ask"] });
    let id = hooked(&world, options).await;
    let form = json!({ "tool": "mcp__asking__ask", "input": {} });
    world
        .prompt(&id, json!([bash("touch asked.txt"), form, { "text": "done" }]))
        .await;
    let approval = world.rest.pending_approval(&id).await;
    // The CLI notifies a while after it asked.
    all_answered(&world, &id, &["Notification", "PermissionRequest"]).await;
    world.decide(&id, &approval, json!({ "decision": "allow" })).await;
    let approval = world.rest.pending_approval(&id).await;
    assert_eq!(approval["kind"], "elicitation", "{approval:#}");
    world
        .decide(&id, &approval, json!({ "decision": "decline" }))
        .await;
    world.idle_after(&id, 1).await;
    // In this mode a classifier decides, which the stand-in API does not have.
    control(
        &world,
        &id,
        json!({ "subtype": "set_permission_mode", "mode": "plan" }),
    )
    .await;
    world
        .answer(&id, json!([bash("touch planned.txt"), { "text": "done" }]))
        .await;
    all_answered(&world, &id, WAITING).await;
    assert!(world.exists("asked.txt") && !world.exists("planned.txt"));
}

#[test]
fn each_event_is_asked_by_the_real_cli_or_named_as_not() {
    let known: BTreeSet<_> = EVENTS.lines().collect();
    let tables = [WORK, CHANGES, PLACES, WAITING, FAKE_ONLY];
    let named: BTreeSet<_> = tables.into_iter().flatten().copied().collect();
    assert_eq!(named, known);
    let rows: usize = tables.iter().map(|table| table.len()).sum();
    assert_eq!(rows, EVENTS.lines().count(), "each event once");
}
