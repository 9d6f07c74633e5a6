//! Owns the tests of the clients in `clients`, as they are packed and installed: a whole story of a session with the real CLI.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::timeout,
};

use crate::{
    support::{daemon::TestDaemon, programs::repository, wait::PATIENCE},
    world::World,
};

/// Runs a story against a daemon that dies in the middle of it; its outcome.
async fn story(world: &mut World, program: &Path, script: &str) -> Value {
    let made = "`make clients` makes what this test needs";
    assert!(program.exists(), "{} is missing: {made}", program.display());
    let setup = json!({ "dataDir": world.daemon.data_dir(), "cwd": world.dir() });
    let mut child = Command::new(program)
        .args([repository(script).to_str().unwrap(), &setup.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await;
        let line = line.expect("the story goes on").unwrap().expect("it has an end");
        let mut said: Value = serde_json::from_str(&line).unwrap();
        match said["at"].as_str() {
            None => break said["outcome"].take(),
            Some("held") => {
                world.api.at_gate("held").await;
                world.daemon.kill();
                world.api.release("held").await;
                world.daemon.start().await;
                world.rest = world.daemon.rest();
            }
            Some(file) => world.made(file).await,
        }
        stdin.write_all(b"go on\n").await.unwrap();
    }
}

/// The story is the same in each language, and so is what came of it.
async fn check(world: &World, outcome: &Value) {
    assert_eq!(outcome["errors"], json!([]), "{outcome:#}");
    // Every record came once, from the first to the last, although the daemon died.
    let seqs: Vec<u64> = serde_json::from_value(outcome["seqs"].clone()).unwrap();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    assert_eq!(outcome["connections"], json!([true, false, true]));

    assert_eq!(outcome["first"], json!(["success", "Made."]));
    assert!(world.exists("changed.txt") && !world.exists("asked.txt"));
    assert!(!world.exists("denied.txt") && world.exists("forked.txt"));
    assert_eq!(
        outcome["asked"],
        json!([
            ["tool", "Bash"],
            ["question", "AskUserQuestion"],
            ["tool", "mcp__calc__add"],
            ["tool", "Bash"],
            ["tool", "Bash"],
        ]),
    );
    assert_eq!(
        outcome["hooked"],
        json!([
            "touch asked.txt",
            "touch denied.txt",
            "touch started; sleep 600",
            "touch forked.txt"
        ]),
    );
    assert_eq!(outcome["tools"][0]["name"], "add");
    assert_eq!(
        outcome["tools"][0]["annotations"]["readOnly"], true,
        "{outcome:#}"
    );
    assert_eq!(outcome["held"], "Held, and said to the end.");
    assert_eq!(outcome["cut"], "error_during_execution");
    assert_eq!(
        (&outcome["prompts"], &outcome["end"]),
        (&json!(1), &json!("From the fork."))
    );
    assert_eq!(
        (&outcome["isLive"], &outcome["turns"]),
        (&json!("idle"), &json!(5))
    );
    assert!(outcome["cost"].as_f64().unwrap() > 0.0);
    assert_eq!(outcome["unknown"], json!(["session_not_found", 404, false]));
    assert_eq!(outcome["deleted"], 4410);
    // The fork remembers what was said before it: the model was told of the answer, of the denial and of the sum.
    let told = world.last_request().await["messages"].to_string();
    for words in ["Blue", "not on my watch", "the sum is 42"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

/// A client that follows a session and tells where it is.
struct Follower {
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    _child: tokio::process::Child,
}

impl Follower {
    fn start(program: &Path, script: &str, setup: &Value) -> Self {
        let mut child = Command::new(program)
            .args([repository(script).to_str().unwrap(), &setup.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("`make clients` makes {}: {error}", program.display()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, _child: child }
    }

    async fn says(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("it goes on").unwrap().expect("it has an end");
        serde_json::from_str(&line).unwrap()
    }
}

/// Puts a copy of a directory in the place of another one.
#[expect(clippy::disallowed_methods, reason = "a person copies files")]
fn restore(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn clients_of_a_restored_daemon_are_told_and_begin_anew() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let mut copied = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "before the copy").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert!(daemon.stop().success() && copied.stop().success());
    restore(&daemon.data_dir(), &copied.data_dir());
    restore(&daemon.home(), &copied.home());

    // Clients read what the original says then.
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "only in the original").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    let setup = json!({ "dataDir": daemon.data_dir(), "id": id, "until": head });
    let python = repository("target/clients/python/bin/python");
    let mut followers = [
        Follower::start(&which("node"), "target/clients/typescript/follow.mjs", &setup),
        Follower::start(&python, "clients/python/tests/follow.py", &setup),
    ];
    for follower in &mut followers {
        assert_eq!(follower.says().await, json!({ "at": "read" }));
    }
    assert!(daemon.stop().success());

    // Its copy goes its own way, as far and farther, and takes its place.
    copied.start().await;
    let there = copied.rest();
    while there.session(&id).await["head_seq"].as_u64() <= Some(head) {
        there
            .lifecycle(&id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        there.ask(&id, "only in the copy").await;
        there.lifecycle(&id, "stop", json!({})).await.expect(200);
    }
    assert!(copied.stop().success());
    restore(&copied.data_dir(), &daemon.data_dir());
    daemon.start().await;
    for follower in &mut followers {
        let told =
            json!({ "first": ["history_differs", 409, head], "again": "history_differs", "anew": head });
        assert_eq!(follower.says().await, json!({ "outcome": told }));
    }
}

#[tokio::test]
async fn the_typescript_client_tells_a_whole_story() {
    let mut world = World::start().await;
    let app = repository("target/clients/typescript/story.mjs");
    assert!(app.exists(), "`make clients` makes what this test needs");
    let node = which("node");
    let outcome = story(&mut world, &node, "target/clients/typescript/story.mjs").await;
    check(&world, &outcome).await;
}

#[tokio::test]
async fn the_python_client_tells_a_whole_story() {
    let mut world = World::start().await;
    let python = repository("target/clients/python/bin/python");
    let outcome = story(&mut world, &python, "clients/python/tests/story.py").await;
    check(&world, &outcome).await;
}

fn which(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut all = std::env::split_paths(&path).map(|dir| dir.join(program));
    all.find(|file| file.exists())
        .expect("node is needed for this test")
}
