//! Owns section S: resume, fork, and the CLI's own ids.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use trunkline::domain::SessionId;

use crate::{
    fake::bed::{act, act_through, body, pid, plain, session},
    support::{
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
};

/// An id that no test before has used: processes of other tests are seen, too.
fn fresh_id() -> String {
    SessionId::new().to_string()
}

#[tokio::test]
async fn a_resume_that_reports_another_id_can_be_resumed_again() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let first = rest.session(&id).await["cli"]["session_id"].clone();
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let other = fresh_id();
    let settings = json!({ "resume_prints": other, "resume_keeps": "new" });
    let file = daemon.work_dir("a").join(".fake-claude.json");
    fs::write(&file, settings.to_string()).unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "who are you?").await;
    let view = rest.session(&id).await;
    assert_eq!(view["cli"]["session_id"], other, "{view:#}");
    assert_ne!(view["cli"]["session_id"], first);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::write(&file, "{}").unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "and now?").await;
    assert_eq!(rest.session(&id).await["turns"], 3);
}

/// The other half of the row: the new id has no file, and only the old one can be resumed.
#[tokio::test]
async fn a_resume_that_reports_an_id_of_which_nothing_is_kept_goes_back_to_the_old_one() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    // With restarts and without: both ask the CLI for both.
    for (name, max_restarts) in [("without", 0), ("with", 2)] {
        let other = fresh_id();
        let settings = json!({ "dump": dump, "resume_prints": other, "resume_keeps": "old" });
        let mut create = body(&daemon, name, settings, json!({}));
        create["restart"] = json!({ "max_restarts": max_restarts });
        let id = rest.create_ready(create).await;
        rest.ask(&id, "one").await;
        let first = rest.session(&id).await["cli"]["session_id"].clone();
        let first = first.as_str().unwrap();
        for round in 2..5 {
            rest.lifecycle(&id, "stop", json!({})).await.expect(200);
            let view = rest
                .lifecycle(&id, "resume?wait=ready", json!({}))
                .await
                .expect(200);
            assert_eq!(
                (&view["id"], &view["state"]),
                (&json!(id), &json!("idle")),
                "{view:#}"
            );
            rest.ask(&id, "who are you?").await;
            let view = rest.session(&id).await;
            assert_eq!(
                (&view["cli"]["session_id"], &view["turns"]),
                (&json!(other), &json!(round))
            );
        }
        let starts = fs::read_to_string(&dump).unwrap();
        let asked: Vec<&str> = starts
            .lines()
            .filter_map(|start| start.split("--resume=").nth(1))
            .map(|rest| &rest[..first.len()])
            .collect();
        assert_eq!(
            asked,
            [first, &*other, first, &*other, first],
            "one more start at most, {name}"
        );
        fs::remove_file(&dump).unwrap();
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    }
}

/// A process that dies while its new id is in doubt: the restart finds the conversation, and a daemon in between changes nothing.
#[tokio::test]
async fn a_restart_goes_back_to_the_old_id_too() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "2")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    let other = fresh_id();
    let settings = json!({ "resume_prints": other, "resume_keeps": "old" });
    let id = session(&daemon, "a", settings).await;
    rest.ask(&id, "one").await;
    for _ in 0..2 {
        let process = pid(&rest, &id).await;
        proc::signal(process, Signal::SIGKILL);
        wait_for("another process is idle", PATIENCE, async || {
            let view = rest.session(&id).await;
            (view["state"] == "idle" && view["cli"]["pid"] != json!(process)).then_some(())
        })
        .await;
        rest.ask(&id, "who are you?").await;
    }
    assert_eq!(rest.session(&id).await["cli"]["session_id"], other);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "still there?").await;
    assert_eq!(rest.session(&id).await["turns"], 4);
    // When it is gone by both names, that is said, and nothing begins anew behind anybody's back.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::remove_dir_all(daemon.home().join(".claude-fake")).unwrap();
    let reply = rest.lifecycle(&id, "resume?wait=ready", json!({})).await;
    assert_eq!(reply.body["reason"], "conversation_not_found", "{:#}", reply.body);
    assert_eq!(rest.session(&id).await["ways_out"], json!(["fresh_start"]));
}

