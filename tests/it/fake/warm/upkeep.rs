//! Owns the tests of what becomes of processes that nobody asks for: failed, old, outdated, and those of a daemon that ends.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{app, cli, ended, folder, gone, keeping, list, processes, profiles, ready, spare, spares, stock};
use crate::{
    fake::{
        bed::{of_type, pid, records, session},
        metrics::Scrape,
    },
    support::{
        daemon::TestDaemon,
        proc,
        store_lock::StoreLock,
        wait::{PATIENCE, wait_for, wait_until},
    },
};

#[tokio::test]
async fn a_directory_or_settings_file_that_was_made_anew_is_another_one() {
    let daemon = profiles(
        "{ name = \"app\", cwd = \"~/app\", options = { settings = \"/tmp/trunkline-no-such-settings.json\" } }",
    )
    .home_file("app/x", "")
    .start()
    .await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    // The old one is kept, so that the new one is no copy of it down to its number.
    fs::rename(daemon.home().join("app"), daemon.home().join("old")).unwrap();
    fs::create_dir(daemon.home().join("app")).unwrap();
    let mut create = app(&daemon);
    create["options"] = json!({ "settings": "/tmp/trunkline-no-such-settings.json" });
    assert_ne!(rest.create_ready(create).await, waits);
    gone(&daemon, &waits).await;
    ready(&rest, 1).await;
    assert!((ended(&rest, "changed").await - 1.0).abs() < 0.5);
}

#[tokio::test]
async fn a_profile_that_cannot_start_is_told_of_once_and_left_alone_longer_and_longer() {
    let daemon = keeping(
        2,
        &json!({ "exit_at_start": { "code": 1, "stderr": "error: unknown option" } }),
    )
    .start()
    .await;
    let rest = daemon.rest();
    let failures = async |at_least: i32| {
        wait_for(&format!("it failed {at_least} times"), PATIENCE, async || {
            let failures = ended(&rest, "failed").await;
            (failures > f64::from(at_least) - 0.5).then_some(failures)
        })
        .await
    };
    #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
    let seen = failures(1).await.round() as i32;
    let begun = Instant::now();
    failures(seen + 2).await;
    // The first of the two pauses may have begun before; the second one is twice as long: two seconds after the second failure.
    let pause = Duration::from_secs(1 << seen);
    assert!(begun.elapsed() >= pause, "{:?} after {seen}", begun.elapsed());
    let failure = stock(&rest).await["failure"].clone();
    assert_eq!(failure["code"], "start_failed");
    assert!(
        failure["detail"].as_str().unwrap().contains("unknown option"),
        "{failure:#}"
    );
    let scrape = Scrape::of(&rest).await;
    scrape.expect(r#"trunkline_warm_failing{profile="app"}"#, 1.0);
    assert!(list(&rest).await.is_empty());
    let told = daemon.log().matches("was of no use").count();
    assert_eq!(told, 1, "{}", daemon.log());
    wait_until("nothing is left of it", PATIENCE, || {
        fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count() == 0
    })
    .await;
    // Others are not held up, and it recovers by itself.
    session(&daemon, "a", json!({})).await;
    fs::write(daemon.home().join("app/.fake-claude.json"), "{}").unwrap();
    ready(&rest, 2).await;
    assert_eq!(stock(&rest).await["failure"], Value::Null);
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named_and_is_used_once_it_is_there() {
    let daemon = profiles("{ name = \"app\", cwd = \"~/later\" }").start().await;
    let rest = daemon.rest();
    wait_for("it is said what is missing", PATIENCE, async || {
        (stock(&rest).await["failure"]["code"] == "cwd_missing").then_some(())
    })
    .await;
    fs::create_dir(daemon.home().join("later")).unwrap();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    let create = json!({ "cwd": daemon.home().join("later") });
    assert_eq!(rest.create_ready(create).await, waits);
}

#[tokio::test]
async fn one_that_is_too_old_is_replaced() {
    let daemon = keeping(1, &json!({}))
        .env("TRUNKLINE_WARM_MAX_AGE_MS", "1500")
        .start()
        .await;
    let rest = daemon.rest();
    let mut seen = BTreeSet::new();
    wait_for("three have taken turns", PATIENCE, async || {
        seen.extend(spares(&daemon));
        (seen.len() >= 3).then_some(())
    })
    .await;
    assert!(ended(&rest, "aged").await > 0.5);
    let folders = || fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count();
    wait_until("only the last one is there", PATIENCE, || folders() <= 1).await;
    assert_eq!(stock(&rest).await["failure"], Value::Null);
    assert!(!daemon.log().contains("was of no use"), "{}", daemon.log());
}

#[tokio::test]
async fn another_cli_makes_all_anew() {
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("claude");
    let link = |target: &str| {
        let to = crate::support::programs::fake_claude();
        let text = format!("#!/bin/sh\n# {target}\nexec {} \"$@\"\n", to.display());
        let new = programs.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
    };
    link("first");
    let daemon = keeping(1, &json!({})).claude(&program).start().await;
    let rest = daemon.rest();
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    link("second one");
    let id = rest.create_ready(app(&daemon)).await;
    assert_ne!(id, waits, "it was started from another program");
    gone(&daemon, &waits).await;
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    assert_eq!(rest.create_ready(app(&daemon)).await, waits);
    // Without anybody asking, too.
    ready(&rest, 1).await;
    let waits = spare(&daemon);
    link("and the third");
    gone(&daemon, &waits).await;
}

#[tokio::test]
async fn they_end_with_the_daemon_whatever_becomes_of_the_sessions() {
    let mut daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "detach")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let mine = rest.create_ready(app(&daemon)).await;
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    assert!(daemon.stop().success());
    for id in &waits {
        assert!(processes(id).is_empty() && !folder(&daemon, id).exists());
    }
    assert!(spares(&daemon).is_empty());
    assert!(!processes(&mine).is_empty(), "sessions live on");
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(list(&rest).await, std::slice::from_ref(&mine));
    rest.ask(&mine, "hello").await;
    ready(&rest, 2).await;
    rest.lifecycle(&mine, "stop", json!({})).await.expect(200);
}

#[tokio::test]
async fn what_a_dead_daemon_left_is_removed_and_what_was_claimed_lives_on() {
    let mut daemon = keeping(2, &json!({}))
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "1")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "20")
        .start()
        .await;
    let rest = daemon.rest();
    ready(&rest, 2).await;
    let mine = rest.create_ready(app(&daemon)).await;
    ready(&rest, 2).await;
    let waits = spares(&daemon);
    let mut all = waits.iter();
    let (lives, dies) = (all.next().unwrap(), all.next().unwrap());
    daemon.kill();
    // One dies together with its keeper, the other lives on.
    for pid in processes(dies) {
        proc::signal(pid, Signal::SIGKILL);
    }
    assert!(!processes(lives).is_empty());
    daemon.start().await;
    // When the daemon answers, they are gone.
    for id in &waits {
        assert!(processes(id).is_empty() && !folder(&daemon, id).exists(), "{id}");
    }
    assert!(spares(&daemon).is_disjoint(&waits));
    let rest = daemon.rest();
    assert_eq!(list(&rest).await, std::slice::from_ref(&mine));
    ready(&rest, 2).await;
    // The session is what it was, its restart policy included.
    rest.ask(&mine, "hello").await;
    let first = pid(&rest, &mine).await;
    proc::signal(first, Signal::SIGKILL);
    wait_for("another process takes its place", PATIENCE, async || {
        let view = rest.session(&mine).await;
        (view["state"] == "idle" && view["cli"]["pid"] != first).then_some(())
    })
    .await;
    let records = records(&rest, &mine).await;
    assert_eq!(of_type(&records, "daemon", "claimed").len(), 1);
}

