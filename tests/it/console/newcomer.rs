//! Owns the first steps of a newcomer: no daemon yet, no agent CLI, help, doctor, the ready line.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    console::common::{command, run},
    support::{proc, wait::holds_within},
};

/// A daemon that a person started in a terminal; it ends with this value.
struct Started {
    child: Child,
    line: String,
}

impl Started {
    fn new(home: &Path, args: &[&str]) -> Self {
        let mut serve = command(home, &["serve", "--listen", "127.0.0.1:0"]);
        let log = fs::File::create(home.join("log")).unwrap();
        // A runtime directory of its own: the default one is for the whole machine.
        serve
            .args(args)
            .env("XDG_RUNTIME_DIR", home)
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = serve.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        Self { child, line }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        proc::signal(i32::try_from(self.child.id()).unwrap(), Signal::SIGTERM);
        let ended = holds_within(Duration::from_secs(30), || {
            self.child.try_wait().unwrap().is_some()
        });
        if !ended {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

#[test]
fn without_a_daemon_every_command_says_so() {
    let home = tempfile::tempdir().unwrap();
    for args in [
        &["ls"][..],
        &["new", "x"],
        &["show", "last"],
        &["send", "last", "x"],
        &["attach"],
        &["approve", "last"],
        &["deny", "last"],
        &["interrupt", "last"],
        &["stop", "last"],
        &["resume", "last"],
        &["fork", "last"],
        &["rm", "last"],
        &["usage"],
    ] {
        let told = run(command(home.path(), args)).failed(3);
        assert!(
            told.contains("the daemon is not running") && told.contains("trunkline serve"),
            "{args:?}: {told}"
        );
    }
    // A file that a dead daemon left behind.
    let data = home.path().join(".local/state/trunkline");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("token"), "x".repeat(43)).unwrap();
    let stale = json!({"url": "http://127.0.0.1:1", "socket": null, "pid": 1, "version": "0", "started_at": "2026-01-02T03:04:05Z"});
    fs::write(data.join("daemon.json"), stale.to_string()).unwrap();
    let told = run(command(home.path(), &["ls"])).failed(3);
    assert!(told.contains("nothing answers at http://127.0.0.1:1"), "{told}");
    let told = run(command(home.path(), &["ls", "--url", "ftp://x"])).failed(2);
    assert!(told.contains("ftp://x"), "{told}");
    assert_eq!(run(command(home.path(), &["flyaway"])).code, 2);
    assert_eq!(run(command(home.path(), &["send"])).code, 2);
}

#[test]
fn help_says_what_each_command_is_for() {
    let home = tempfile::tempdir().unwrap();
    let help = |args: &[&str]| run(command(home.path(), args)).good();
    let all = help(&["--help"]);
    for expected in [
        "Examples:",
        "trunkline new",
        "Exit codes:",
        "3 the daemon is not running",
        "doctor",
    ] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    for name in [
        "serve",
        "new",
        "ls",
        "show",
        "send",
        "attach",
        "approve",
        "deny",
        "interrupt",
        "stop",
        "resume",
        "fork",
        "rm",
        "usage",
        "doctor",
        "config",
        "openapi",
    ] {
        assert!(
            all.contains(&format!("\n  {name}")),
            "{name} is not listed: {all}"
        );
        let text = help(&[name, "--help"]);
        assert!(text.contains(&format!("Usage: trunkline {name}")), "{text}");
        let first = text.lines().next().unwrap();
        assert!(first.len() > 15, "{name} has no description: {first}");
    }
    assert!(!all.contains("keeper"), "hidden commands are shown: {all}");
    assert!(help(&["--version"]).starts_with("trunkline 0."));
}

#[test]
fn the_ready_line_says_how_to_reach_the_daemon_and_that_it_is_simulated() {
    let home = tempfile::tempdir().unwrap();
    let mut daemon = Started::new(home.path(), &[]);
    let data = home.path().join(".local/state/trunkline");
    let facts: Value = serde_json::from_slice(&fs::read(data.join("daemon.json")).unwrap()).unwrap();
    let url = facts["url"].as_str().unwrap();
    for expected in [
        url,
        data.to_str().unwrap(),
        &daemon.child.id().to_string(),
        "token in ",
    ] {
        assert!(daemon.line.contains(expected), "{expected}: {}", daemon.line);
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for file in ["token", "daemon.json", "trunkline.db", "lock"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    // The hints follow the ready line.
    let log = || fs::read_to_string(home.path().join("log")).unwrap();
    let told = holds_within(Duration::from_secs(30), || {
        log().contains("stop:") && log().ends_with('\n')
    });
    let log = log();
    assert!(
        told && log.contains("SIMULATED") && log.contains("curl -sS"),
        "{log}"
    );

    // The line that it offers works as it is.
    let offered = log
        .lines()
        .find_map(|line| line.trim().strip_prefix("curl:"))
        .unwrap()
        .trim();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", offered]).env("no_proxy", "127.0.0.1");
    let curl = run(shell);
    assert_eq!(
        serde_json::from_str::<Value>(&curl.stdout).unwrap()["items"],
        json!([]),
        "{curl:?}"
    );

    let tl = |args: &[&str]| run(command(home.path(), args));
    let made = tl(&["new", "--wait", "hello"]);
    assert!(made.code == 0 && made.stdout.contains("simulated"), "{made:?}");
    assert!(made.stderr.contains("simulated"), "{made:?}");
    for args in [&["ls"][..], &["show", "last"]] {
        let shown = tl(args).good();
        assert!(shown.contains("(simulated)"), "{shown}");
    }
    let doctor = tl(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    assert!(
        doctor.stdout.contains("claude-code") && doctor.stdout.contains(url),
        "{doctor:?}"
    );

    // Ctrl-C ends it in an orderly way, and its file is gone.
    proc::signal(i32::try_from(daemon.child.id()).unwrap(), Signal::SIGINT);
    let mut status = None;
    holds_within(Duration::from_secs(30), || {
        status = daemon.child.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.expect("no end after Ctrl-C").success());
    assert!(!data.join("daemon.json").exists());
    tl(&["ls"]).failed(3);
}

#[test]
fn doctor_names_each_problem_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join(".local/state/trunkline");
    fs::create_dir_all(&data).unwrap();
    let doctor = |env: &[(&str, &str)]| {
        let mut doctor = command(home.path(), &["doctor"]);
        doctor
            .env("XDG_RUNTIME_DIR", home.path())
            .envs(env.iter().copied());
        run(doctor)
    };
    let fresh = doctor(&[]);
    assert_eq!(fresh.code, 0, "{fresh:?}");
    assert!(fresh.stdout.contains("simulated"), "{fresh:?}");
    let missing = doctor(&[("TRUNKLINE_CLAUDE_BIN", "/nonexistent/claude")]);
    assert!(
        missing.code == 1 && missing.stdout.contains("/nonexistent/claude"),
        "{missing:?}"
    );
    let wrong = doctor(&[("TRUNKLINE_CLAUDE_BIN", "/bin/true")]);
    assert!(
        wrong.code == 1 && wrong.stdout.contains("not the Claude Code CLI"),
        "{wrong:?}"
    );
    let token = data.join("token");
    fs::write(&token, "x".repeat(43)).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let open = doctor(&[]);
    assert!(open.code == 1 && open.stdout.contains("chmod 600"), "{open:?}");
    assert!(!open.stdout.contains("xxxx"), "{open:?}");
    fs::remove_file(&token).unwrap();
    let typo = doctor(&[("TRUNKLINE_SERVER_LISTN", "127.0.0.1:1")]);
    assert!(typo.stdout.contains("TRUNKLINE_SERVER_LISTEN"), "{typo:?}");
    let bad = doctor(&[("TRUNKLINE_SERVER_LISTEN", "0.0.0.0:1")]);
    assert!(bad.code == 1 && bad.stdout.contains("server.listen"), "{bad:?}");
}

#[test]
fn the_offered_command_works_as_it_is_typed() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data of mine");
    let daemon = Started::new(home.path(), &["--data-dir", data.to_str().unwrap()]);
    let log = || fs::read_to_string(home.path().join("log")).unwrap();
    assert!(holds_within(Duration::from_secs(30), || log().contains("stop:")));
    let log = log();
    let offered = log
        .lines()
        .find_map(|line| line.trim().strip_prefix("try:"))
        .unwrap()
        .trim();
    let offered = offered.replace("new --attach", "new --wait");
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &offered])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/");
    let answered = run(shell);
    assert!(
        answered.code == 0 && answered.stdout.contains("simulated"),
        "{offered}: {answered:?}"
    );
    drop(daemon);
}

#[test]
fn only_an_agent_is_taken_for_one() {
    let home = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("/bin/ls", "is not the agent CLI: its --version prints"),
        ("/etc/passwd", "is no program"),
        ("/etc", "is no program"),
        ("no-such-agent", "no program no-such-agent is on PATH"),
    ] {
        let serve = command(
            home.path(),
            &["serve", "--listen", "127.0.0.1:0", "--claude-bin", name],
        );
        let told = run(serve).failed(2);
        assert!(told.contains(expected) && told.lines().count() == 1, "{told}");
    }
    // A bare name is one on PATH, wherever the shell stands.
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let agent = bin.join("agent");
    let script = format!(
        "#!/bin/sh\nexec '{}' sim \"$@\"\n",
        crate::support::programs::trunkline().display()
    );
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let log = fs::File::create(home.path().join("log")).unwrap();
    let mut serve = command(
        home.path(),
        &["serve", "--listen", "127.0.0.1:0", "--claude-bin", "agent"],
    );
    serve
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", home.path())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = serve.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let _daemon = Started { child, line };
    let log = || fs::read_to_string(home.path().join("log")).unwrap();
    let told = holds_within(Duration::from_secs(30), || {
        log().contains(agent.to_str().unwrap())
    });
    assert!(told, "{}", log());
}

#[test]
fn usage_takes_a_day() {
    let home = tempfile::tempdir().unwrap();
    let _daemon = Started::new(home.path(), &[]);
    let tl = |args: &[&str]| run(command(home.path(), args));
    tl(&["new", "--wait", "hello"]).stdout.clear();
    let all = tl(&["usage", "--from", "2020-01-31", "--to", "2999-01-01"]).good();
    assert_eq!(all.lines().count(), 2, "{all}");
    let none = tl(&["usage", "--to", "2020-01-31"]).good();
    assert_eq!(none.lines().count(), 1, "{none}");
    let wrong = tl(&["usage", "--from", "yesterday"]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("a day such as 2026-01-31"),
        "{wrong:?}"
    );
}

#[test]
fn a_daemon_whose_ready_line_nobody_reads_serves() {
    let home = tempfile::tempdir().unwrap();
    let mut serve = command(home.path(), &["serve", "--listen", "127.0.0.1:0"]);
    serve
        .env("XDG_RUNTIME_DIR", home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = serve.spawn().unwrap();
    drop(child.stdout.take());
    let answers = || run(command(home.path(), &["status"])).code == 0;
    let serves = holds_within(Duration::from_secs(30), answers);
    proc::signal(i32::try_from(child.id()).unwrap(), Signal::SIGTERM);
    let ended = child.wait().unwrap();
    assert!(serves && ended.success(), "{serves}, {ended}");
}
