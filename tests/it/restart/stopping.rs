//! Owns what happens while a daemon ends: what it still waits for, what it refuses, what it tells its clients, and what more
//! signals and a deadline do.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    restart::journal,
    support::{
        daemon::{TestDaemon, TestDaemonBuilder},
        proc,
        programs::{fake_prompt, fake_settings},
        wait::{PATIENCE, holds_within, wait_until},
        ws::Ws,
    },
};

/// A daemon whose stops are quick.
fn quick() -> TestDaemonBuilder {
    TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_EOF_GRACE_MS", "500")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "1000")
}

/// Waits until the daemon has begun to end.
async fn ending(daemon: &TestDaemon) {
    wait_until("the daemon begins to end", PATIENCE, || {
        daemon.log().contains("shutting down")
    })
    .await;
}

/// The rows of a query, as JSON lines: read by another program, with no daemon in between.
#[expect(clippy::disallowed_methods, reason = "another program reads the database")]
fn query(daemon: &TestDaemon, sql: &str) -> Vec<Value> {
    let program = "import json, sqlite3, sys\n\
                   for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(json.dumps(row))";
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(daemon.database())
        .arg(sql)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The client is told when to come back, and then its connection is closed.
async fn is_told(client: &mut Ws) {
    let mut frames = client
        .until("the word of the end", |frame| {
            frame["type"] == "trunkline.shutdown"
        })
        .await;
    assert_eq!(
        frames.pop().unwrap(),
        json!({"type": "trunkline.shutdown", "reconnect_after_ms": 700})
    );
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 1001, "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_clients_and_five_processes_end_in_time() {
    let mut daemon = quick()
        .env("TRUNKLINE_STOP_RECONNECT_AFTER_MS", "700")
        .start()
        .await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for name in ["a", "b", "c", "d", "deaf"] {
        let dir = daemon.work_dir(name);
        if name == "deaf" {
            fake_settings(
                &dir,
                &json!({ "term": { "ignore": true }, "eof": { "ignore": true } }),
            );
        }
        sessions.push(rest.create_ready(json!({ "cwd": dir })).await);
    }
    for session in &sessions {
        rest.ask(session, "hello").await;
    }
    let mut clients = Vec::new();
    for session in &sessions[1..] {
        clients.push(daemon.attach(session, Some(0)).await);
    }
    // More than what lies between the two takes, and nobody reads it.
    let never_reads = daemon.attach(&sessions[0], Some(0)).await;
    rest.ask(
        &sessions[0],
        &fake_prompt(&json!([{ "flood": 8000, "bytes": 1000 }])),
    )
    .await;
    let pids: Vec<i32> = daemon.session_processes().iter().map(|it| it.pid).collect();
    assert_eq!(pids.len(), 10, "five keepers, five CLIs");

    let begin = Instant::now();
    assert_eq!(daemon.stop().code(), Some(0));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    for client in &mut clients {
        is_told(client).await;
    }
    drop(never_reads);
    let left: Vec<_> = pids.into_iter().filter(|pid| proc::is_alive(*pid)).collect();
    assert!(left.is_empty(), "processes are left: {left:?}");
    // The last events are in the database: no daemon has looked since.
    let rows = query(&daemon, "SELECT state, turns FROM sessions ORDER BY turns");
    let turns: Vec<_> = rows.iter().map(|it| it[1].clone()).collect();
    assert_eq!(turns, [1, 1, 1, 1, 2], "{rows:?}");
    assert!(rows.iter().all(|it| it[0] == "stopped"), "{rows:?}");
    let exits = query(
        &daemon,
        "SELECT exit_intent, exit_killed FROM runs ORDER BY exit_killed",
    );
    assert_eq!(exits.len(), 5);
    assert!(exits.iter().all(|it| it[0] == "stop"), "{exits:?}");
    let killed: Vec<_> = exits.iter().map(|it| it[1].clone()).collect();
    assert_eq!(killed, [0, 0, 0, 0, 1], "one did not listen");

    daemon.start().await;
    let runs = daemon
        .rest()
        .get(&format!("/v1/sessions/{}/runs", sessions[4]))
        .await
        .expect(200);
    let steps = &runs["items"][0]["exit"]["stop_steps"];
    let names: Vec<_> = steps.as_array().unwrap().iter().map(|it| &it["step"]).collect();
    assert_eq!(names, ["close_stdin", "sigterm", "sigkill", "exited"], "{runs:#}");
    let at = |index: usize| steps[index]["after_ms"].as_u64().unwrap();
    assert!(
        at(0) == 0 && at(1) >= 500 && at(2) >= 1500 && at(3) >= at(2),
        "{steps}"
    );
    let log = daemon.log();
    assert!(
        log.lines()
            .any(|it| it.contains("step of a stop") && it.contains("sigkill") && it.contains(&sessions[4])),
        "each step is logged: {log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_runs_may_end_and_new_work_is_refused_meanwhile() {
    let mut daemon = quick()
        .env("TRUNKLINE_STOP_FINISH_TURNS_MS", "20000")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "60000")
        .start()
        .await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let idle = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    let prompt = fake_prompt(&json!([{ "text": "begun" }, { "wait_file": gate }, { "text": "done" }]));
    rest.prompt(&session, &prompt).await;
    daemon.attach(&session, Some(0)).await.cli_line("assistant").await;

    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    let new = json!({ "cwd": daemon.work_dir("c") });
    let message = json!({ "text": "one more" });
    for (path, body) in [
        ("/v1/sessions".to_owned(), new),
        (format!("/v1/sessions/{session}/messages"), message),
        (format!("/v1/sessions/{idle}/fork"), json!({})),
        ("/v1/daemon/restart".to_owned(), json!({})),
    ] {
        let answer = rest
            .builder(Method::POST, &path)
            .json(&body)
            .send()
            .await
            .unwrap();
        let after = answer
            .headers()
            .get(header::RETRY_AFTER)
            .map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(
            (answer.status().as_u16(), after.as_deref()),
            (503, Some("2")),
            "{path}"
        );
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["code"], "shutting_down", "{problem}");
        assert_eq!(problem["retryable"], true);
    }
    let path = format!("/v1/sessions/{session}/ws");
    let refused = Ws::try_connect(daemon.url(), &path, &["trunkline.v1"], Some(daemon.token())).await;
    assert!(
        refused.is_err(),
        "no client is taken that would have to go at once"
    );
    // A request that changes nothing is answered. The session that does nothing is stopped by now, or soon; the other
    // goes on.
    rest.in_state(&idle, &["stopped"]).await;
    assert_eq!(rest.session(&session).await["state"], "busy");

    std::fs::write(&gate, "").unwrap();
    assert_eq!(daemon.ended().code(), Some(0));
    let records = journal::records(&daemon, &session);
    assert_eq!(
        journal::cli_lines(&records, "result").len(),
        1,
        "the turn came to its end"
    );
    daemon.start().await;
    let view = daemon.rest().session(&session).await;
    assert_eq!(
        (&view["state"], &view["turns"]),
        (&json!("stopped"), &json!(1)),
        "{view:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_waits_for_a_person_holds_nothing_up() {
    let mut daemon = quick()
        .env("TRUNKLINE_STOP_FINISH_TURNS_MS", "300000")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "400000")
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let asks = json!([{ "ask": { "tool": "Bash", "input": { "command": "ls" } } }]);
    rest.prompt(&session, &fake_prompt(&asks)).await;
    rest.pending_approval(&session).await;
    assert_eq!(daemon.stop().code(), Some(0));
}

