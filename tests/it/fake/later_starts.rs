//! Owns the rows of section S about every start after the first: it never creates a conversation that may exist, and it
//! has all the settings of the first.

use std::{collections::BTreeMap, fs, path::Path};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, body, path, pid, session_with},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

async fn eager() -> TestDaemon {
    TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await
}

/// The record that each start of a CLI wrote about itself.
fn starts(dump: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dump).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn args(start: &Value) -> Vec<&str> {
    let args = start["argv"].as_array().unwrap();
    args.iter().map(|arg| arg.as_str().unwrap()).collect()
}

/// The value of a flag.
fn flag<'a>(start: &'a Value, name: &str) -> Option<&'a str> {
    args(start).into_iter().find_map(|arg| arg.strip_prefix(name))
}

/// Waits until so many processes were started and the last one is ready.
async fn idle_after(rest: &Rest, id: &str, runs: usize) -> Value {
    wait_for(&format!("process {runs} is idle"), PATIENCE, async || {
        let list = rest.get(&path(id, "runs")).await.expect(200);
        let view = rest.session(id).await;
        (list["items"].as_array().unwrap().len() == runs && view["state"] == "idle").then_some(view)
    })
    .await
}

/// The fake CLI refuses the create flag when there is a transcript, as the real one does.
#[tokio::test]
async fn a_cli_that_crashes_before_or_after_its_first_turn_is_restarted() {
    let daemon = eager().await;
    let rest = daemon.rest();
    let crash = json!([{ "stderr": "a bad day\n" }, { "exit": 1 }]);
    let before_ready = json!({ "save": "start", "init": { "never": true }, "start": crash });
    let before_turn = json!({ "save": "start", "after_init": crash });
    for (name, first) in [("before-ready", before_ready), ("before-turn", before_turn)] {
        let dump = daemon.home().join(name);
        let settings = json!({ "dump": dump, "starts": [first, {}], "starts_file": daemon.home().join(format!("{name}-starts")) });
        let made = rest.create(body(&daemon, name, settings, json!({}))).await;
        let id = made["id"].as_str().unwrap();
        let view = idle_after(&rest, id, 2).await;
        act_through(&rest, id, json!([{ "text": "works" }])).await;
        let starts = starts(&dump);
        assert_eq!(starts.len(), 2, "{name}");
        let ids = [
            flag(&starts[0], "--session-id="),
            flag(&starts[1], "--session-id="),
        ];
        assert!(
            ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1],
            "{name}: {ids:?}"
        );
        assert_eq!(view["cli"]["session_id"].as_str(), ids[1], "{name}");
        assert_eq!(rest.session(id).await["turns"], 1);
    }

    // In and after the first turn there is a conversation, and it goes on.
    for (name, in_turn) in [("in-turn", true), ("after-turn", false)] {
        let dump = daemon.home().join(name);
        let settings = json!({ "dump": dump, "save": "start" });
        let id = session_with(&daemon, name, settings, json!({})).await;
        if in_turn {
            act(&rest, &id, json!([{ "text": "half" }, { "exit": 1 }])).await;
        } else {
            act_through(&rest, &id, json!([{ "text": "whole" }])).await;
            proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
        }
        let view = idle_after(&rest, &id, 2).await;
        act_through(&rest, &id, json!([{ "text": "works" }])).await;
        let starts = starts(&dump);
        let first = flag(&starts[0], "--session-id=").unwrap();
        assert_eq!(flag(&starts[1], "--resume="), Some(first), "{name}");
        assert_eq!(flag(&starts[1], "--session-id="), None, "{name}");
        assert_eq!(view["cli"]["session_id"], json!(first), "{name}");
    }
}

/// Everything that decides how a process works: flags, files, environment, and the `initialize` request.
fn settings_of(start: &Value, initialize: &Value) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    for arg in args(start) {
        let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
        if !["--session-id", "--resume"].contains(&name) {
            settings.insert(arg.to_owned(), Value::Null);
        }
        if ["--mcp-config", "--settings"].contains(&name) {
            let contents = fs::read_to_string(value).unwrap();
            settings.insert(name.to_owned(), serde_json::from_str(&contents).unwrap());
        }
    }
    let mut env = start["env"].clone();
    env.as_object_mut().unwrap().remove("TRUNKLINE_RUN");
    settings.insert("env".to_owned(), env);
    settings.insert("cwd".to_owned(), start["cwd"].clone());
    settings.insert("initialize".to_owned(), initialize["request"].clone());
    settings
}

