//! Owns starts that go wrong, and the environment that a CLI starts in.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    fake::bed::{body, path, session, session_with},
    support::{daemon::TestDaemon, programs::fake_claude},
};

fn started(dump: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(dump).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn args(facts: &Value) -> Vec<&str> {
    facts["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_bad_directory_is_not_called_a_missing_cli() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let file = daemon.home().join("file");
    fs::write(&file, "").unwrap();
    for (cwd, code) in [
        (json!("/nope"), "cwd_missing"),
        (json!(file), "cwd_not_a_directory"),
        (json!("relative"), "cwd_not_absolute"),
    ] {
        let refused = rest.post("/v1/sessions", json!({ "cwd": cwd })).await;
        assert_eq!(refused.problem(422), code);
    }
    // Nor is a missing CLI called a bad directory, and each is told where both are missing.
    let without = TestDaemon::with_fake()
        .claude("/nonexistent/claude")
        .start()
        .await;
    for (cwd, status, code) in [
        (json!("/nope"), 422, "cwd_missing"),
        (json!(without.work_dir("a")), 503, "cli_not_found"),
    ] {
        let refused = without.rest().post("/v1/sessions", json!({ "cwd": cwd })).await;
        assert_eq!(refused.problem(status), code);
    }
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::remove_dir_all(daemon.work_dir("a")).unwrap();
    let refused = rest.lifecycle(&id, "resume", json!({})).await;
    assert!(
        refused.body["detail"].as_str().unwrap().contains("/work/a"),
        "{:#}",
        refused.body
    );
    assert_eq!(refused.problem(422), "cwd_missing");
    assert_eq!(rest.session(&id).await["state"], "stopped");
    daemon.work_dir("a");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn an_early_exit_becomes_failed_with_the_words_of_the_cli() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (name, plan, said) in [
        ("at-once", json!({ "code": 1 }), ""),
        ("zero", json!({ "code": 0 }), ""),
        (
            "login",
            json!({ "code": 1, "stderr": "not logged in\n" }),
            "not logged in",
        ),
        (
            "late",
            json!({ "code": 1, "stderr": "too late\n", "delay_ms": 300 }),
            "too late",
        ),
    ] {
        let mut create = body(&daemon, name, json!({ "exit_at_start": plan }), json!({}));
        create["prompt"] = json!("hello");
        let view = rest.create(create).await;
        assert!(
            view["state"] == "starting" || view["state"] == "failed",
            "{name} is no success: {view:#}"
        );
        let id = view["id"].as_str().unwrap();
        let view = rest.in_state(id, &["failed"]).await;
        assert_eq!(view["reason"]["code"], "start_failed", "{name}: {view:#}");
        assert!(
            view["reason"]["detail"].as_str().unwrap().contains(said),
            "{name}: {view:#}"
        );
        // The way out: once the cause is gone it starts.
        fs::write(daemon.work_dir(name).join(".fake-claude.json"), "{}").unwrap();
        rest.lifecycle(id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        rest.ask(id, "and now?").await;
    }
}

#[tokio::test]
async fn a_binary_that_is_no_cli_is_told() {
    let daemon = TestDaemon::with_fake().claude("/bin/false").start().await;
    let reply = daemon
        .rest()
        .post("/v1/sessions?wait=ready", json!({ "cwd": daemon.work_dir("a") }))
        .await;
    assert_eq!(reply.problem(502), "start_failed");
}

#[tokio::test]
async fn a_daemon_inside_a_session_of_the_cli_starts_clean_sessions() {
    let dump = tempfile::tempdir().unwrap();
    let dump = dump.path().join("dump");
    let daemon = TestDaemon::with_fake()
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "x")
        .env("CLAUDE_CODE_SSE_PORT", "1")
        .env("CLAUDE_CODE_ENTRYPOINT", "cli")
        .env("SOME_DATABASE_PASSWORD", "mine")
        .env("TRUNKLINE_LOG_LEVEL", "info")
        .start()
        .await;
    session(&daemon, "a", json!({ "dump": dump })).await;
    let facts = started(&dump);
    let env = facts[0]["env"].as_object().unwrap();
    for name in [
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "SOME_DATABASE_PASSWORD",
        "TRUNKLINE_LOG_LEVEL",
    ] {
        assert!(!env.contains_key(name), "{name} passed");
    }
    assert_ne!(env.get("CLAUDE_CODE_ENTRYPOINT"), Some(&json!("cli")));
    assert!(env.contains_key("PATH") && env.contains_key("HOME"));
}

#[tokio::test]
async fn the_cli_is_found_in_the_usual_places_with_a_bare_path() {
    let daemon = TestDaemon::with_fake().env("PATH", "/usr/bin:/bin").start().await;
    let rest = daemon.rest();
    let ready = rest.get("/readyz").await.expect(200);
    assert_eq!(ready["cli"]["path"], json!(fake_claude()));
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
}

/// The one that ran before is gone.
#[tokio::test]
async fn the_version_is_that_of_the_new_process_before_its_first_turn() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({ "version": "2.1.300" })).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    body(&daemon, "a", json!({ "version": "2.1.400" }), json!({}));
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(rest.session(&id).await["cli"]["version"], "2.1.400");
}

