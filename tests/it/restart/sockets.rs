//! Owns the directory of the keepers' sockets: it may be removed at any time, as at the end of a login, and it may be somebody
//! else's.

use std::{
    fs,
    os::unix::fs::{chown, symlink},
    path::{Path, PathBuf},
};

use nix::{sys::signal::Signal, unistd::geteuid};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    restart::{journal, versions::bed},
    support::{
        daemon::TestDaemon,
        proc,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
};

/// A daemon whose sockets are in a directory of its own. A socket's path is short.
async fn daemon() -> (TestDaemon, TempDir, PathBuf) {
    let login = tempfile::Builder::new().prefix("tl-run-").tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("XDG_RUNTIME_DIR", login.path())
        .allow_errors()
        .start()
        .await;
    let sockets = login.path().join("trunkline");
    assert!(sockets.is_dir());
    (daemon, login, sockets)
}

/// As a system does at the last logout.
fn log_out(login: &Path) {
    fs::remove_dir_all(login).unwrap();
    fs::create_dir(login).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_the_directory_of_the_sockets() {
    let (mut daemon, login, sockets) = daemon().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let busy = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let begun = json!([{ "text": "begun" }, { "wait_file": gate }, { "text": "done" }]);
    rest.prompt(&busy, &fake_prompt(&begun)).await;
    rest.in_turn(&busy).await;
    let parked = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    rest.ask(&parked, "hello").await;
    log_out(login.path());

    // Each start makes it again.
    rest.get("/readyz").await.expect(200);
    log_out(login.path());
    let new = rest.create_ready(json!({ "cwd": daemon.work_dir("c") })).await;
    rest.ask(&new, "hello").await;
    log_out(login.path());
    rest.lifecycle(&parked, "park", json!({})).await.expect(200);
    rest.in_state(&parked, &["parked"]).await;
    rest.ask(&parked, "again").await;

    // The next daemon finds all of them, in the middle of a turn too.
    let mut pids = Vec::new();
    for id in [&busy, &parked, &new] {
        let view = rest.session(id).await;
        pids.push((id, i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap()));
    }
    daemon.kill();
    log_out(login.path());
    daemon.start().await;
    let rest = daemon.rest();
    for (id, pid) in pids {
        assert!(proc::is_alive(pid), "it was ended");
        wait_for("it is attached to", PATIENCE, async || {
            let view = rest.session(id).await;
            (view["reason"].is_null() && view["cli"]["pid"] == pid).then_some(())
        })
        .await;
    }
    assert_eq!(fs::read_dir(&sockets).unwrap().count(), 3);
    fs::write(gate, "").unwrap();
    let view = rest.in_state(&busy, &["idle"]).await;
    assert_eq!(view["turns"], 1, "{view:#}");
    for id in [&busy, &parked, &new] {
        rest.ask(id, "still there?").await;
        let records = journal::records(&daemon, id);
        assert!(journal::own(&records, "run_lost").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_made_again_is_told() {
    let (daemon, _login, sockets) = daemon().await;
    let rest = daemon.rest();
    fs::remove_dir_all(&sockets).unwrap();
    fs::write(&sockets, "").unwrap();
    let answer = rest.get("/readyz").await;
    assert!(
        answer.body["detail"].to_string().contains("data.runtime_dir"),
        "{:#}",
        answer.body
    );
    assert_eq!(answer.problem(503), "not_ready");
    let body = json!({ "cwd": daemon.work_dir("a") });
    let answer = rest.post("/v1/sessions?wait=ready", body.clone()).await;
    assert!(
        answer.body["detail"].to_string().contains("data.runtime_dir"),
        "{:#}",
        answer.body
    );
    fs::remove_file(&sockets).unwrap();
    rest.get("/readyz").await.expect(200);
    rest.create_ready(body).await;
}

/// It cannot make its socket again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_keeper_without_its_socket_keeps_its_process() {
    let mut bed = bed(1).await;
    fs::remove_file(bed.daemon.home().join("k")).unwrap();
    bed.daemon.start().await;
    let rest = bed.daemon.rest();
    let view = rest.session(&bed.session).await;
    assert_eq!(view["reason"]["code"], "keeper_unresponsive", "{view:#}");
    assert!(proc::is_alive(bed.cli), "it was ended");
    rest.lifecycle(&bed.session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(bed.cli));
    // The keeper that was started by hand wants to remove its socket, and has none.
    proc::signal(i32::try_from(bed.keeper.id()).unwrap(), Signal::SIGKILL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_does_not_start_on_a_directory_that_may_be_anothers() {
    let (mut daemon, login, sockets) = daemon().await;
    let put: [fn(&Path, &Path); 2] = [
        |login, sockets| {
            fs::create_dir(login.join("other")).unwrap();
            symlink(login.join("other"), sockets).unwrap();
        },
        |_, sockets| {
            fs::create_dir(sockets).unwrap();
            if geteuid().is_root() {
                chown(sockets, Some(65_534), None).unwrap();
            } else {
                fs::remove_dir(sockets).unwrap();
                fs::write(sockets, "").unwrap();
            }
        },
    ];
    assert_eq!(daemon.stop().code(), Some(0));
    for put in put {
        log_out(login.path());
        put(login.path(), &sockets);
        daemon.launch();
        let ended = daemon.ready_or_ended().await;
        let status = ended.expect_err("it started");
        assert_ne!(status.code(), Some(0));
    }
    let log = daemon.log();
    assert!(log.contains("data.runtime_dir"), "{log}");
    assert!(log.contains("it is a symbolic link"), "{log}");
    if geteuid().is_root() {
        assert!(log.contains("it belongs to another user (uid 65534)"), "{log}");
    }
    log_out(login.path());
    daemon.start().await;
    let facts: Value = daemon.rest().get("/readyz").await.expect(200);
    assert_eq!(facts["ready"], true);
}
