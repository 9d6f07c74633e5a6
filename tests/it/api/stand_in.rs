//! Owns the stand-in of the CLI's program: its host finds the CLI behind it, and everybody else a session.

use std::{
    os::unix::{fs::symlink, process::ExitStatusExt as _},
    path::PathBuf,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    api::common::asking,
    support::{
        daemon::TestDaemon,
        programs::{clean_env, fake_claude, fake_prompt, trunkline},
        rest::Rest,
        stand_in::StandIn,
        wait::{PATIENCE, wait_for},
    },
};

/// The one session that is there, once it is as wanted.
async fn only(rest: &Rest, what: &str, is_it: impl Fn(&Value) -> bool + Send + Sync) -> Value {
    wait_for(what, PATIENCE, async || {
        let page = rest.get("/v1/sessions").await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 1, "more than one session: {page:#}");
        items.first().filter(|it| is_it(it)).cloned()
    })
    .await
}

#[tokio::test]
async fn a_host_has_the_cli_behind_it_and_everybody_else_a_session() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut host = StandIn::start(&daemon, "w", &["--model=opus", "--include-partial-messages"]);
    host.initialize(json!({"systemPrompt": ["Be brief."]})).await;
    host.prompt(&fake_prompt(
        &json!([{"dump": 1}, {"stderr": "a word\n"}, {"text": "done"}]),
    ))
    .await;
    let lines = host.until("result").await;
    let answers: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "control_response")
        .collect();
    assert_eq!(answers.len(), 1, "{lines:#?}");
    assert_eq!(answers[0]["response"]["request_id"], "init-1");
    let receipts = lines.iter().filter(|line| line["type"] == "command_lifecycle");
    assert_eq!(receipts.count(), 0, "the prompt had no id: {lines:#?}");
    assert_eq!(answers[0]["response"]["response"]["claude_code_version"], "9.9.9");
    let dump = lines.iter().find(|line| line["type"] == "fake_dump").unwrap();
    let argv = dump["argv"].to_string();
    assert!(
        argv.contains("--model=opus") && argv.contains("--permission-prompt-tool=stdio"),
        "{argv}"
    );
    assert!(!argv.contains("Be brief."), "{argv}");
    let view = only(&rest, "a turn", |view| view["turns"] == 1).await;
    assert_eq!(
        (&view["state"], &view["options"]["model"]),
        (&json!("idle"), &json!("opus"))
    );
    let id = view["id"].as_str().unwrap();
    let first = daemon.journal(id);
    let first = first
        .lines()
        .find(|line| line.contains(r#""initialize""#))
        .unwrap();
    assert!(
        first.contains("Be brief.") && first.contains(r#""by":"ws:"#),
        "{first}"
    );

    host.end_input();
    let (status, rest_of_lines, errors) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(
        rest_of_lines.iter().all(|line| line.starts_with('{')),
        "{rest_of_lines:#?}"
    );
    assert!(errors.contains("a word"), "{errors}");
    let view = only(&rest, "the end", |view| view["state"] == "stopped").await;
    rest.lifecycle(view["id"].as_str().unwrap(), "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn the_first_answer_to_a_permission_wins() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    host.prompt(&asking()).await;
    let asked = host.line("control_request").await;
    let view = only(&rest, "an approval", |view| view["state"] == "waiting").await;
    let id = view["id"].as_str().unwrap();
    let approval = rest.pending_approval(id).await;
    rest.decide(id, approval["id"].as_str().unwrap(), json!({"decision": "allow"}))
        .await;
    let taken_back = host.line("control_cancel_request").await;
    assert_eq!(taken_back["request_id"], asked["request_id"]);
    host.line("result").await;

    host.prompt(&asking()).await;
    let asked = host.line("control_request").await;
    host.answer(
        &asked,
        json!({"behavior": "allow", "updatedInput": {"command": "mine"}}),
    )
    .await;
    let lines = host.until("result").await;
    assert!(
        lines.iter().all(|line| line["type"] != "control_cancel_request"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.to_string().contains("mine")),
        "{lines:#?}"
    );
    host.end_input();
    assert_eq!(host.ended().await.0.code(), Some(0));
}

#[tokio::test]
async fn a_host_that_greets_nobody_does_not_see_the_daemon_do_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.prompt("hello").await;
    // The input ends in the middle of the turn, which goes on to its end.
    host.end_input();
    let (status, lines, errors) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(
        lines.iter().any(|line| line.contains(r#""type":"result""#)),
        "{lines:#?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains("control_response")),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_signal_ends_the_cli_and_its_end_is_that_of_the_stand_in() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (signal, code, state) in [
        (Signal::SIGTERM, 143, "stopped"),
        (Signal::SIGHUP, 129, "stopped"),
    ] {
        let mut host = StandIn::start(&daemon, "w", &[]);
        host.initialize(json!({})).await;
        host.line("control_response").await;
        host.signal(signal);
        let (status, _, errors) = host.ended().await;
        assert_eq!(status.code(), Some(code), "{signal}: {errors}");
        let view = only(&rest, "the end", |view| view["state"] == state).await;
        rest.delete(&format!("/v1/sessions/{}", view["id"].as_str().unwrap()))
            .await
            .expect(204);
    }
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    host.prompt(&fake_prompt(&json!([{"crash": "SIGSEGV"}]))).await;
    let (status, _, errors) = host.ended().await;
    assert_eq!(
        status.signal(),
        Some(Signal::SIGSEGV as i32),
        "{status:?} {errors}"
    );
}

#[tokio::test]
async fn a_daemon_that_dies_in_a_turn_is_not_noticed_by_the_host() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let gate = daemon.work_dir("w").join("gate");
    let mut host = StandIn::start(&daemon, "w", &["--include-partial-messages"]);
    host.initialize(json!({})).await;
    host.line("control_response").await;
    let ask = json!({"ask": {"tool": "Bash", "input": {"command": "one"}}});
    host.prompt(&fake_prompt(
        &json!([{"flood": 300}, {"wait_file": gate}, {"flood": 300}, ask, {"text": "end"}]),
    ))
    .await;
    let mut numbers = Vec::new();
    let number_of = |line: &Value| line["n"].as_u64().or_else(|| line["event"]["n"].as_u64());
    while numbers.len() < 300 {
        let line: Value = serde_json::from_str(&host.next().await.unwrap()).unwrap();
        numbers.extend(number_of(&line));
    }
    daemon.kill();
    std::fs::write(&gate, "").unwrap();
    // It asks while no daemon is there.
    daemon.start().await;
    let lines = host.until("control_request").await;
    numbers.extend(lines.iter().filter_map(number_of));
    let expected: Vec<u64> = (0..300).chain(0..300).collect();
    assert_eq!(numbers, expected, "a line is missing or doubled");
    let asked = lines.last().unwrap().clone();
    daemon.kill();
    // The answer is given to nobody, and goes to the next daemon.
    host.answer(
        &asked,
        json!({"behavior": "allow", "updatedInput": {"command": "mine"}}),
    )
    .await;
    daemon.start().await;
    let lines = host.until("result").await;
    assert!(
        lines.iter().all(|line| line["type"] != "control_request"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.to_string().contains("mine")),
        "{lines:#?}"
    );
    host.end_input();
    let (status, rest_of_lines, errors) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(
        !rest_of_lines
            .iter()
            .any(|line| line.contains(r#""type":"result""#))
    );
}

/// A daemon that has no room for a start: the one that is under way ends when the file is there.
async fn busy_starting() -> (TestDaemon, PathBuf) {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
        .start()
        .await;
    let (cwd, gate) = (daemon.work_dir("first"), daemon.home().join("gate"));
    let settings = json!({"init": {"wait_file": gate}});
    std::fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    daemon.rest().create(json!({"cwd": cwd})).await;
    (daemon, gate)
}

#[tokio::test]
async fn a_daemon_that_dies_while_a_start_waits_is_not_noticed_by_the_host() {
    let (mut daemon, gate) = busy_starting().await;
    let session_id = uuid::Uuid::now_v7().to_string();
    let mut host = StandIn::start(
        &daemon,
        "w",
        &["--session-id", &session_id, "--fallback-model=haiku"],
    );
    let hooks = json!({"Stop": [{"hookCallbackIds": ["hook_0"]}]});
    host.initialize(json!({"hooks": hooks, "systemPrompt": ["Be brief."]}))
        .await;
    host.prompt("hello").await;
    let is_queued = |view: &Value| view["start_queue_position"] == 1;
    let view = queued(&daemon.rest(), is_queued).await;
    daemon.kill();
    daemon.start().await;
    queued(&daemon.rest(), is_queued).await;
    std::fs::write(&gate, "").unwrap();
    let answer = host.line("control_response").await;
    assert_eq!(answer["response"]["request_id"], "init-1");
    host.line("result").await;
    let journal = daemon.journal(view["id"].as_str().unwrap());
    let greetings: Vec<_> = journal
        .lines()
        .filter(|line| line.contains(r#""subtype":"initialize""#))
        .collect();
    assert_eq!(greetings.len(), 1, "{greetings:#?}");
    for said in ["hook_0", "Be brief."] {
        assert!(greetings[0].contains(said), "{greetings:#?}");
    }
    let is_prompt = |line: &&str| line.contains(r#""src":"client""#) && line.contains(r#""hello""#);
    assert_eq!(journal.lines().filter(is_prompt).count(), 1, "{journal}");
    let view = daemon.rest().session(view["id"].as_str().unwrap()).await;
    assert_eq!(view["cli"]["session_id"], json!(session_id));
    host.end_input();
    assert_eq!(host.ended().await.0.code(), Some(0));
}

/// The session of which this is true, once there is one.
async fn queued(rest: &Rest, is_it: impl Fn(&Value) -> bool + Send + Sync) -> Value {
    wait_for("a start waits", PATIENCE, async || {
        let page = rest.get("/v1/sessions").await.expect(200);
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|view| is_it(view))
            .cloned()
    })
    .await
}

#[tokio::test]
async fn a_daemon_that_dies_while_a_resume_waits_is_not_noticed_by_the_host() {
    let (mut daemon, gate) = busy_starting().await;
    std::fs::write(&gate, "").unwrap();
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    host.prompt("hello").await;
    host.line("result").await;
    host.end_input();
    host.ended().await;
    let view = queued(&daemon.rest(), |view| {
        view["state"] == "stopped" && view["turns"] == 1
    })
    .await;
    let resume = format!("--resume={}", view["cli"]["session_id"].as_str().unwrap());
    std::fs::remove_file(&gate).unwrap();
    daemon
        .rest()
        .create(json!({"cwd": daemon.work_dir("first")}))
        .await;
    let mut host = StandIn::start(&daemon, "w", &[&resume]);
    host.initialize(json!({})).await;
    host.prompt("again").await;
    let is_queued = |view: &Value| view["start_queue_position"] == 1;
    queued(&daemon.rest(), is_queued).await;
    daemon.kill();
    daemon.start().await;
    std::fs::write(&gate, "").unwrap();
    let answer = host.line("control_response").await;
    assert_eq!(answer["response"]["request_id"], "init-1");
    host.line("result").await;
    host.end_input();
    assert_eq!(host.ended().await.0.code(), Some(0));
}

#[tokio::test]
async fn a_conversation_that_is_live_has_one_host_at_a_time() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    host.prompt("hello").await;
    host.line("result").await;
    let view = only(&rest, "a turn", |view| view["turns"] == 1).await;
    let resume = format!("--resume={}", view["cli"]["session_id"].as_str().unwrap());
    let mut second = StandIn::start(&daemon, "w", &[&resume]);
    second.initialize(json!({})).await;
    let (status, lines, errors) = second.ended().await;
    assert_eq!((status.code(), lines.len()), (Some(1), 0), "{errors}");
    assert!(errors.contains("idle"), "{errors}");

    // The host is killed, and started again before its session has ended.
    host.signal(Signal::SIGKILL);
    host.ended().await;
    let mut third = StandIn::start(&daemon, "w", &[&resume]);
    third.initialize(json!({})).await;
    let answer = third.line("control_response").await;
    assert_eq!(answer["response"]["request_id"], "init-1");
    third.prompt("again").await;
    third.line("result").await;
    third.end_input();
    assert_eq!(third.ended().await.0.code(), Some(0));
    only(&rest, "the end", |view| {
        view["state"] == "stopped" && view["turns"] == 2
    })
    .await;

    // And once more when it has.
    let mut fourth = StandIn::start(&daemon, "w", &[&resume, "--model=haiku"]);
    fourth.initialize(json!({})).await;
    fourth.prompt("and again").await;
    fourth.line("result").await;
    let view = only(&rest, "a turn", |view| view["turns"] == 3).await;
    assert_eq!(view["options"]["model"], "haiku");
    fourth.end_input();
    assert_eq!(fourth.ended().await.0.code(), Some(0));

    // The newest conversation of the directory is this one.
    let mut fifth = StandIn::start(&daemon, "w", &["--continue"]);
    fifth.initialize(json!({})).await;
    fifth.prompt("and on").await;
    fifth.line("result").await;
    only(&rest, "a turn", |view| view["turns"] == 4).await;
    fifth.end_input();
    assert_eq!(fifth.ended().await.0.code(), Some(0));
}

#[tokio::test]
async fn a_conversation_that_is_not_there_is_told_as_the_cli_tells_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let unknown = format!("--resume={}", uuid::Uuid::now_v7());
    let mut host = StandIn::start(&daemon, "w", &[&unknown]);
    host.initialize(json!({})).await;
    host.prompt("hello").await;
    let (status, lines, errors) = host.ended().await;
    assert_eq!(status.code(), Some(1), "{errors}");
    let told = lines.join("\n") + &errors;
    assert!(told.contains("No conversation found"), "{told}");
}

#[tokio::test]
async fn an_argument_that_is_not_allowed_is_said_on_standard_error() {
    let daemon = TestDaemon::with_fake().start().await;
    for (args, told) in [
        (&["--some-flag", "x"][..], "--some-flag"),
        (&["--continue"][..], "--continue"),
        (&["--max-turns=0"][..], "max_turns"),
    ] {
        let mut host = StandIn::start(&daemon, "w", args);
        host.initialize(json!({})).await;
        let (status, lines, errors) = host.ended().await;
        assert_eq!((status.code(), lines.len()), (Some(1), 0), "{errors}");
        assert!(errors.contains(told), "{errors}");
    }
    let sessions = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(sessions["items"], json!([]));
}

#[tokio::test]
async fn any_other_call_is_that_of_the_real_program() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first");
    let second = dir.path().join("second");
    for dir in [&first, &second] {
        std::fs::create_dir(dir).unwrap();
    }
    // The stand-in is first on the path, under the name of the other.
    symlink(trunkline(), first.join("claude")).unwrap();
    symlink(fake_claude(), second.join("claude")).unwrap();
    let inherited = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(
        [first.clone(), second]
            .into_iter()
            .chain(std::env::split_paths(&inherited)),
    );
    let output = Command::new(first.join("claude"))
        .arg("--version")
        .env_clear()
        .envs(clean_env(dir.path(), "http://127.0.0.1:9"))
        .env("PATH", path.unwrap())
        .output()
        .await
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("9.9.9"),
        "{printed} {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_program_that_leads_back_to_the_stand_in_is_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("claude");
    std::fs::write(
        &script,
        format!("#!/bin/sh\nexec '{}' claude \"$@\"\n", trunkline().display()),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&script)
        .arg("--version")
        .env_clear()
        .envs(clean_env(dir.path(), "http://127.0.0.1:9"))
        .env("TRUNKLINE_CLAUDE_BIN", &script)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("leads back to trunkline"), "{errors}");
}

#[tokio::test]
async fn a_cli_that_takes_its_time_at_the_end_of_input_has_it() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "100")
        .fake(json!({"eof": {"delay_ms": 1000}}))
        .start()
        .await;
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    host.prompt("hello").await;
    host.line("result").await;
    host.end_input();
    let (status, _, errors) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{errors}");
}

#[tokio::test]
async fn what_is_said_before_the_end_of_the_input_is_answered() {
    let daemon = TestDaemon::with_fake()
        .fake(json!({"merge": false}))
        .start()
        .await;
    let mut host = StandIn::start(&daemon, "w", &[]);
    host.initialize(json!({})).await;
    for number in 0..5 {
        host.prompt(&fake_prompt(&json!([{"text": format!("answer {number}")}])))
            .await;
        let request = json!({"subtype": "set_model", "model": "other"});
        host.send(
            &json!({"type": "control_request", "request_id": format!("m{number}"), "request": request}),
        )
        .await;
    }
    host.end_input();
    let (status, lines, errors) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{errors}");
    let of = |kind: &str| lines.iter().filter(|line| line.contains(kind)).count();
    assert_eq!(
        (of(r#""type":"result""#), of(r#""type":"control_response""#)),
        (5, 6),
        "{lines:#?}"
    );
}