#[tokio::test]
async fn another_version_of_the_cli_is_noted_and_a_missing_flag_is_told() {
    let daemon = TestDaemon::with_fake()
        .fake(json!({ "version": "2.1.999" }))
        .start()
        .await;
    let rest = daemon.rest();
    assert_eq!(rest.get("/readyz").await.expect(200)["cli"]["version"], "2.1.999");
    let id = session(&daemon, "a", json!({ "version": "2.1.999" })).await;
    assert_eq!(rest.session(&id).await["cli"]["version"], "2.1.999");
    let options = json!({ "include_partial_messages": true });
    let settings = json!({ "reject_flags": ["--include-partial-messages"] });
    let reply = rest
        .post("/v1/sessions?wait=ready", body(&daemon, "b", settings, options))
        .await;
    assert!(
        reply.body["detail"]
            .as_str()
            .unwrap()
            .contains("--include-partial-messages"),
        "{:#}",
        reply.body
    );
    assert_eq!(reply.problem(502), "start_failed");
}

#[tokio::test]
async fn a_start_that_failed_never_uses_its_id_again() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    // It leaves a transcript under its id, and dies before or after its first turn.
    let before =
        json!({ "save": "start", "dump": dump, "init": { "never": true }, "start": [{ "exit": 1 }] });
    let reply = rest
        .post("/v1/sessions?wait=ready", body(&daemon, "a", before, json!({})))
        .await;
    let id = reply.body["session_id"].as_str().unwrap().to_owned();
    assert_eq!(reply.problem(502), "start_failed");
    fs::write(
        daemon.work_dir("a").join(".fake-claude.json"),
        json!({ "dump": dump }).to_string(),
    )
    .unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "hello").await;
    rest.prompt(&id, "FAKE:[{\"exit\":1}]:END").await;
    rest.in_state(&id, &["failed"]).await;
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "again").await;
    let starts = started(&dump);
    let of = |start: &Value, name: &str| {
        args(start)
            .iter()
            .find_map(|arg| arg.strip_prefix(name))
            .map(ToOwned::to_owned)
    };
    assert_eq!(starts.len(), 3);
    let (first, second) = (of(&starts[0], "--session-id="), of(&starts[1], "--session-id="));
    assert!(
        first.is_some() && second.is_some() && first != second,
        "{first:?} {second:?}"
    );
    assert_eq!(of(&starts[2], "--resume="), second, "the conversation goes on");
    assert_eq!(of(&starts[2], "--session-id="), None);
}

