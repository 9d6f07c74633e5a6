//! Owns the claim on a data directory: one daemon at a time, found by its file, and never locked out by a dead one.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Child, Command, Output, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::{clean_env, fake_claude, trunkline},
    wait::{PATIENCE, wait_for},
};

/// Runs a second daemon next to the first; it is expected to end by itself.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn second(daemon: &TestDaemon, data: &str, listen: &str) -> Output {
    Command::new(trunkline())
        .args(["serve", "--listen", listen, "--data-dir"])
        .arg(daemon.home().join("..").join(data))
        .arg("--claude-bin")
        .arg(fake_claude())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn daemon_file(daemon: &TestDaemon) -> Value {
    serde_json::from_slice(&fs::read(daemon.data_dir().join("daemon.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_hears_who_is_first() {
    let daemon = TestDaemon::with_fake().start().await;
    let session = daemon
        .rest()
        .create_ready(json!({ "cwd": daemon.work_dir("a") }))
        .await;
    let refused = second(&daemon, "data", "127.0.0.1:0");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(7), "{told}");
    assert!(
        told.contains(&daemon.pid().to_string()) && told.contains(daemon.url()),
        "{told}"
    );
    assert!(told.contains("--data-dir"), "says what to do: {told}");
    assert!(!told.contains("panicked"), "{told}");

    // The first one did not notice.
    assert_eq!(daemon_file(&daemon)["pid"], daemon.pid());
    daemon.rest().ask(&session, "still there?").await;
}

/// Daemons of a test, which are ended with it.
struct Rivals(Vec<Child>);

impl Drop for Rivals {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
async fn of_daemons_that_start_at_the_same_instant_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // The same directory by another name is the same directory.
    let link = dir.path().join("link");
    symlink(&data, &link).unwrap();
    fs::create_dir(&data).unwrap();
    let start = |place: usize| {
        Command::new(trunkline())
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(if place.is_multiple_of(2) { &data } else { &link })
            .arg("--claude-bin")
            .arg(fake_claude())
            .env_clear()
            .envs(clean_env(dir.path(), "http://127.0.0.1:9"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut rivals = Rivals((0..4).map(start).collect());
    let ended = wait_for("three have given up and one is ready", PATIENCE, async || {
        let ended: Vec<_> = rivals
            .0
            .iter_mut()
            .filter_map(|it| it.try_wait().unwrap())
            .collect();
        (ended.len() >= 3 && data.join("daemon.json").exists()).then_some(ended)
    })
    .await;
    let codes: Vec<_> = ended.iter().map(|status| status.code()).collect();
    assert_eq!(codes, [Some(7); 3]);
    rivals.0.retain_mut(|it| it.try_wait().unwrap().is_none());
    let winner = &mut rivals.0[0];
    let found: Value = serde_json::from_slice(&fs::read(data.join("daemon.json")).unwrap()).unwrap();
    assert_eq!(found["pid"], winner.id());
    proc::signal(i32::try_from(winner.id()).unwrap(), Signal::SIGTERM);
    let status = wait_for("it ends", PATIENCE, async || winner.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_dead_daemon_locks_nobody_out() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let path = daemon.data_dir().join("daemon.json");
    let first = daemon_file(&daemon);
    let token = daemon.token().to_owned();
    assert_eq!(first["pid"], daemon.pid());
    assert_eq!(first["url"], daemon.url());
    for private in [&path, &daemon.data_dir().join("token")] {
        let mode = fs::metadata(private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", private.display());
    }
    daemon.kill();
    assert!(path.exists(), "a killed daemon cannot clean up");
    daemon.start().await;
    let second = daemon_file(&daemon);
    assert_eq!(second["pid"], daemon.pid());
    assert_ne!(second["pid"], first["pid"]);
    assert_eq!(daemon.token(), token, "clients keep their token");
    assert_eq!(daemon.stop().code(), Some(0));
    assert!(!path.exists(), "clients find no daemon that is not there");
}

#[tokio::test]
async fn a_port_in_use_has_its_own_exit_code_and_message() {
    let daemon = TestDaemon::with_fake().start().await;
    let address = daemon.url().trim_start_matches("http://").to_owned();
    let refused = second(&daemon, "other", &address);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(6), "{told}");
    assert!(told.contains(&address) && told.contains("in use"), "{told}");
    // The port is free for the same address once its owner is gone: also at once after a kill.
    let mut daemon = daemon;
    daemon.kill();
    daemon.start().await;
}
