//! Owns `restart` and `upgrade`: the daemon becomes another program in its place, and sessions, clients and connections do not
//! notice more than that they have to come back.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    restart::{
        follower::{Beacon, Follower},
        journal,
    },
    support::{
        daemon::TestDaemon,
        proc,
        programs::{clean_env, fake_prompt, trunkline},
        wait::{PATIENCE, wait_until},
    },
};

/// Runs a command of the command line, of this program or of another.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn command(daemon: &TestDaemon, program: &Path, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .arg("--data-dir")
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The command went well; what it printed.
#[track_caller]
fn good(output: &Output) -> String {
    let shown = format!("{output:?}");
    assert_eq!(output.status.code(), Some(0), "{shown}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn started_at(daemon: &TestDaemon) -> Value {
    daemon.rest().get("/readyz").await.expect(200)["started_at"].take()
}

fn program_of(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap()
}

/// Asks for the health again and again, each time over a new connection. No connection may be refused.
struct Knocker {
    end: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Knocker {
    fn start(url: &str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            let mut answers = 0;
            while !ended.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(&address)
                    .unwrap_or_else(|error| panic!("no connection is refused: {error}"));
                let asked = stream
                    .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let mut answer = String::new();
                // One that is closed at the end of the old daemon got no answer, and can ask again.
                if asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
                    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                    answers += 1;
                }
            }
            answers
        });
        Self { end, thread }
    }

    fn answers(self) -> u32 {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_sessions_in_mid_turn_and_refuses_no_connection() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let idle = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    rest.ask(&idle, "hello").await;
    let cli = rest.session(&session).await["cli"]["pid"].clone();
    let (before, pid) = (started_at(&daemon).await, daemon.pid());
    let mut client = daemon.attach(&session, None).await;
    let beacon = Beacon::new(&daemon);
    let mut follower = Follower::start(&beacon, &session, None);
    rest.prompt(&session, &fake_prompt(&json!([{ "flood": 3000, "rate": 1500 }])))
        .await;
    follower.more(200, Duration::from_secs(10)).await;
    let knocker = Knocker::start(daemon.url());

    let told = good(&command(&daemon, &trunkline(), &["restart"]));
    assert!(told.contains("live sessions: 2"), "{told}");
    let answers = knocker.answers();
    assert!(answers > 1, "{answers}");
    assert_eq!(daemon.pid(), pid);
    assert!(proc::is_alive(pid), "the same process");
    assert_ne!(started_at(&daemon).await, before, "and another daemon");
    client
        .until("the word of the end", |frame| {
            frame["type"] == "trunkline.shutdown"
        })
        .await;
    assert_eq!(client.close_frame().await.0, 1001);

    let view = rest.in_state(&session, &["idle"]).await;
    assert_eq!(
        (&view["cli"]["pid"], &view["turns"]),
        (&cli, &json!(1)),
        "{view:#}"
    );
    let records = journal::parse(&follower.has_all_of(&daemon, &session).await);
    assert_eq!(journal::cli_lines(&records, "stream_event").len(), 3000);
    assert_eq!(journal::own(&records, "stop_requested").len(), 0);
    assert_eq!(journal::own(&records, "run_started").len(), 1);
    rest.ask(&idle, "still there?").await;

    // And once more: what was handed over is handed on.
    good(&command(&daemon, &trunkline(), &["restart", "--json"]));
    rest.ask(&session, "and again?").await;
    // The keepers are children of a program that did not start them. Each one is reaped all the same when it ends.
    for session in [&session, &idle] {
        rest.lifecycle(session, "stop", json!({})).await.expect(200);
    }
    wait_until("no keeper waits to be reaped", PATIENCE, || {
        proc::all().iter().all(|it| it.parent != pid)
    })
    .await;
    let other = command(&daemon, &trunkline(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(
        other.status.code(),
        Some(7),
        "the data directory was never let go: {other:?}"
    );
}

/// An executable file.
fn program(daemon: &TestDaemon, name: &str, text: &str) -> String {
    let path = daemon.home().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_runs_the_new_program_and_one_that_would_not_start_is_refused() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_CONFIG", config.path())
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let cli = rest.session(&session).await["cli"]["pid"].clone();
    let before = started_at(&daemon).await;
    let old = program_of(daemon.pid());

    let says = |fitness: Value| format!("#!/bin/sh\necho '{fitness}'\n");
    let plain = daemon.home().join("plain");
    fs::write(&plain, "not to be run").unwrap();
    let refusals = [
        (plain.to_str().unwrap().to_owned(), "cannot be run"),
        (
            daemon.home().join("none").to_str().unwrap().to_owned(),
            "cannot be run",
        ),
        (
            program(&daemon, "broken", "#!/bin/sh\necho libc is too old >&2\nexit 3\n"),
            "libc is too old",
        ),
        (
            program(&daemon, "other", "#!/bin/sh\necho hello\n"),
            "is not trunkline",
        ),
        (
            program(
                &daemon,
                "old",
                &says(json!({"trunkline": "0.0.1", "link": [1, 2], "schema": 1})),
            ),
            "trunkline 0.0.1 knows the database up to form 1",
        ),
        (
            program(
                &daemon,
                "far",
                &says(json!({"trunkline": "9.0.0", "link": [8, 9], "schema": 1000})),
            ),
            "trunkline 9.0.0 could not talk to 1 of the processes",
        ),
    ];
    for (program, why) in &refusals {
        let output = command(&daemon, &trunkline(), &["upgrade", program]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{program}: {told}");
        assert!(told.contains(why), "{program}: {told}");
    }
    // The same program, with a configuration that it would not start with.
    fs::write(config.path(), "[stop]\nfinish_turns_ms = \"soon\"\n").unwrap();
    let output = command(&daemon, &trunkline(), &["restart"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(5) && told.contains("stop.finish_turns_ms"),
        "{told}"
    );
    fs::write(config.path(), "").unwrap();
    assert_eq!(started_at(&daemon).await, before, "it runs on");
    assert_eq!(program_of(daemon.pid()), old);
    rest.ask(&session, "nothing happened?").await;

    let new = daemon.home().join("trunkline-next");
    fs::copy(trunkline(), &new).unwrap();
    // After installing a new version, its user runs `upgrade` of it.
    let told = good(&command(&daemon, &new, &["upgrade"]));
    assert!(told.contains(new.to_str().unwrap()), "{told}");
    assert_ne!(started_at(&daemon).await, before);
    assert_eq!(program_of(daemon.pid()), new);
    let view = rest.session(&session).await;
    assert_eq!(
        (&view["state"], &view["cli"]["pid"]),
        (&json!("idle"), &cli),
        "{view:#}"
    );
    rest.ask(&session, "who are you now?").await;
    // New keepers are of the new program.
    let next = rest.create_ready(json!({ "cwd": daemon.work_dir("b") })).await;
    rest.ask(&next, "hello").await;
    // A restart takes what is at the path of the program that runs.
    good(&command(&daemon, &trunkline(), &["restart"]));
    assert_eq!(program_of(daemon.pid()), new);
}
