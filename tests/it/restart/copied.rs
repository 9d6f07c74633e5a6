//! Owns a daemon on a copy of a data directory whose sessions still run: they are the original's.

use std::{fs, path::Path, process::Command};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{daemon::TestDaemon, proc, programs::fake_prompt, rest::Rest};

#[expect(clippy::disallowed_methods, reason = "a person copies the directory")]
fn copy(from: &Path, to: &Path) {
    fs::remove_dir_all(to).unwrap();
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// As keepers wrote it that do not say which folder they keep.
fn make_old(data: &Path, session: &str) {
    let path = data.join("sessions").join(session).join("keeper.json");
    let mut identity: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    identity.as_object_mut().unwrap().remove("folder");
    fs::write(path, identity.to_string()).unwrap();
}

/// The processes of a session of the original: its keeper, its CLI.
fn processes(session: &str) -> Vec<i32> {
    let mut found: Vec<i32> = proc::with_env("TRUNKLINE_SESSION", session)
        .into_iter()
        .map(|process| process.pid)
        .collect();
    found.sort_unstable();
    found
}

async fn interrupt(rest: &Rest, session: &str) {
    rest.lifecycle(session, "interrupt", json!({})).await.expect(200);
    rest.in_state(session, &["idle"]).await;
}

#[tokio::test]
async fn a_copy_of_the_data_directory_leaves_the_originals_processes_alone() {
    let mut original = TestDaemon::with_fake().start().await;
    let rest = original.rest();
    let [new, old, idle] = ["new", "old", "idle"].map(|name| original.work_dir(name));
    let [new, old, idle] = [
        rest.create_ready(json!({"cwd": new})).await,
        rest.create_ready(json!({"cwd": old})).await,
        rest.create_ready(json!({"cwd": idle})).await,
    ];
    for session in [&new, &old] {
        rest.ask(session, "hello").await;
        rest.prompt(
            session,
            &fake_prompt(&json!([{"text": "working"}, {"silent": 1}])),
        )
        .await;
        rest.in_state(session, &["busy"]).await;
    }
    make_old(&original.data_dir(), &old);
    let all = [&new, &old, &idle];
    let before = all.map(|session| processes(session));
    let untouched = || {
        for (session, before) in all.iter().zip(&before) {
            assert!(!before.is_empty());
            assert_eq!(&processes(session), before, "{session}");
        }
    };

    let mut copied = TestDaemon::with_fake().start().await;
    assert!(copied.stop().success());
    copy(&original.data_dir(), &copied.data_dir());
    copied.start().await;
    untouched();
    let there = copied.rest();
    for session in [&new, &old] {
        let view = there.session(session).await;
        assert_eq!(view["state"], "failed", "{view:#}");
        assert_eq!(view["reason"]["code"], "keeper_lost", "{view:#}");
        assert_eq!(there.turns(session).await[1]["subtype"], "interrupted");
        assert!(
            copied
                .log()
                .lines()
                .any(|line| line.contains("copy") && line.contains(session.as_str()))
        );
    }
    // The conversation is the original's as long as that goes on.
    let reply = there.lifecycle(&new, "resume", json!({})).await;
    assert_eq!(reply.problem(409), "conversation_in_use");
    untouched();
    there.delete(&format!("/v1/sessions/{old}")).await.expect(204);
    untouched();

    // The original notices nothing, neither now nor at its next start.
    for session in [&new, &old] {
        assert_eq!(rest.session(session).await["state"], "busy");
    }
    original.kill();
    original.start().await;
    untouched();
    let rest = original.rest();
    for session in [&new, &old] {
        assert_eq!(rest.session(session).await["state"], "busy");
        interrupt(&rest, session).await;
        rest.ask(session, "go on").await;
    }

    // Once it has ended there, the copy goes on with it, beside other processes of the original.
    rest.lifecycle(&idle, "stop", json!({})).await.expect(200);
    there
        .lifecycle(&idle, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    there.ask(&idle, "hello from the copy").await;
    assert_eq!(rest.session(&idle).await["state"], "stopped");
    assert!(copied.stop().success());
    rest.lifecycle(&idle, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    original.signal(Signal::SIGTERM);
    assert!(original.ended().success());
}