#[tokio::test]
async fn a_conversation_that_is_gone_is_named() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::remove_dir_all(daemon.home().join(".claude-fake")).unwrap();
    let reply = rest.lifecycle(&id, "resume?wait=ready", json!({})).await;
    assert_eq!(reply.body["reason"], "conversation_not_found", "{:#}", reply.body);
    assert_eq!(reply.problem(502), "start_failed");
    let view = rest.session(&id).await;
    assert_eq!(view["reason"]["code"], "conversation_not_found", "{view:#}");
    assert_eq!(view["turns"], 1, "what is known of it is kept");
    assert_eq!(view["ways_out"], json!(["fresh_start"]));
    let fresh = rest
        .lifecycle(&id, "resume?wait=ready", json!({ "fresh": true }))
        .await
        .expect(200);
    assert_eq!(fresh["id"], json!(id));
    rest.ask(&id, "from the beginning").await;
    for bad in ["local_7e6f2a34-5d1c-4b7e-9a51-0c0ffee00009", "..%2Fx"] {
        let refused = rest.lifecycle(bad, "resume", json!({})).await;
        assert_eq!(refused.problem(400), "invalid_id");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_one_process_at_most() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let live = rest.lifecycle(&id, "resume", json!({})).await;
    assert_eq!(live.problem(409), "session_already_live");
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let (a, b, c) = tokio::join!(
        rest.lifecycle(&id, "resume", json!({})),
        rest.lifecycle(&id, "resume", json!({})),
        rest.lifecycle(&id, "resume", json!({})),
    );
    let replies = [a, b, c];
    let good = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(good, 1, "{replies:#?}");
    assert!(
        replies
            .iter()
            .all(|reply| [200, 409].contains(&reply.status.as_u16())),
        "{replies:#?}"
    );
    rest.in_state(&id, &["idle"]).await;
    rest.ask(&id, "again").await;
    let clis = daemon.session_processes();
    let clis = clis
        .iter()
        .filter(|process| process.command.contains("fake_claude"))
        .count();
    assert_eq!(clis, 1);
}

#[tokio::test]
async fn a_fork_leaves_its_busy_parent_alone() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let id = session(&daemon, "a", json!({})).await;
    rest.ask(&id, "hello").await;
    let before = pid(&rest, &id).await;
    act(
        &rest,
        &id,
        json!([{ "wait_file": gate }, { "text": "the parent is done" }]),
    )
    .await;
    let fork = rest
        .lifecycle(&id, "fork?wait=ready", json!({ "title": "branch" }))
        .await
        .expect(201);
    let fork_id = fork["id"].as_str().unwrap();
    assert_eq!(fork["parent_id"], id);
    act_through(&rest, fork_id, json!([{ "text": "the fork goes its way" }])).await;
    let parent = rest.session(&id).await;
    assert_eq!(parent["state"], "busy", "{parent:#}");
    fs::write(&gate, "").unwrap();
    let parent = rest.in_state(&id, &["idle"]).await;
    assert_eq!(parent["turns"], 2);
    assert_eq!(pid(&rest, &id).await, before);
    assert_ne!(
        rest.session(fork_id).await["cli"]["session_id"],
        parent["cli"]["session_id"]
    );
    assert_eq!(rest.session(fork_id).await["turns"], 1);
}

#[tokio::test]
async fn a_clear_changes_the_id_and_the_next_resume_follows_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dump = daemon.home().join("dump");
    let mut create = body(&daemon, "a", json!({ "dump": dump }), json!({}));
    create["prompt"] = json!("hello");
    let view = rest.post("/v1/sessions?wait=result", create).await.expect(201);
    let id = view["id"].as_str().unwrap();
    rest.ask(id, "/clear").await;
    rest.ask(id, "fresh").await;
    let cleared = rest.session(id).await["cli"]["session_id"].clone();
    assert_ne!(cleared, view["cli"]["session_id"]);
    rest.lifecycle(id, "stop", json!({})).await.expect(200);
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(id, "on").await;
    let text = fs::read_to_string(dump).unwrap();
    for start in text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
    {
        let flags = start["argv"].to_string();
        assert!(
            !(flags.contains("--session-id=") && flags.contains("--resume=")),
            "never both: {flags}"
        );
    }
    assert!(
        text.lines()
            .last()
            .unwrap()
            .contains(&format!("--resume={}", cleared.as_str().unwrap()))
    );
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_turn_can_be_resumed() {
    let (_daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    rest.prompt(&id, &fake_prompt(&json!([{ "text": "half" }, { "silent": 1 }])))
        .await;
    rest.in_turn(&id).await;
    let view = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(view["state"], "stopped", "{view:#}");
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "go on").await;
}

#[tokio::test]
async fn a_restart_replaces_the_process_in_the_middle_of_a_turn_and_starts_one_where_none_is() {
    let (daemon, rest, id) = plain().await;
    rest.ask(&id, "hello").await;
    let conversation = rest.session(&id).await["cli"]["session_id"].clone();
    rest.prompt(&id, &fake_prompt(&json!([{"text": "working"}, {"silent": 1}])))
        .await;
    rest.in_turn(&id).await;
    let before = pid(&rest, &id).await;
    let view = rest
        .lifecycle(&id, "restart?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(view["state"], "idle", "{view:#}");
    assert_eq!(view["cli"]["session_id"], conversation);
    let after = pid(&rest, &id).await;
    assert_ne!(after, before);
    assert!(!proc::is_alive(before));
    // A session that cannot be started again is left alone.
    let dir = daemon.work_dir("a");
    fs::rename(&dir, dir.with_extension("away")).unwrap();
    let refused = rest.lifecycle(&id, "restart", json!({})).await.expect(422);
    assert_eq!(refused["code"], "cwd_missing", "{refused:#}");
    assert_eq!(pid(&rest, &id).await, after);
    fs::rename(dir.with_extension("away"), &dir).unwrap();
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let view = rest
        .lifecycle(&id, "restart?wait=ready", json!({"fresh": true}))
        .await
        .expect(200);
    assert_ne!(view["cli"]["session_id"], conversation);
    rest.ask(&id, "and now?").await;
}
