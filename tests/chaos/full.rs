//! Owns what needs a disk of its own that is full, and no chance.

use std::{fs, io::Write as _, path::PathBuf, time::Duration};

use serde_json::json;
use tokio::time::timeout;

use crate::{
    place,
    support::{daemon::TestDaemon, rest::Rest, wait::PATIENCE, wait::wait_for},
};

/// Runs this test where it can mount a disk of its own. `test` is its name.
fn on_a_disk(test: &str, story: impl Future<Output = ()>) {
    if place::is_inside() {
        tokio::runtime::Runtime::new().unwrap().block_on(story);
    } else {
        place::enter(test);
    }
}

/// Takes the last byte of the disk of the data. The file that it makes gives the room back when it is removed.
fn fill(daemon: &TestDaemon) -> PathBuf {
    let ballast = daemon.data_dir().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    for bytes in [4096, 1] {
        let block = vec![0; bytes];
        while file.write_all(&block).is_ok() {}
    }
    ballast
}

/// A session is refused when it has to wait for its start and that cannot be written down: then nothing of it stays.
#[test]
fn a_session_that_a_full_disk_refuses_leaves_nothing() {
    on_a_disk("full::a_session_that_a_full_disk_refuses_leaves_nothing", async {
        let daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
            .allow_errors()
            .start()
            .await;
        let rest = daemon.rest();
        let (first, gate) = (daemon.work_dir("first"), daemon.home().join("gate"));
        let settings = json!({ "init": { "wait_file": gate } });
        fs::write(first.join(".fake-claude.json"), settings.to_string()).unwrap();
        let first = rest.create(json!({ "cwd": first })).await["id"].clone();
        let ballast = fill(&daemon);

        let second = json!({ "cwd": daemon.work_dir("second"), "prompt": "hello" });
        let refused = rest.post("/v1/sessions", second.clone()).await;
        assert_eq!(refused.problem(503), "storage_unavailable");
        let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap();
        let folders: Vec<_> = folders.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(folders, [first.as_str().unwrap()]);

        fs::remove_file(ballast).unwrap();
        let second = wait_for("the store to catch up", PATIENCE, async || {
            made(&rest, &second).await
        })
        .await;
        fs::write(gate, "").unwrap();
        rest.in_state(&second, &["idle"]).await;
    });
}

/// The database has only words for a failed write.
#[test]
fn a_start_on_a_full_disk_names_the_disk() {
    on_a_disk("full::a_start_on_a_full_disk_names_the_disk", async {
        let mut daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .allow_errors()
            .start()
            .await;
        daemon.stop();
        fill(&daemon);
        daemon.launch();
        let status = daemon.ready_or_ended().await.unwrap_err();
        assert_eq!(status.code(), Some(1));
        let log = daemon.log();
        let last = log.lines().rfind(|line| line.starts_with("error:"));
        let disk = format!("no space is left on the disk of {}", daemon.data_dir().display());
        assert!(last.is_some_and(|line| line.contains(&disk)), "{log}");
    });
}

async fn made(rest: &Rest, session: &serde_json::Value) -> Option<String> {
    let reply = rest.post("/v1/sessions", session.clone()).await;
    (reply.status.as_u16() == 201).then(|| reply.body["id"].as_str().unwrap().to_owned())
}

/// Requests that need no room are answered: reads, and a stop whose process is gone.
#[test]
fn a_full_disk_hides_no_session_and_no_stop() {
    on_a_disk("full::a_full_disk_hides_no_session_and_no_stop", async {
        let daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .allow_errors()
            .start()
            .await;
        let rest = daemon.rest();
        let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        rest.ask(&id, "hello").await;
        let process = rest.session(&id).await["cli"]["pid"].as_i64().unwrap();
        let ballast = fill(&daemon);
        // The journal's last page has room left, which a turn takes.
        let prompt = json!({ "text": "x".repeat(8_000) });
        let sent = format!("/v1/sessions/{id}/messages");
        // Its record is not written while the disk is full. The answer, which says so, is not waited for.
        let _ = timeout(Duration::from_secs(3), rest.post(&sent, prompt)).await;
        for _ in 0..2 {
            let page = rest.get("/v1/sessions").await.expect(200);
            assert_eq!(page["items"][0]["id"], json!(id), "{page:#}");
            rest.session(&id).await;
            daemon.attach(&id, None).await.next().await;
        }
        let stopped = rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        assert!(stopped["cli"]["pid"].is_null(), "{stopped:#}");
        let process = i32::try_from(process).unwrap();
        assert!(!crate::support::proc::is_alive(process), "{stopped:#}");
        fs::remove_file(ballast).unwrap();
        rest.in_state(&id, &["stopped"]).await;
    });
}

