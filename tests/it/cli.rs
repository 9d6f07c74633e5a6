//! The command line as a person uses it: the built program against a running daemon whose agent is the simulated one.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking and start the program under test"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::{self, trunkline},
};

/// The outcome of a command.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    fn fails(self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(words), "{self:?}");
        assert_eq!(self.out, "", "an error is no data");
    }
}

fn command(data_dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(trunkline());
    command
        .env_clear()
        .env("HOME", data_dir)
        .env("PATH", "/usr/bin:/bin")
        .arg("--data-dir")
        .arg(data_dir)
        .args(args)
        .stdin(Stdio::null());
    command
}

fn run_in(data_dir: &Path, args: &[&str]) -> Ran {
    let output = command(data_dir, args).output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(daemon: &TestDaemon, args: &[&str]) -> Ran {
    run_in(&daemon.data_dir(), args)
}

fn json(daemon: &TestDaemon, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&run(daemon, &args).ok()).unwrap()
}

/// The simulated agent under the name of an agent CLI.
fn simulated(dir: &Path) -> PathBuf {
    let path = dir.join("claude");
    fs::write(
        &path,
        format!("#!/bin/sh\nexec '{}' sim \"$@\"\n", trunkline().display()),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_its_first_prompt_to_its_end() {
    let bin = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .claude(simulated(bin.path()))
        .start()
        .await;
    run(&daemon, &["show", "last"]).fails(4, "there is no session yet");

    let work = daemon.work_dir("project");
    let work = work.to_str().unwrap();
    let new = [
        "new",
        "--cwd",
        work,
        "--title",
        "First",
        "--label",
        "a=b",
        "--wait",
        "good morning",
    ];
    let answer = run(&daemon, &new).ok();
    assert!(
        answer.contains("good morning") && answer.contains("simulated"),
        "{answer}"
    );

    let list = json(&daemon, &["ls"]);
    let id = list["items"][0]["id"].as_str().unwrap().to_owned();
    let table = run(&daemon, &["ls", "--label", "a=b"]).ok();
    assert!(table.lines().nth(1).unwrap().starts_with(&id[..8]), "{table}");
    assert!(
        table.contains("First") && table.contains("idle (simulated)"),
        "{table}"
    );
    assert!(!table.contains('\x1b'), "no colour into a pipe");

    let again = run(&daemon, &["send", &id[..13], "--wait", "and again"]).ok();
    assert!(again.contains("turn 2"), "{again}");
    let shown = run(&daemon, &["show", "last"]).ok();
    assert!(shown.contains(&id) && shown.contains("a=b"), "{shown}");
    let usage = json(&daemon, &["usage", "--by", "session"]);
    assert_eq!(usage["items"][0]["turns"], 2);
    assert_eq!(usage["items"][0]["key"], id.as_str());
    assert!(run(&daemon, &["usage"]).ok().contains("$0.00"));

    let copy = run(&daemon, &["fork", &id, "--title", "Copy"]).ok();
    let copy = copy.trim();
    assert_eq!(json(&daemon, &["show", copy])["parent_id"], id.as_str());

    assert!(run(&daemon, &["stop", &id]).ok().contains("stopped"));
    let refused = run(&daemon, &["send", &id, "hello?"]);
    assert!(
        refused.err.contains("hint: ") && refused.err.contains("trunkline resume"),
        "{refused:?}"
    );
    refused.fails(5, "error: ");
    run(&daemon, &["resume", &id]).ok();
    assert!(
        run(&daemon, &["send", &id, "--wait", "back?"])
            .ok()
            .contains("turn 3")
    );

    run(&daemon, &["rm", &id, copy]).ok();
    run(&daemon, &["show", &id]).fails(4, "hint: `trunkline ls`");
    run(&daemon, &["show", "not-an-id"]).fails(2, "neither an id");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_asks_is_answered() {
    let bin = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .claude(simulated(bin.path()))
        .start()
        .await;
    let work = daemon.work_dir("project");
    let id = run(&daemon, &["new", "--cwd", work.to_str().unwrap(), "use a tool"]).ok();
    let id = id.trim();
    daemon.rest().pending_approval(id).await;
    let shown = run(&daemon, &["show", id]).ok();
    assert!(
        shown.contains("waits for you") && shown.contains("Bash"),
        "{shown}"
    );
    run(&daemon, &["approve", id, "--answer", "1"]).fails(2, "--answer");
    run(&daemon, &["approve", id]).ok();
    daemon.rest().in_state(id, &["idle"]).await;
    run(&daemon, &["approve", id]).fails(4, "asks nothing now");

    run(&daemon, &["send", id, "a question"]).ok();
    daemon.rest().pending_approval(id).await;
    run(&daemon, &["approve", id]).fails(2, "2 Blue");
    run(&daemon, &["approve", id, "--answer", "2", "--answer", "1,2"]).ok();
    daemon.rest().in_state(id, &["idle"]).await;

    run(&daemon, &["send", id, "a plan"]).ok();
    daemon.rest().pending_approval(id).await;
    run(&daemon, &["deny", id, "--message", "think again", "--interrupt"]).ok();
    daemon.rest().in_state(id, &["idle"]).await;

    run(&daemon, &["send", id, "slow"]).ok();
    daemon.rest().in_turn(id).await;
    run(&daemon, &["interrupt", id]).ok();
    daemon.rest().in_state(id, &["idle"]).await;

    // Everything can be seen afterwards by whoever attaches; without a terminal nothing is asked.
    let mut attach = command(&daemon.data_dir(), &["attach", id, "--after", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines();
    let mut seen = String::new();
    while seen.matches("the turn was interrupted").count() < 2 {
        seen.push_str(
            &lines
                .next()
                .unwrap_or_else(|| panic!("ended after {seen}"))
                .unwrap(),
        );
        seen.push('\n');
    }
    assert!(
        seen.contains("> use a tool\n") && seen.contains("* Bash echo"),
        "{seen}"
    );
    assert!(
        seen.contains("\"Which colour does the simulation get?\":\"Blue\""),
        "{seen}"
    );
    assert!(
        !seen.contains("y allows"),
        "what is settled is not asked again: {seen}"
    );
    proc::signal(i32::try_from(attach.id()).unwrap(), Signal::SIGINT);
    assert!(attach.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_daemon_per_directory_and_port() {
    let mut daemon = TestDaemon::with_fake().start().await;
    run(&daemon, &["serve", "--listen", "127.0.0.1:0"]).fails(7, &format!("process {}", daemon.pid()));
    let doctor = run(&daemon, &["doctor"]);
    assert!(doctor.ok().contains(&format!("{} answers", daemon.url())));

    let elsewhere = tempfile::tempdir().unwrap();
    let address = daemon.url().strip_prefix("http://").unwrap().to_owned();
    run_in(elsewhere.path(), &["serve", "--listen", &address]).fails(6, "already in use");
    assert!(!elsewhere.path().join("daemon.json").exists());
    run_in(elsewhere.path(), &["serve", "--listen", "0.0.0.0:0"]).fails(2, "--insecure");
    run_in(elsewhere.path(), &["serve", "--listen", "nowhere"]).fails(2, "server.listen (flag --listen)");
    run_in(elsewhere.path(), &["ls"]).fails(3, "hint: start it with `trunkline serve`");
    run_in(elsewhere.path(), &["ls", "--frobnicate"]).fails(2, "--frobnicate");

    // A killed daemon leaves its file; the next one is not held up by it, and clients say what is wrong meanwhile.
    daemon.kill();
    run(&daemon, &["ls"]).fails(3, "nothing answers");
    daemon.start().await;
    run(&daemon, &["ls"]).ok();
    assert!(daemon.stop().success());
    assert!(!daemon.data_dir().join("daemon.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_sessions_along_unless_told_otherwise() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let work = daemon.work_dir("project");
    let session = serde_json::json!({"cwd": work.to_str().unwrap()});
    let id = daemon.rest().create_ready(session.clone()).await;
    assert!(daemon.stop().success());
    assert!(
        daemon.session_processes().is_empty(),
        "{:?}",
        daemon.session_processes()
    );
    daemon.start().await;
    assert_eq!(daemon.rest().session(&id).await["state"], "stopped");
    assert!(daemon.stop().success());

    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let work = daemon.work_dir("project");
    let id = daemon
        .rest()
        .create_ready(serde_json::json!({"cwd": work.to_str().unwrap()}))
        .await;
    let pid = daemon.rest().session(&id).await["cli"]["pid"].clone();
    assert!(daemon.stop().success());
    daemon.start().await;
    let session = daemon.rest().session(&id).await;
    assert_eq!(
        (&session["state"], &session["cli"]["pid"]),
        (&Value::from("idle"), &pid)
    );
    run(&daemon, &["stop", &id]).ok();
}

#[test]
fn a_second_program_on_the_port_is_told_by_doctor() {
    let data = tempfile::tempdir().unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let output = command(data.path(), &["doctor"])
        .env("TRUNKLINE_LISTEN", &address)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FIX") && text.contains(&address), "{text}");
    assert!(
        text.contains("says nothing") && text.contains("--listen"),
        "{text}"
    );
    // Other commands wait longer for a daemon that may be starting, and say so.
    let noted = String::from_utf8(output.stderr).unwrap();
    assert!(!noted.contains("waiting"), "{noted}");

    let output = command(data.path(), &["config"])
        .env("TRUNKLINE_STOP_DRAIN_MS", "123")
        .env("TRUNKLINE_CLAUDE_ENV", "{ KEY = \"planted-secret\" }")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("stop.drain_ms = 123") && text.contains("# environment TRUNKLINE_STOP_DRAIN_MS"));
    assert!(
        text.contains("flag --data-dir") && !text.contains("planted-secret"),
        "{text}"
    );
}

#[test]
fn openapi_prints_the_committed_contract() {
    let data = tempfile::tempdir().unwrap();
    let printed = run_in(data.path(), &["openapi"]).ok();
    let committed = fs::read_to_string(programs::repository("openapi/trunkline.json")).unwrap();
    assert_eq!(printed.trim_end(), committed.trim_end(), "run `make openapi`");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_is_listed_and_a_form_is_filled_in() {
    let bin = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .claude(simulated(bin.path()))
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest
        .create_ready(serde_json::json!({ "cwd": daemon.work_dir("project") }))
        .await;
    assert_eq!(run(&daemon, &["approvals"]).ok(), "");
    rest.prompt(&id, "show me a form").await;
    rest.pending_approval(&id).await;
    let inbox = run(&daemon, &["approvals"]).ok();
    let row = inbox.lines().nth(1).unwrap_or_default();
    assert!(
        row.starts_with(&id[..8]) && row.contains("elicitation") && inbox.contains("Who are you?"),
        "{inbox}"
    );
    assert_eq!(
        json(&daemon, &["approvals", "--kind", "tool"])["items"],
        serde_json::json!([])
    );

    run(&daemon, &["approve", "last", "--answer", "x"]).fails(2, "takes --answer");
    run(&daemon, &["deny", "last", "--message", "x"]).fails(2, "do not go with this");
    run(&daemon, &["approve", "last", "--field", "age=3"]).fails(2, "name, colour");
    let nothing = run(&daemon, &["approve", "last"]);
    assert!(
        nothing.code != 0 && nothing.err.contains("name is missing"),
        "{}",
        nothing.err
    );
    run(
        &daemon,
        &["approve", "last", "--field", "name=Ada", "--field", "colour=2"],
    )
    .ok();
    rest.in_state(&id, &["idle"]).await;
    let decided = json(&daemon, &["approvals", "--state", "all"]);
    let content = &decided["items"][0]["resolution"]["response"]["content"];
    assert_eq!(*content, serde_json::json!({ "name": "Ada", "colour": "blue" }));

    let plan = bin.path().join("plan.md");
    fs::write(&plan, "# Mine\n").unwrap();
    rest.prompt(&id, "make a plan").await;
    rest.pending_approval(&id).await;
    let path = plan.to_str().unwrap();
    run(
        &daemon,
        &["approve", "last", "--plan", path, "--next-mode", "acceptEdits"],
    )
    .ok();
    assert_eq!(
        rest.in_state(&id, &["idle"]).await["permission_mode"],
        "acceptEdits"
    );
    let decided = json(&daemon, &["approvals", "--state", "allowed", "--kind", "plan"]);
    let resolution = &decided["items"][0]["resolution"];
    assert_eq!(resolution["response"]["updatedInput"]["plan"], "# Mine\n");

    rest.prompt(&id, "another form").await;
    rest.pending_approval(&id).await;
    run(&daemon, &["deny", "last", "--cancel"]).ok();
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(
        json(&daemon, &["approvals", "--state", "cancelled"])["items"][0]["kind"],
        "elicitation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_are_listed_and_tried() {
    let bin = tempfile::tempdir().unwrap();
    let config = bin.path().join("config.toml");
    fs::write(
        &config,
        "[[rules]]\nid = \"writes\"\naction = \"deny\"\ntool = \"Write\"\n",
    )
    .unwrap();
    let daemon = TestDaemon::with_fake()
        .claude(simulated(bin.path()))
        .arg("--config")
        .arg(&config)
        .start()
        .await;
    let rules = serde_json::json!([{ "id": "status", "action": "allow", "tool": "Bash",
        "input": { "command": { "command_prefix": ["git", "status"] } } }]);
    let rest = daemon.rest();
    let id = rest
        .create_ready(serde_json::json!({ "cwd": daemon.work_dir("project"), "rules": rules }))
        .await;
    let listed = run(&daemon, &["rules", &id]).ok();
    let rows: Vec<&str> = listed.lines().collect();
    assert_eq!(rows.len(), 3, "{listed}");
    assert!(rows[1].contains("status") && rows[1].contains("allow") && rows[1].contains("command_prefix"));
    assert!(rows[2].contains("writes") && rows[2].contains("config"));
    assert_eq!(json(&daemon, &["rules"])["config"][0]["id"], "writes");
    let tried = run(
        &daemon,
        &[
            "rules",
            &id,
            "--test",
            "Bash",
            "--input",
            r#"{"command":"git status"}"#,
        ],
    );
    assert_eq!(
        tried.ok(),
        "allow by status (session): all conditions hold: tool, input.command\n"
    );
    let tried = run(
        &daemon,
        &[
            "rules",
            &id,
            "--test",
            "Bash",
            "--input",
            r#"{"command":"git status; rm x"}"#,
        ],
    );
    assert_eq!(
        tried.ok(),
        "ask: no rule matches\n  not status: input.command does not match\n  not writes: another tool\n"
    );
    run(&daemon, &["rules", "--test", "Bash", "--input", "{"]).fails(2, "--input is not JSON");
}
