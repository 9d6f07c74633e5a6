//! Owns that a conversation has one process: races of those who start it, and processes that are none of ours.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    fake::bed::{pid, plain},
    support::{
        daemon::TestDaemon,
        proc,
        programs::{fake_claude, trunkline},
        wait::{PATIENCE, wait_until},
    },
};

/// A process of the test; it is ended with it.
struct ByHand(Child);

impl ByHand {
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A program that the test runs itself.
#[expect(clippy::disallowed_methods, reason = "it stands for what a person does")]
fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// A CLI that somebody runs on a conversation, without a daemon.
async fn cli_by_hand(daemon: &TestDaemon, args: &[String]) -> ByHand {
    let child = command(fake_claude())
        .args(["--input-format", "stream-json", "--output-format", "stream-json"])
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", daemon.home())
        .current_dir(daemon.work_dir("a"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let by_hand = ByHand(child);
    // The program is a script, and while its interpreter is loaded it has no arguments.
    wait_until("the CLI to run", PATIENCE, || {
        let process = proc::read(i32::try_from(by_hand.pid()).unwrap()).unwrap();
        let program = process.command.split(' ').next().unwrap();
        program.ends_with("python3")
    })
    .await;
    by_hand
}

fn conversation(view: &Value) -> String {
    view["cli"]["session_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_and_resumes_just_after_a_crash_end_in_one_process() {
    let (_daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    for round in 0..8 {
        proc::signal(pid(&rest, &id).await, Signal::SIGKILL);
        if round % 2 == 1 {
            // The other half of the rounds comes before the daemon has seen the end.
            rest.in_state(&id, &["failed"]).await;
        }
        let resume = || rest.lifecycle(&id, "resume", json!({}));
        let messages = format!("/v1/sessions/{id}/messages");
        let prompt = |n: u32| rest.post(&messages, json!({ "text": format!("{round}-{n}") }));
        let replies = tokio::join!(prompt(0), resume(), prompt(1), resume(), prompt(2));
        let mut resumed = 0;
        for (place, reply) in [replies.0, replies.1, replies.2, replies.3, replies.4]
            .into_iter()
            .enumerate()
        {
            match (place, reply.status.as_u16()) {
                (1 | 3, 200) => resumed += 1,
                (0 | 2 | 4, 202) => {}
                (_, 409) => {
                    let code = reply.problem(409);
                    assert!(
                        ["session_already_live", "session_not_live"].contains(&code.as_str()),
                        "{code}"
                    );
                }
                _ => panic!("{place}: {reply:?}"),
            }
        }
        assert!(resumed <= 1, "two resumes have started a process");
        if resumed == 0 {
            assert_eq!(round % 2, 0, "nobody could resume what has failed");
            rest.in_state(&id, &["failed"]).await;
            rest.lifecycle(&id, "resume", json!({})).await.expect(200);
        }
        rest.in_state(&id, &["idle"]).await;
        let clis = || {
            let found = proc::with_env("TRUNKLINE_SESSION", &id);
            found.iter().map(|it| it.pid).collect::<Vec<_>>()
        };
        let known = pid(&rest, &id).await;
        wait_until("one process", PATIENCE, || clis() == [known]).await;
    }
    rest.ask(&id, "still there?").await;
}

#[tokio::test]
async fn a_cli_of_somebody_else_on_the_conversation_is_named() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let conversation = conversation(&view);
    for args in [
        vec![format!("--resume={conversation}")],
        vec!["--resume".to_owned(), conversation.clone()],
    ] {
        let other = cli_by_hand(&daemon, &args).await;
        let refused = rest.lifecycle(&id, "resume", json!({})).await;
        assert_eq!(refused.body["pid"], other.pid(), "{:#}", refused.body);
        assert_eq!(refused.body["sign"], "arguments");
        assert_eq!(refused.body["conversation_id"], conversation);
        let started_at = refused.body["started_at"].as_str().unwrap();
        let started_at: trunkline::domain::Timestamp = started_at.parse().unwrap();
        let age_ms = trunkline::domain::Clock.now().millis_since(started_at);
        assert!(age_ms < 60_000, "{age_ms}");
        assert!(
            refused.body["detail"]
                .as_str()
                .unwrap()
                .contains(&other.pid().to_string())
        );
        assert_eq!(refused.problem(409), "conversation_in_use");
        assert_eq!(rest.session(&id).await["state"], "stopped");
        let doctor = doctor(&daemon);
        assert_eq!(doctor["grade"], "notice", "{doctor:#}");
        let found = doctor["found"].as_str().unwrap();
        assert!(found.contains(&other.pid().to_string()) && found.contains(&conversation));
        // A fork has a conversation of its own.
        let fork = rest
            .lifecycle(&id, "fork?wait=ready", json!({}))
            .await
            .expect(201);
        rest.delete(&format!("/v1/sessions/{}", fork["id"].as_str().unwrap()))
            .await
            .expect(204);
    }
    // Nobody else is left, and what is ours is not named.
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "and now?").await;
    assert_eq!(doctor(&daemon)["grade"], "ok");
}

#[tokio::test]
async fn who_writes_the_transcript_is_named_and_who_reads_it_is_not() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let file = transcript(&daemon, &conversation(&view));
    let open = |stdin: Stdio, stdout: Stdio| {
        let mut command = command("sleep");
        command.arg0("claude").arg("600").stdin(stdin).stdout(stdout);
        ByHand(command.spawn().unwrap())
    };
    let _reader = open(File::open(&file).unwrap().into(), Stdio::null());
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let append = fs::OpenOptions::new().append(true).open(&file).unwrap();
    let writer = open(Stdio::null(), append.into());
    let refused = rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(refused.body["pid"], writer.pid(), "{:#}", refused.body);
    assert_eq!(refused.body["sign"], "open_transcript");
    assert_eq!(refused.problem(409), "conversation_in_use");
    drop(writer);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_process_on_another_conversation_disturbs_nobody_and_is_left_alone() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let other = cli_by_hand(
        &daemon,
        &["--session-id=7e6f2a34-5d1c-4b7e-9a51-0c0ffee00077".to_owned()],
    )
    .await;
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    assert!(proc::is_alive(i32::try_from(other.pid()).unwrap()));
}

/// The client that asks for a conversation names it, and so do a search and a terminal's server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_only_names_a_conversation_is_not_on_it() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let named = conversation(&rest.session(&id).await);
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    let mut others = Vec::new();
    for program in ["grep", "tmux", "trunkline"] {
        let child = command("sh")
            .arg0(program)
            .args(["-c", "read -r line", program, "--resume", &named])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let other = ByHand(child);
        let pid = i32::try_from(other.pid()).unwrap();
        wait_until("it runs", PATIENCE, || {
            let process = proc::read(pid).unwrap();
            process.command.starts_with(program) && process.command.contains(&named)
        })
        .await;
        others.push(other);
    }
    let output = command(trunkline())
        .args(["new", "--wait", "--resume", &named, "--data-dir"])
        .arg(daemon.data_dir())
        .arg("go on")
        .current_dir(daemon.work_dir("a"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn transcript(daemon: &TestDaemon, conversation: &str) -> PathBuf {
    daemon
        .home()
        .join(".claude-fake")
        .join(format!("{conversation}.jsonl"))
}

/// The words of `doctor` about conversations.
fn doctor(daemon: &TestDaemon) -> Value {
    let output = command(trunkline())
        .args(["doctor", "--json", "--data-dir"])
        .arg(daemon.data_dir())
        .env("TRUNKLINE_CLAUDE_BIN", fake_claude())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["items"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "conversations");
    check.unwrap_or_else(|| panic!("{report:#}")).clone()
}