/// The sender of a message is told that the disk takes none, and may send it again: it runs once.
#[test]
fn a_message_that_a_full_disk_holds_up_is_answered_and_runs_once() {
    on_a_disk(
        "full::a_message_that_a_full_disk_holds_up_is_answered_and_runs_once",
        async {
            let daemon = TestDaemon::with_fake()
                .data_disk(16 << 20)
                .allow_errors()
                .start()
                .await;
            let rest = daemon.rest();
            let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
            rest.ask(&id, "hello").await;
            let ballast = fill(&daemon);
            let sent = format!("/v1/sessions/{id}/messages");
            let prompt = json!({ "text": "x".repeat(8_000), "uuid": "0190a0b0-0000-7000-8000-000000000001" });
            for _ in 0..2 {
                let held = rest.post(&sent, prompt.clone()).await;
                assert_eq!(held.body["side_effect_possible"], true, "{:#}", held.body);
                assert_eq!(held.body["uuid"], prompt["uuid"], "{:#}", held.body);
                assert_eq!(held.problem(503), "storage_unavailable");
            }
            let refused = rest.post(&sent, json!({ "text": "another" })).await;
            assert_eq!(refused.body["side_effect_possible"], false, "{:#}", refused.body);
            assert_eq!(refused.problem(503), "storage_unavailable");
            let reason = rest.session(&id).await["reason"]["code"].clone();
            assert_eq!(reason, "storage_unavailable");

            fs::remove_file(ballast).unwrap();
            wait_for("the turn of the message", PATIENCE, async || {
                let view = rest.session(&id).await;
                (view["state"] == "idle" && view["turns"] == 2 && view["reason"].is_null()).then_some(())
            })
            .await;
            rest.post(&sent, prompt).await.expect(202);
            let view = rest.session(&id).await;
            assert_eq!((&view["state"], &view["turns"]), (&json!("idle"), &json!(2)));
        },
    );
}

/// The files of a start have no room.
#[test]
fn a_parked_session_is_woken_once_the_disk_has_room() {
    on_a_disk("full::a_parked_session_is_woken_once_the_disk_has_room", async {
        let daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .allow_errors()
            .start()
            .await;
        let rest = daemon.rest();
        let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        rest.ask(&id, "hello").await;
        let park = format!("/v1/sessions/{id}/park");
        rest.post(&park, json!({})).await.expect(200);
        let ballast = fill(&daemon);

        let sent = format!("/v1/sessions/{id}/messages");
        let prompt = json!({ "text": "again", "uuid": "0190a0b0-0000-7000-8000-000000000002" });
        let refused = rest.post(&sent, prompt.clone()).await;
        assert_eq!(refused.body["retryable"], true, "{:#}", refused.body);
        assert_eq!(refused.problem(503), "storage_unavailable");

        fs::remove_file(ballast).unwrap();
        wait_for("a disk that is seen to have room", PATIENCE, async || {
            (rest.post(&sent, prompt.clone()).await.status.as_u16() == 202).then_some(())
        })
        .await;
        wait_for("the turn of the message", PATIENCE, async || {
            let view = rest.session(&id).await;
            (view["state"] == "idle" && view["turns"] == 2).then_some(())
        })
        .await;
        rest.post(&sent, prompt).await.expect(202);
        assert_eq!(rest.session(&id).await["turns"], 2);
    });
}

/// The disk fills up at each step of a start in turn. A client that is told of a session that starts relies on its prompt.
#[test]
fn a_start_that_a_full_disk_fails_is_not_said_to_go_on() {
    on_a_disk(
        "full::a_start_that_a_full_disk_fails_is_not_said_to_go_on",
        async {
            let daemon = TestDaemon::with_fake()
                .data_disk(16 << 20)
                .allow_errors()
                .start()
                .await;
            let rest = daemon.rest();
            let mut failed = 0;
            for (round, pages) in (0..3).flat_map(|round| (0..12).map(move |pages| (round, pages))) {
                let ballast = fill(&daemon);
                let file = fs::File::options().write(true).open(&ballast).unwrap();
                let filled = file.metadata().unwrap().len();
                file.set_len(filled.saturating_sub(pages * 4096)).unwrap();
                drop(file);
                let name = format!("with-{round}-{pages}");
                let reply = rest
                    .post(
                        "/v1/sessions",
                        json!({ "cwd": daemon.work_dir(&name), "prompt": "hello" }),
                    )
                    .await;
                let told = reply.body["state"].clone();
                fs::remove_file(&ballast).unwrap();
                if reply.status.as_u16() != 201 {
                    assert_eq!(reply.problem(503), "storage_unavailable");
                    wait_for("the store to catch up", PATIENCE, async || {
                        (rest.get("/v1/sessions").await.status.as_u16() == 200).then_some(())
                    })
                    .await;
                    continue;
                }
                let id = reply.body["id"].as_str().unwrap().to_owned();
                if told == "failed" {
                    failed += 1;
                    assert_eq!(
                        reply.body["reason"]["code"], "storage_unavailable",
                        "{:#}",
                        reply.body
                    );
                    wait_for("the store to catch up", PATIENCE, async || {
                        let resumed = rest.lifecycle(&id, "resume", json!({})).await;
                        (resumed.body["code"] != "storage_unavailable").then(|| resumed.expect(200))
                    })
                    .await;
                } else {
                    wait_for("the turn of the first prompt", PATIENCE, async || {
                        (rest.session(&id).await["turns"] == 1).then_some(())
                    })
                    .await;
                }
                rest.in_state(&id, &["idle"]).await;
                rest.lifecycle(&id, "stop", json!({})).await.expect(200);
            }
            assert!(failed > 0, "the disk had room at each start");
        },
    );
}

