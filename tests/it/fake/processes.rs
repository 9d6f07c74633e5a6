//! Owns the rows of section L about which processes there are: as many as sessions need, and none of somebody else's is touched.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Child, Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    fake::bed::{act, act_through, body, of_type, pid, records, session},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

/// A session with a tool that left its group; only SIGKILL ends either.
async fn stubborn(daemon: &TestDaemon, name: &str) -> String {
    let settings = json!({ "eof": { "ignore": true }, "term": { "ignore": true } });
    let id = session(daemon, name, settings).await;
    let tool = json!({ "setsid": true, "double_fork": true, "ignore_term": true });
    act_through(
        &daemon.rest(),
        &id,
        json!([{ "child": tool }, { "text": "done" }]),
    )
    .await;
    id
}

/// The processes of the daemon's sessions: CLIs, and keepers.
fn running(daemon: &TestDaemon) -> (BTreeSet<i32>, usize) {
    let found = daemon.session_processes();
    let is_cli = |process: &&proc::Process| process.command.contains("fake_claude");
    let clis: BTreeSet<i32> = found.iter().filter(is_cli).map(|cli| cli.pid).collect();
    let others = found.len() - clis.len();
    (clis, others)
}

/// The processes of the sessions that say that they have one.
async fn claimed(rest: &Rest) -> BTreeSet<i32> {
    let list = rest.get("/v1/sessions?limit=500").await.expect(200);
    let sessions = list["items"].as_array().unwrap();
    sessions
        .iter()
        .filter_map(|view| view["cli"]["pid"].as_i64())
        .map(|pid| i32::try_from(pid).unwrap())
        .collect()
}

/// Waits until so many sessions live, and nothing runs but their CLIs and one keeper for each.
async fn balanced(daemon: &TestDaemon, live: usize) {
    let rest = daemon.rest();
    wait_for(
        &format!("{live} processes for {live} sessions"),
        PATIENCE,
        async || {
            let claimed = claimed(&rest).await;
            let (clis, keepers) = running(daemon);
            (claimed.len() == live && clis == claimed && keepers == live).then_some(())
        },
    )
    .await;
}

/// A process of somebody else. It looks like a CLI of ours, and is ended with the test.
struct Stranger {
    child: Child,
    _dir: TempDir,
}

impl Stranger {
    #[expect(clippy::disallowed_methods, reason = "it stands for what a person does")]
    fn start(args: &[String]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("claude");
        fs::write(&program, "#!/bin/sh\nread -r line\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let child = Command::new(&program)
            .args(args)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, _dir: dir }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn lives(&self) -> bool {
        proc::is_alive(self.pid())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The arguments of a process, without the interpreter and the program.
fn flags(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let args = text.split('\0').filter(|arg| arg.starts_with("--"));
    args.map(ToOwned::to_owned).collect()
}

/// Keepers outlive the daemon on purpose, so the row holds in this form: what lives is attached to again, what died is marked,
/// and there is nothing else.
#[tokio::test]
async fn after_the_death_of_the_daemon_every_process_belongs_to_a_session() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let [dies, busy, waits] = [
        session(&daemon, "dies", json!({})).await,
        session(&daemon, "busy", json!({})).await,
        session(&daemon, "waits", json!({})).await,
    ];
    rest.ask(&dies, "hello").await;
    let gate = daemon.home().join("gate");
    act(&rest, &busy, json!([{ "wait_file": gate }, { "text": "done" }])).await;
    act(&rest, &waits, json!([{ "ask": {} }])).await;
    rest.pending_approval(&waits).await;
    act(&rest, &dies, json!([{ "text": "half" }, { "silent": 1 }])).await;
    wait_for(
        "the turn that will be cut short has begun",
        PATIENCE,
        async || {
            let records = records(&rest, &dies).await;
            (of_type(&records, "cli", "assistant").len() == 2).then_some(())
        },
    )
    .await;
    let before = [
        pid(&rest, &dies).await,
        pid(&rest, &busy).await,
        pid(&rest, &waits).await,
    ];

    daemon.kill();
    let keeper = proc::read(before[0]).unwrap().parent;
    proc::signal(before[0], Signal::SIGKILL);
    wait_until("its keeper is gone", PATIENCE, || !proc::is_alive(keeper)).await;
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(pid(&rest, &busy).await, before[1]);
    assert_eq!(pid(&rest, &waits).await, before[2]);
    let view = rest.session(&dies).await;
    assert_eq!(
        (&view["state"], &view["cli"]["pid"]),
        (&json!("failed"), &Value::Null),
        "{view:#}"
    );
    assert_eq!(view["reason"]["code"], "cli_killed", "{view:#}");
    let turns = rest.turns(&dies).await;
    assert_eq!(turns[1]["subtype"], "interrupted", "{turns:#?}");
    balanced(&daemon, 2).await;
    fs::write(&gate, "").unwrap();
    rest.in_state(&busy, &["idle"]).await;
    rest.lifecycle(&dies, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&dies, "go on").await;
    balanced(&daemon, 3).await;
}

#[tokio::test]
async fn without_a_daemon_no_process_is_left_and_every_session_can_go_on() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ORPHAN_GRACE_MS", "1000")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300")
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300")
        .start()
        .await;
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        sessions.push(stubborn(&daemon, name).await);
    }
    wait_until("a keeper, a CLI and a tool for each", PATIENCE, || {
        daemon.session_processes().len() == 9
    })
    .await;
    daemon.kill();
    wait_until("nothing is left", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
    daemon.start().await;
    let rest = daemon.rest();
    for id in &sessions {
        let view = rest.session(id).await;
        assert_eq!(view["state"], "stopped", "{view:#}");
        let runs = rest.get(&format!("/v1/sessions/{id}/runs")).await.expect(200);
        assert_eq!(runs["items"][0]["exit"]["intent"], "orphaned", "{runs:#}");
        rest.lifecycle(id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        rest.ask(id, "go on").await;
    }
    balanced(&daemon, 3).await;
}

#[tokio::test]
async fn what_only_looks_like_ours_survives_each_end_and_start() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    let ours = pid(&rest, &id).await;
    let mut args = flags(ours);
    for arg in &mut args {
        if arg.starts_with("--session-id=") {
            *arg = "--session-id=7e6f2a34-5d1c-4b7e-9a51-0c0ffee00077".to_owned();
        }
    }
    let stranger = Stranger::start(&args);

    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert!(stranger.lives(), "a stop ended it");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    daemon.kill();
    daemon.start().await;
    assert!(stranger.lives(), "a daemon that came back ended it");
    let rest = daemon.rest();
    rest.ask(&id, "still there?").await;
    assert_eq!(daemon.stop().code(), Some(0));
    assert!(stranger.lives(), "a shutdown ended it");
    daemon.start().await;
    daemon
        .rest()
        .delete(&format!("/v1/sessions/{id}"))
        .await
        .expect(204);
    assert!(stranger.lives(), "a delete ended it");
    assert!(daemon.session_processes().is_empty());
}

