//! Owns what the service manager is told over the life of a daemon, and what it is not told by one that hangs.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::json;

use crate::{
    service::manager::{Manager, has},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, wait_until},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_life_and_the_end_are_told_in_order() {
    let mut manager = Manager::new();
    let mut daemon = TestDaemon::with_fake()
        .fake(json!({ "term": { "ignore": true } }))
        .env("NOTIFY_SOCKET", &manager.socket)
        .env("WATCHDOG_USEC", "1000000")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "2000")
        .start()
        .await;

    let mut told = manager.until("READY=1").await;
    let ready = told.pop().unwrap();
    assert!(has(&ready, &format!("MAINPID={}", daemon.pid())), "{ready}");
    assert!(
        ready.contains("STATUS=") && ready.contains(daemon.url()),
        "{ready}"
    );
    assert!(
        told.iter()
            .all(|message| message.starts_with("EXTEND_TIMEOUT_USEC=")),
        "{told:?}"
    );
    for _ in 0..2 {
        let told = manager.until("WATCHDOG=1").await;
        assert_eq!(told, ["WATCHDOG=1"]);
    }

    // A turn that does not listen to SIGTERM makes the end take its time.
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let prompt = fake_prompt(&json!([{ "text": "begun" }, { "silent": 1 }]));
    rest.prompt(&session, &prompt).await;
    daemon.attach(&session, Some(0)).await.cli_line("assistant").await;
    assert_eq!(daemon.stop().code(), Some(0));

    let mut told = manager.until("STOPPING=1").await;
    let stopping = told.pop().unwrap();
    assert!(stopping.contains("STATUS="), "{stopping}");
    assert!(told.iter().all(|message| message == "WATCHDOG=1"), "{told:?}");
    let told = manager.told().await;
    let extended = told
        .iter()
        .filter(|message| message.starts_with("EXTEND_TIMEOUT_USEC="));
    assert!(extended.count() >= 3, "{told:?}");
    assert!(!told.iter().any(|message| has(message, "READY=1")), "{told:?}");
}

/// Another program that holds the database locked.
struct Lock(Child);

impl Lock {
    #[expect(clippy::disallowed_methods, reason = "starts a program of the test")]
    fn take(daemon: &TestDaemon) -> Self {
        let program = "import sqlite3, sys\n\
                       database = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                       database.execute('BEGIN IMMEDIATE')\n\
                       print('locked', flush=True)\n\
                       sys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", program])
            .arg(daemon.database())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(child)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_hangs_gives_no_sign_of_life() {
    let mut manager = Manager::new();
    let daemon = TestDaemon::with_fake()
        .env("NOTIFY_SOCKET", &manager.socket)
        .env("WATCHDOG_USEC", "1000000")
        .start()
        .await;
    manager.until("WATCHDOG=1").await;

    let hangs = |daemon: &TestDaemon| daemon.log().matches("the daemon hangs").count();
    let lock = Lock::take(&daemon);
    wait_until("the daemon notices", PATIENCE, || hangs(&daemon) >= 1).await;
    // Forget the messages that came before.
    manager.told().await;
    wait_until("it notices again", PATIENCE, || hangs(&daemon) >= 4).await;
    assert_eq!(manager.told().await, Vec::<String>::new(), "{}", daemon.log());

    drop(lock);
    manager.until("WATCHDOG=1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watchdog_of_another_process_and_a_manager_that_is_gone_change_nothing() {
    let mut manager = Manager::new();
    let daemon = TestDaemon::with_fake()
        .env("NOTIFY_SOCKET", &manager.socket)
        .env("WATCHDOG_USEC", "20000")
        .env("WATCHDOG_PID", "1")
        .start()
        .await;
    manager.until("READY=1").await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    assert_eq!(manager.told().await, Vec::<String>::new());

    let daemon = TestDaemon::with_fake()
        .env("NOTIFY_SOCKET", "/nowhere/notify")
        .start()
        .await;
    assert!(
        daemon.log().contains("service manager cannot be reached"),
        "{}",
        daemon.log()
    );
}

/// Even where everything else passes: a CLI or tool that took the socket for its own would speak in the daemon's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_the_service_manager_reaches_a_session() {
    let manager = Manager::new();
    let daemon = TestDaemon::with_fake()
        .env("NOTIFY_SOCKET", &manager.socket)
        .env("WATCHDOG_USEC", "1000000")
        .env("LISTEN_PID", "1")
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "http")
        .env("PASSES", "yes")
        .env("TRUNKLINE_CLAUDE_ENV_ALLOW", "*")
        .start()
        .await;
    let rest = daemon.rest();
    rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let processes = daemon.session_processes();
    assert!(
        processes
            .iter()
            .any(|process| process.env("PASSES").as_deref() == Some("yes")),
        "{processes:?}"
    );
    for name in [
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "LISTEN_PID",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
    ] {
        let with: Vec<_> = processes
            .iter()
            .filter(|process| process.env(name).is_some())
            .collect();
        assert!(with.is_empty(), "{name} is in the environment of {with:?}");
    }
}
