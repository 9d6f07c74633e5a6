//! Owns what `doctor`, `config` and the way to the daemon say when the daemon and this shell have other views.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::sys::signal::Signal;

use crate::{
    console::{
        attach::Typed,
        common::{Ran, command, run, tl, to},
    },
    support::{
        daemon::TestDaemon,
        proc,
        programs::{fake_claude, trunkline},
        wait::{PATIENCE, holds_within},
    },
};

/// A directory that has the fake CLI under the name of the real one.
fn path_with_claude(dir: &Path) -> String {
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", fake_claude().display());
    let claude = dir.join("claude");
    fs::write(&claude, script).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn doctor_tells_the_agent_of_the_daemon_and_that_this_shell_has_another() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_DRAIN_MS", "4321")
        .start()
        .await;
    let dir = tempfile::tempdir().unwrap();
    let mut doctor = to(&daemon, &["doctor"]);
    doctor
        .env("PATH", path_with_claude(dir.path()))
        .env("ANTHROPIC_AUTH_TOKEN", "secret");
    let told = run(doctor);
    let agent = told
        .stdout
        .lines()
        .find(|line| line.contains("agent CLI "))
        .unwrap();
    assert!(
        agent.contains(fake_claude().to_str().unwrap()) && agent.contains("9.9.9"),
        "{told:?}"
    );
    let shell: Vec<&str> = told
        .stdout
        .lines()
        .filter(|line| line.contains("this shell "))
        .collect();
    assert_eq!(shell.len(), 1, "{told:?}");
    for expected in [
        dir.path().join("claude").to_str().unwrap(),
        "stop.drain_ms is 1000 here and 4321 there",
        "it has ANTHROPIC_AUTH_TOKEN, which sessions do not get",
    ] {
        assert!(shell[0].contains(expected), "{expected}: {told:?}");
    }
    assert!(!told.stdout.contains("secret"), "{told:?}");
    assert!(told.stdout.contains("trunkline restart"), "{told:?}");
}

#[tokio::test]
async fn doctor_tells_that_the_daemon_simulates_though_this_shell_has_a_cli() {
    let empty = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake().claude_in(empty.path()).start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut doctor = to(&daemon, &["doctor"]);
    doctor.env("PATH", path_with_claude(dir.path()));
    let told = run(doctor).good();
    let claude = dir.path().join("claude");
    assert!(
        told.contains("simulates sessions") && told.contains(&format!("bin = \"{}\"", claude.display())),
        "{told}"
    );
}

#[tokio::test]
async fn config_prints_what_is_in_force_in_the_daemon() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_DRAIN_MS", "4321")
        .env("TRUNKLINE_CLAUDE_ENV", "{ A_KEY = \"secret\" }")
        .start()
        .await;
    let shown = tl(&daemon, &["config"]);
    assert!(
        shown.stderr.contains("in force in the daemon at") && shown.stderr.contains(daemon.url()),
        "{shown:?}"
    );
    let line = |ran: &Ran| {
        let found = ran.stdout.lines().find(|line| line.starts_with("stop.drain_ms"));
        found.unwrap().to_owned()
    };
    assert!(
        line(&shown).contains("4321") && line(&shown).contains("TRUNKLINE_STOP_DRAIN_MS"),
        "{shown:?}"
    );
    assert!(
        shown.stdout.contains("A_KEY") && !shown.stdout.contains("secret"),
        "{shown:?}"
    );
    let here = tl(&daemon, &["config", "--here"]);
    assert!(
        here.stderr.contains("this shell") && line(&here).contains("1000"),
        "{here:?}"
    );
    assert_eq!(tl(&daemon, &["config", "--json"]).json()["in_force"], true);

    let home = tempfile::tempdir().unwrap();
    let nobody = run(command(home.path(), &["config"]));
    assert!(nobody.stderr.contains("no daemon runs"), "{nobody:?}");
    let nobody = run(command(home.path(), &["config", "--json"])).json();
    assert_eq!(nobody["in_force"], false);
}

/// Each file with its content, but for those that SQLite makes and removes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

#[tokio::test]
async fn without_a_daemon_doctor_opens_what_a_start_would_open() {
    let mut daemon = TestDaemon::with_fake().start().await;
    tl(&daemon, &["new", "hello"]).line();
    daemon.stop();
    let (data, database, token) = (
        daemon.data_dir(),
        daemon.database(),
        daemon.data_dir().join("token"),
    );
    let doctor = |expected: &str| {
        let before = files(&data);
        let mut doctor = to(&daemon, &["doctor"]);
        doctor.env("TRUNKLINE_LISTEN", "127.0.0.1:0");
        let told = run(doctor);
        assert!(told.stdout.contains(expected), "{expected}: {told:?}");
        assert_eq!(files(&data), before, "something was changed");
        told
    };
    let good = doctor("ok    database");
    assert_eq!(good.code, 0, "{good:?}");

    let whole = fs::read(&database).unwrap();
    let newer = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute(\"insert into _sqlx_migrations \
                 select 99, 'x', installed_on, 1, checksum, 0 from _sqlx_migrations limit 1\"); d.commit(); d.close()";
    let changed = Command::new("python3")
        .arg("-c")
        .arg(newer)
        .arg(&database)
        .status();
    assert!(changed.unwrap().success());
    assert_eq!(doctor("schema version 99").code, 1);
    fs::write(
        &database,
        "no database at all, but long enough to be one".repeat(100),
    )
    .unwrap();
    assert_eq!(doctor("FIX   database").code, 1);
    fs::write(&database, whole).unwrap();

    let secret = fs::read(&token).unwrap();
    fs::write(&token, "short").unwrap();
    assert_eq!(doctor("FIX   token").code, 1);
    fs::write(&token, &secret).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(doctor("chmod 600").code, 1);
    let mode = fs::metadata(&token).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "the mode was changed");
}