/// A daemon that waits for a turn without an end, whose CLI listens to nothing.
async fn waits_for_a_deaf_turn() -> (TestDaemon, String) {
    let daemon = TestDaemon::with_fake()
        .fake(json!({ "term": { "ignore": true } }))
        .env("TRUNKLINE_STOP_FINISH_TURNS_MS", "300000")
        .env("TRUNKLINE_STOP_TERM_GRACE_MS", "300000")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "900000")
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.prompt(
        &session,
        &fake_prompt(&json!([{ "text": "begun" }, { "silent": 1 }])),
    )
    .await;
    daemon.attach(&session, Some(0)).await.cli_line("assistant").await;
    daemon.signal(Signal::SIGTERM);
    ending(&daemon).await;
    assert_eq!(
        rest.session(&session).await["state"],
        "busy",
        "its turn is waited for"
    );
    (daemon, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_waits_for_no_turn_and_gives_little_time() {
    let (mut daemon, session) = waits_for_a_deaf_turn().await;
    daemon.signal(Signal::SIGINT);
    assert_eq!(daemon.ended().code(), Some(0), "all has ended, so it is clean");
    let records = journal::records(&daemon, &session);
    let exit = journal::own(&records, "run_exited")[0];
    assert_eq!(exit["killed"], true, "{exit}");
    let names: Vec<_> = exit["stop_steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["step"])
        .collect();
    assert_eq!(names, ["sigterm", "sigkill", "exited"]);
    assert_eq!(
        journal::own(&records, "stop_requested").len(),
        1,
        "it is one stop"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_signal_waits_for_nothing_and_the_keeper_ends_by_itself() {
    let (mut daemon, session) = waits_for_a_deaf_turn().await;
    // A keeper that cannot do its work for a while, so that the daemon has something to wait for.
    let held = Held::start(keeper_of(&daemon));
    daemon.signal(Signal::SIGINT);
    wait_until("the keeper is told", PATIENCE, || {
        daemon.log().contains("the keeper is told to stop")
    })
    .await;
    daemon.signal(Signal::SIGTERM);
    let status = daemon.ended();
    drop(held);
    assert_eq!(status.code(), Some(8), "something was left");
    wait_until("the keeper ended", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
    daemon.start().await;
    let view = daemon.rest().session(&session).await;
    assert_eq!(view["state"], "stopped", "{view:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_at_the_deadline_is_said_by_the_exit_code() {
    let mut daemon = quick()
        .fake(json!({ "term": { "ignore": true }, "eof": { "ignore": true } }))
        .env("TRUNKLINE_STOP_DRAIN_MS", "100")
        .env("TRUNKLINE_STOP_SHUTDOWN_DEADLINE_MS", "1700")
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let held = Held::start(keeper_of(&daemon));
    let status = daemon.stop();
    drop(held);
    assert_eq!(status.code(), Some(8));
    wait_until("the keeper ended", PATIENCE, || {
        daemon.session_processes().is_empty()
    })
    .await;
    daemon.start().await;
    assert_eq!(daemon.rest().session(&session).await["state"], "stopped");
}

/// A process that is kept from doing anything, also when the daemon has it go on.
struct Held {
    pid: i32,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    fn start(pid: i32) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        proc::signal(pid, Signal::SIGSTOP);
        let thread = std::thread::spawn(move || {
            holds_within(PATIENCE, || {
                proc::signal(pid, Signal::SIGSTOP);
                ended.load(Ordering::Relaxed)
            });
        });
        Self {
            pid,
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        proc::signal(self.pid, Signal::SIGCONT);
    }
}

/// The keeper of the one session.
fn keeper_of(daemon: &TestDaemon) -> i32 {
    let processes = daemon.session_processes();
    let keeper = processes
        .iter()
        .find(|it| it.command.ends_with("trunkline keeper"));
    keeper.unwrap_or_else(|| panic!("no keeper: {processes:#?}")).pid
}