#[tokio::test]
async fn a_mark_that_is_no_text_is_cleared_with_its_process_like_any_other() {
    let mut daemon = keeping(1, &json!({})).start().await;
    ready(&daemon.rest(), 1).await;
    let waits = spare(&daemon);
    daemon.kill();
    let marks = daemon.data_dir().join("warm");
    fs::write(marks.join(&waits), [0xff, 0xfe, 0x00]).unwrap();
    // One of a session that came no further.
    let other = "0190f0f0-0000-7000-8000-000000000001";
    fs::write(marks.join(other), [0xc3, 0x28]).unwrap();
    daemon.start().await;
    gone(&daemon, &waits).await;
    assert!(!spares(&daemon).contains(other));
    let rest = daemon.rest();
    ready(&rest, 1).await;
    assert!(list(&rest).await.is_empty());
}

/// Asks for a session like the process that waits, and does not wait for the answer, of which this gives the status if there is one.
fn asking(daemon: &TestDaemon) -> JoinSet<Option<u16>> {
    let mut asking = JoinSet::new();
    let request = daemon.rest().builder(Method::POST, "/v1/sessions");
    let request = request.json(&app(daemon));
    asking.spawn(async move { Some(request.send().await.ok()?.status().as_u16()) });
    asking
}

async fn ending(daemon: &TestDaemon) {
    wait_until("the daemon begins to end", PATIENCE, || {
        daemon.log().contains("shutting down")
    })
    .await;
}

/// Its journal says that it is somebody's, and the database cannot say so yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_becomes_a_session_while_the_daemon_ends_is_stopped_with_the_others() {
    let mut daemon = keeping(1, &json!({})).start().await;
    ready(&daemon.rest(), 1).await;
    let waits = spare(&daemon);
    let lock = StoreLock::take(&daemon.database());
    let _asking = asking(&daemon);
    wait_until("it is claimed", PATIENCE, || {
        daemon.journal(&waits).contains("\"type\":\"claimed\"")
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    drop(lock);
    assert_eq!(daemon.ended().code(), Some(0));
    let left = processes(&waits);
    assert!(left.is_empty(), "the daemon has ended, and there are: {left:?}");
    daemon.start().await;
    let view = daemon.rest().session(&waits).await;
    assert_eq!(
        (&view["state"], &view["reason"]),
        (&json!("stopped"), &Value::Null),
        "{view:#}"
    );
}

/// Its keeper cannot say yet that it is somebody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_asked_for_too_late_is_no_session_and_goes_with_the_daemon() {
    let mut daemon = keeping(1, &json!({})).start().await;
    ready(&daemon.rest(), 1).await;
    let waits = spare(&daemon);
    let keeper = proc::read(cli(&waits)).unwrap().parent;
    proc::signal(keeper, Signal::SIGSTOP);
    let mut asking = asking(&daemon);
    wait_for("it is not offered any more", PATIENCE, async || {
        (stock(&daemon.rest()).await["ready"] == 0).then_some(())
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    proc::signal(keeper, Signal::SIGCONT);
    assert_eq!(asking.join_next().await.unwrap().unwrap(), Some(503));
    assert_eq!(daemon.ended().code(), Some(0));
    let left = processes(&waits);
    assert!(left.is_empty(), "the daemon has ended, and there are: {left:?}");
    assert!(!folder(&daemon, &waits).exists() && spares(&daemon).is_empty());
    daemon.start().await;
    assert!(list(&daemon.rest()).await.is_empty(), "it is no session");
}