#[tokio::test]
async fn a_daemon_without_its_file_is_found_at_the_configured_address() {
    let daemon = TestDaemon::with_fake().start().await;
    let file = daemon.data_dir().join("daemon.json");
    let text = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let listen = daemon.url().trim_start_matches("http://").to_owned();
    let there = |args: &[&str]| {
        let mut command = to(&daemon, args);
        command.env("TRUNKLINE_LISTEN", &listen);
        run(command)
    };
    let list = there(&["ls"]);
    assert!(list.code == 0 && list.stderr.contains("no sessions"), "{list:?}");
    let doctor = there(&["doctor"]).good();
    assert!(
        doctor.contains(&format!("http://{listen} answers")) && !doctor.contains("another program"),
        "{doctor}"
    );
    // Its token goes to no daemon of another directory.
    let home = tempfile::tempdir().unwrap();
    let mut other = command(home.path(), &["ls"]);
    other.env("TRUNKLINE_LISTEN", &listen);
    let told = run(other);
    assert!(told.code != 0 && !told.stderr.contains("panicked"), "{told:?}");
    fs::write(&file, text).unwrap();
}

/// Listens in the place of a daemon, and becomes it at the first connection, as a socket unit does.
const SOCKET_UNIT: &str = r"
import os, select, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
select.select([listener], [], [])
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])
";

/// A daemon behind a socket; it ends with this value.
struct Activated(Child);

impl Drop for Activated {
    fn drop(&mut self) {
        proc::signal(i32::try_from(self.0.id()).unwrap(), Signal::SIGTERM);
        let ended = holds_within(PATIENCE, || self.0.try_wait().unwrap().is_some());
        if !ended {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }
}

#[test]
fn a_command_starts_the_daemon_behind_a_socket() {
    for args in [&["ls"][..], &["doctor"]] {
        let home = tempfile::tempdir().unwrap();
        let mut unit = Command::new("python3");
        unit.arg("-c")
            .arg(SOCKET_UNIT)
            .arg(trunkline())
            .arg("serve")
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("XDG_RUNTIME_DIR", home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut unit = Activated(unit.spawn().unwrap());
        let mut port = String::new();
        BufReader::new(unit.0.stdout.as_mut().unwrap())
            .read_line(&mut port)
            .unwrap();
        let mut first = command(home.path(), args);
        first
            .env("TRUNKLINE_LISTEN", format!("127.0.0.1:{}", port.trim()))
            .env("XDG_RUNTIME_DIR", home.path());
        let mut told = run(first);
        // A doctor does not wait for a start that takes its time, and says so.
        if args == ["doctor"] && told.stdout.contains("if that is a daemon that starts, try again") {
            let mut again = command(home.path(), args);
            again.env("XDG_RUNTIME_DIR", home.path());
            let started = holds_within(PATIENCE, || {
                home.path().join(".local/state/trunkline/daemon.json").exists()
            });
            assert!(started, "{told:?}");
            told = run(again);
        }
        let all = format!("{}{}", told.stdout, told.stderr);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(
            all.contains("no sessions") || all.contains("answers, version"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn a_daemon_that_hangs_is_told_soon() {
    let daemon = TestDaemon::with_fake().start().await;
    daemon.signal(Signal::SIGSTOP);
    let told = run(to(&daemon, &["doctor"]));
    let list = Typed::start(to(&daemon, &["ls"]));
    list.shows("has not answered yet; waiting").await;
    daemon.signal(Signal::SIGCONT);
    list.shows("no sessions").await;
    assert_eq!(told.code, 1, "{told:?}");
    let line = told.stdout.lines().find(|line| line.contains("daemon  "));
    assert!(
        line.is_some_and(|line| line.contains("does not answer"))
            && told.stdout.contains(&daemon.pid().to_string()),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_program_in_the_daemons_place_that_says_nothing_is_told_soon() {
    let home = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut list = command(home.path(), &["ls"]);
    list.env("TRUNKLINE_LISTEN", &address);
    let list = Typed::start(list);
    list.shows(&format!("a program listens at {address} and says nothing yet"))
        .await;
    // It hangs up without a word.
    drop(silent.accept().unwrap());
    list.shows(&format!("another program listens at {address}")).await;
    list.shows("--listen").await;
}