/// Nothing is half deleted: neither is a process ended, nor a journal removed, while the row stays.
#[test]
fn a_delete_that_a_full_disk_refuses_leaves_the_session_as_it_is() {
    on_a_disk(
        "full::a_delete_that_a_full_disk_refuses_leaves_the_session_as_it_is",
        async {
            let daemon = TestDaemon::with_fake()
                .data_disk(16 << 20)
                .allow_errors()
                .start()
                .await;
            let rest = daemon.rest();
            let mut ids = Vec::new();
            for name in ["idle", "stopped"] {
                let id = rest.create_ready(json!({ "cwd": daemon.work_dir(name) })).await;
                rest.ask(&id, "hello").await;
                ids.push(id);
            }
            rest.lifecycle(&ids[1], "stop", json!({})).await.expect(200);
            let before = [rest.session(&ids[0]).await, rest.session(&ids[1]).await];
            let records = [rest.events(&ids[0], 0).await, rest.events(&ids[1], 0).await];
            let ballast = fill(&daemon);
            for ((id, before), records) in ids.iter().zip(&before).zip(&records) {
                let refused = rest.delete(&format!("/v1/sessions/{id}")).await;
                assert_eq!(refused.problem(503), "storage_unavailable");
                let after = rest.session(id).await;
                assert_eq!(
                    (&after["state"], &after["cli"]),
                    (&before["state"], &before["cli"])
                );
                assert_eq!(&rest.events(id, 0).await, records);
            }
            fs::remove_file(ballast).unwrap();
            rest.ask(&ids[0], "still there?").await;
            for id in &ids {
                rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
            }
            let left = fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
            assert_eq!(left, 0);
        },
    );
}

/// The disk fills up at each step of a change in turn. The file of a session comes before its row, and follows it back.
#[test]
fn a_change_that_a_full_disk_refuses_is_in_no_file() {
    on_a_disk("full::a_change_that_a_full_disk_refuses_is_in_no_file", async {
        let daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .allow_errors()
            .start()
            .await;
        let rest = daemon.rest();
        let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        let other = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
        let change = async |id: &str, tag: String| {
            let body = json!({ "tag": tag, "labels": { "long": "x".repeat(1_000) } });
            rest.patch(&format!("/v1/sessions/{id}"), body).await
        };
        let file = daemon.data_dir().join("sessions").join(&id).join("session.json");
        let in_file = || -> serde_json::Value {
            let file: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            file["tag"].clone()
        };
        let mut refused = 0;
        for (round, pages) in (0..3).flat_map(|round| (0..12).map(move |pages| (round, pages))) {
            let ballast = fill(&daemon);
            let room = fs::File::options().write(true).open(&ballast).unwrap();
            let filled = room.metadata().unwrap().len();
            room.set_len(filled.saturating_sub(pages * 4096)).unwrap();
            drop(room);
            let before = in_file();
            let reply = change(&id, format!("tag {round} {pages}")).await;
            let after = in_file();
            fs::remove_file(&ballast).unwrap();
            if reply.status.as_u16() != 200 {
                refused += 1;
                assert_eq!(after, before, "a database that is made again has the file's word");
                assert_eq!(reply.problem(503), "storage_unavailable");
            }
            // The next write, of any kind, must succeed.
            wait_for("the store to catch up", PATIENCE, async || {
                let reply = change(&other, format!("tag {round} {pages}")).await;
                (reply.status.as_u16() == 200).then_some(())
            })
            .await;
            assert_eq!(rest.session(&id).await["tag"], in_file(), "with {pages} pages");
        }
        assert!(refused > 0, "the disk had room for each change");
    });
}