#[tokio::test]
async fn a_resume_after_a_restart_applies_all_settings_again() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let extra = daemon.work_dir("extra");
    let options = json!({
        "model": "claude-fake-2", "permission_mode": "acceptEdits", "allowed_tools": ["Read"],
        "additional_directories": [extra], "include_partial_messages": true,
        "system_prompt": { "type": "preset", "preset": "claude_code", "append": "Be brief." },
    });
    let id = session_with(&daemon, "a", json!({ "dump": dump }), options).await;
    rest.ask(&id, "hello").await;
    rest.put(&path(&id, "permission_mode"), json!({ "mode": "plan" }))
        .await
        .expect(200);
    assert_eq!(daemon.stop().code(), Some(0));
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "again").await;
    assert_eq!(rest.session(&id).await["permission_mode"], "plan");
    let starts = started(&dump);
    let settings = |start: &Value| -> Vec<String> {
        let mut kept: Vec<_> = args(start)
            .into_iter()
            .filter(|arg| {
                !arg.starts_with("--session-id=")
                    && !arg.starts_with("--resume=")
                    && !arg.starts_with("--permission-mode=")
            })
            .map(ToOwned::to_owned)
            .collect();
        kept.sort();
        kept
    };
    assert_eq!(settings(&starts[0]), settings(&starts[1]));
    assert!(
        args(&starts[1]).contains(&"--permission-mode=plan"),
        "the mode it was last in: {starts:#?}"
    );
    assert!(args(&starts[1]).iter().any(|arg| arg.starts_with("--resume=")));
    assert_eq!(starts[1]["cwd"], starts[0]["cwd"]);
}

/// A CLI that is not told that its input is a stream reads to the end of it, which never comes.
#[tokio::test]
async fn prompts_go_over_a_stream_that_stays_open() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let mut body = body(&daemon, "a", json!({ "dump": dump }), json!({}));
    body["prompt"] = json!("the very first prompt");
    let view = rest.post("/v1/sessions?wait=result", body).await.expect(201);
    let id = view["id"].as_str().unwrap();
    rest.ask(id, "the second").await;
    rest.ask(id, "the third").await;
    let starts = started(&dump);
    assert_eq!(starts.len(), 1, "one process for all");
    let args = args(&starts[0]);
    for flag in [
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--permission-prompt-tool=stdio",
    ] {
        assert!(args.contains(&flag), "no {flag}: {args:?}");
    }
    assert!(
        !args
            .iter()
            .any(|arg| arg.contains("prompt") && !arg.starts_with("--")),
        "{args:?}"
    );
    assert!(!args.iter().any(|arg| arg.contains("the very first")), "{args:?}");
}

/// A CLI that was ready and stopped reading: whoever sends is told at once, and the session can still be ended.
#[tokio::test]
async fn a_message_never_waits_for_a_cli_that_does_not_read() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "500")
        .start()
        .await;
    let id = session(
        &daemon,
        "a",
        json!({ "read_lines": 1, "term": { "ignore": true } }),
    )
    .await;
    let rest = daemon.rest();
    let text = "x".repeat(5 << 20);
    let mut taken = 0;
    let refused = loop {
        let began = Instant::now();
        let message = json!({ "text": text });
        let reply = rest.post(&path(&id, "messages"), message).await;
        // It would wait for as long as the CLI does not read: for ever.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        if reply.status != 202 {
            break reply;
        }
        taken += 1;
        assert!(taken < 20, "what waits has a bound");
        let began = Instant::now();
        assert_eq!(rest.session(&id).await["state"], "busy");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    };
    assert!(taken > 1, "some wait");
    assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
    assert_eq!(refused.problem(503), "input_blocked");
    let view = rest.session(&id).await;
    assert_eq!(
        view["open_prompts"].as_array().unwrap().len(),
        taken,
        "what was taken and no more"
    );
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
    assert!(daemon.session_processes().is_empty());
}