/// The pid of a keeper that died is another process's by now.
#[tokio::test]
async fn a_pid_that_was_used_again_is_nobody_of_ours() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    let cli = pid(&rest, &id).await;
    let keeper = proc::read(cli).unwrap().parent;
    daemon.kill();
    proc::signal(keeper, Signal::SIGKILL);
    wait_until("all of it is gone", PATIENCE, || {
        !proc::is_alive(cli) && !proc::is_alive(keeper)
    })
    .await;
    let stranger = Stranger::start(&[]);
    let file = daemon.data_dir().join("sessions").join(&id).join("keeper.json");
    let mut identity: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(identity["pid"], keeper);
    identity["pid"] = stranger.pid().into();
    fs::write(&file, identity.to_string()).unwrap();

    daemon.start().await;
    let rest = daemon.rest();
    let view = rest.session(&id).await;
    assert_eq!(view["reason"]["code"], "keeper_lost", "{view:#}");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert!(stranger.lives(), "a stop ended it");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "go on").await;
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    assert!(stranger.lives(), "a delete ended it");
}

#[tokio::test]
async fn there_are_as_many_processes_as_live_sessions() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "1")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for place in 0..6 {
        let id = session(&daemon, &format!("w{place}"), json!({})).await;
        rest.ask(&id, "hello").await;
        sessions.push(id);
    }
    balanced(&daemon, 6).await;
    for id in &sessions[..2] {
        rest.lifecycle(id, "stop", json!({})).await.expect(200);
    }
    balanced(&daemon, 4).await;
    rest.delete(&format!("/v1/sessions/{}", sessions[2]))
        .await
        .expect(204);
    balanced(&daemon, 3).await;
    // One that dies is replaced, once; then it has failed.
    for live in [3, 2] {
        let dead = pid(&rest, &sessions[3]).await;
        proc::signal(dead, Signal::SIGKILL);
        wait_until("it is gone", PATIENCE, || !proc::is_alive(dead)).await;
        balanced(&daemon, live).await;
    }
    assert_eq!(rest.session(&sessions[3]).await["state"], "failed");
    let fork = rest
        .lifecycle(&sessions[4], "fork?wait=ready", json!({}))
        .await
        .expect(201);
    balanced(&daemon, 3).await;
    // A process that never came up, and one that ends by itself, leave nothing.
    let broken = json!({ "exit_at_start": { "code": 1, "stderr": "unknown option\n" } });
    let made = rest.create(body(&daemon, "broken", broken, json!({}))).await;
    rest.in_state(made["id"].as_str().unwrap(), &["failed"]).await;
    balanced(&daemon, 3).await;
    act(
        &rest,
        fork["id"].as_str().unwrap(),
        json!([{ "text": "bye" }, { "result": {} }, { "exit": 0 }]),
    )
    .await;
    balanced(&daemon, 2).await;
}

/// Eviction really ends them, however they resist, and takes nobody who has something to do.
#[tokio::test]
async fn an_idle_session_that_is_evicted_has_no_process_left() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_PARK_IDLE_MS", "1000")
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "300")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300")
        .start()
        .await;
    let rest = daemon.rest();
    let (busy, waits) = (
        session(&daemon, "busy", json!({})).await,
        session(&daemon, "waits", json!({})).await,
    );
    let gate = daemon.home().join("gate");
    act(&rest, &busy, json!([{ "wait_file": gate }, { "text": "done" }])).await;
    act(&rest, &waits, json!([{ "ask": {} }])).await;
    let mut idle = Vec::new();
    for name in ["a", "b"] {
        idle.push(stubborn(&daemon, name).await);
    }
    for id in &idle {
        rest.in_state(id, &["parked"]).await;
    }
    balanced(&daemon, 2).await;
    rest.ask(&idle[0], "wake up").await;
    rest.in_state(&idle[0], &["parked"]).await;
    balanced(&daemon, 2).await;
    fs::write(&gate, "").unwrap();
    rest.in_state(&busy, &["parked"]).await;
    balanced(&daemon, 1).await;
}
