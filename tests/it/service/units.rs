//! Owns the units in `packaging`: systemd takes them, and a restart as they describe it keeps sessions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::{
    service::manager::Manager,
    support::{
        daemon::TestDaemon,
        proc,
        programs::{repository, trunkline},
    },
};

/// The units of one kind, `user` or `system`.
fn units(kind: &str) -> Vec<(String, String)> {
    let dir = repository("packaging/systemd").join(kind);
    let mut units: Vec<(String, String)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    units.sort();
    assert_eq!(units.len(), 2, "{units:?}");
    units
}

/// The remarks of systemd on units of one kind, with the program where they look for it. It says it and does not fail for much
/// of what is wrong.
#[expect(clippy::disallowed_methods, reason = "starts the program that checks")]
fn verify(kind: &str, units: &[(String, String)]) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(".cargo/bin/trunkline");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(trunkline(), &program).unwrap();
    let paths: Vec<PathBuf> = units
        .iter()
        .map(|(name, text)| {
            let path = dir.path().join(name);
            let text = text.replace("=/usr/local/bin/trunkline ", &format!("={} ", program.display()));
            fs::write(&path, text).unwrap();
            path
        })
        .collect();
    let output = Command::new("systemd-analyze")
        .args([&format!("--{kind}"), "verify"])
        .args(paths)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", dir.path())
        .env("XDG_RUNTIME_DIR", dir.path())
        .output()
        .expect("systemd-analyze is needed: Debian has it in the package systemd");
    let told = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&told).into_owned(),
    )
}

#[test]
fn systemd_has_no_word_against_the_units() {
    for kind in ["user", "system"] {
        let mut units = units(kind);
        assert_eq!(verify(kind, &units), (true, String::new()), "{kind}");
        // It would have one.
        units[0].1 = units[0].1.replace("WatchdogSec", "WatchDogSec");
        units[1].1 = units[1].1.replace("ListenStream", "Listen");
        let (_, told) = verify(kind, &units);
        for (name, _) in units {
            assert!(told.contains(&name), "{told}");
        }
    }
}

/// The last value of a key, and all of `Environment=`.
fn value<'a>(unit: &'a str, key: &str) -> Option<&'a str> {
    unit.lines()
        .rev()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// A restart of a unit with `KillMode=process`, as systemd does it: SIGTERM to the main process and to no other, and when that
/// has ended a new main process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_service_keeps_the_processes_of_its_sessions() {
    for kind in ["user", "system"] {
        let path = Path::new(kind).join("trunkline.service");
        let unit = fs::read_to_string(repository("packaging/systemd").join(path)).unwrap();
        for (key, expected) in [
            ("Type", "notify"),
            ("KillMode", "process"),
            ("Restart", "on-failure"),
            ("OOMPolicy", "continue"),
        ] {
            assert_eq!(value(&unit, key), Some(expected), "{kind} {key}");
        }
        let mut manager = Manager::new();
        let mut builder = TestDaemon::with_fake()
            .env("NOTIFY_SOCKET", &manager.socket)
            .env("WATCHDOG_USEC", "60000000");
        let variables = unit
            .lines()
            .filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
        // Directories are the test's own.
        for (name, value) in variables.filter(|(name, _)| !name.starts_with("TRUNKLINE_DATA_")) {
            builder = builder.env(name, value);
        }
        let mut daemon = builder.start().await;
        let first = daemon.pid();
        manager.until(&format!("MAINPID={first}")).await;
        let rest = daemon.rest();
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        let before: Vec<i32> = daemon.session_processes().iter().map(|it| it.pid).collect();
        assert_eq!(before.len(), 2, "a keeper and a CLI");

        assert_eq!(daemon.stop().code(), Some(0));
        manager.until("STOPPING=1").await;
        assert!(before.iter().all(|pid| proc::is_alive(*pid)), "{before:?}");
        daemon.start().await;
        assert_ne!(daemon.pid(), first);
        manager.until(&format!("MAINPID={}", daemon.pid())).await;

        let after: Vec<i32> = daemon.session_processes().iter().map(|it| it.pid).collect();
        assert_eq!(after, before);
        let rest = daemon.rest();
        rest.ask(&session, "still there?").await;
        rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    }
}