#[tokio::test]
async fn every_setting_holds_over_each_kind_of_later_start() {
    let mut daemon = eager().await;
    let rest = daemon.rest();
    let (dump, stdin) = (daemon.home().join("dump"), daemon.home().join("stdin"));
    let extra = daemon.work_dir("extra");
    let options = json!({
        "model": "claude-fake-1", "fallback_model": "claude-fake-0", "effort": "high", "max_thinking_tokens": 2000,
        "max_turns": 40, "max_budget_usd": 12.5, "permission_mode": "acceptEdits",
        "allowed_tools": ["Read", "Bash(git *)"], "disallowed_tools": ["WebFetch"], "tools": ["Read", "Bash", "Edit"],
        "mcp_servers": { "notes": { "type": "stdio", "command": "notes-server", "args": ["--fast"] } },
        "strict_mcp_config": true, "additional_directories": [extra],
        "agents": { "helper": { "description": "Helps.", "prompt": "Help." } },
        "system_prompt": { "type": "preset", "preset": "claude_code", "append": "Be brief." },
        "settings": { "cleanupPeriodDays": 7 }, "setting_sources": ["user"], "include_partial_messages": true,
        "json_schema": { "type": "object" }, "env": { "OF_THE_SESSION": "kept" },
    });
    let settings = json!({ "dump": dump, "record_stdin": stdin });
    let id = session_with(&daemon, "a", settings, options).await;
    rest.ask(&id, "hello").await;
    // A choice made meanwhile holds as well.
    rest.put(&path(&id, "model"), json!({ "model": "claude-fake-2" }))
        .await
        .expect(200);
    rest.put(&path(&id, "permission_mode"), json!({ "mode": "plan" }))
        .await
        .expect(200);

    // The supervisor starts it again.
    proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
    idle_after(&rest, &id, 2).await;
    rest.ask(&id, "second").await;
    // A daemon that ended in order, and a resume.
    assert_eq!(daemon.stop().code(), Some(0));
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "third").await;
    // A daemon that died, and its CLI after it.
    let cli = pid(&rest, &id).await;
    let keeper = proc::read(cli).unwrap().parent;
    daemon.kill();
    proc::signal(cli, Signal::SIGKILL);
    wait_until("its keeper is gone", PATIENCE, || !proc::is_alive(keeper)).await;
    daemon.start().await;
    let rest = daemon.rest();
    idle_after(&rest, &id, 4).await;
    rest.ask(&id, "fourth").await;

    let starts = starts(&dump);
    let said = fs::read_to_string(&stdin).unwrap();
    let initialize: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["request"]["subtype"] == "initialize")
        .collect();
    assert_eq!((starts.len(), initialize.len()), (4, 4));
    let mut expected = settings_of(&starts[0], &initialize[0]);
    for (old, new) in [
        ("--model=claude-fake-1", "--model=claude-fake-2"),
        ("--permission-mode=acceptEdits", "--permission-mode=plan"),
    ] {
        assert!(expected.remove(old).is_some(), "{expected:#?}");
        expected.insert(new.to_owned(), Value::Null);
    }
    assert_eq!(
        expected["--mcp-config"]["mcpServers"]["notes"]["command"],
        "notes-server"
    );
    assert!(
        expected["initialize"].to_string().contains("Be brief."),
        "{expected:#?}"
    );
    // The limit is the session's: each later start has what is left of it.
    assert!(
        expected.remove("--max-budget-usd=12.5").is_some(),
        "{expected:#?}"
    );
    let mut left = 12.5;
    let conversation = flag(&starts[0], "--session-id=").unwrap();
    for (start, initialize) in starts.iter().zip(&initialize).skip(1) {
        assert_eq!(flag(start, "--resume="), Some(conversation));
        assert_eq!(flag(start, "--session-id="), None);
        let mut found = settings_of(start, initialize);
        let limit = flag(start, "--max-budget-usd=").unwrap();
        found.remove(&format!("--max-budget-usd={limit}"));
        assert_eq!(found, expected);
        let limit: f64 = limit.parse().unwrap();
        assert!(limit <= left, "{limit} {left}");
        left = limit;
    }
    assert!(left < 12.5, "{left}");
    assert_eq!(rest.session(&id).await["turns"], 4);
}
