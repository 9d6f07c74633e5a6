//! Owns the daemon as process 1, as in a container: signals work, what loses its parent is reaped, and what is the daemon's own is
//! left to the daemon.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    service::manager::{Manager, has},
    support::{
        proc::{self, Process},
        programs::{clean_env, fake_claude, fake_prompt, trunkline},
        rest::Rest,
        wait::{PATIENCE, holds_within, wait_for, wait_until},
    },
};

/// A daemon that is process 1 of a PID namespace.
struct Container {
    root: TempDir,
    unshare: Child,
}

impl Container {
    /// Starts it and waits until it answers.
    #[expect(clippy::disallowed_methods, reason = "starts the program under test")]
    async fn start(notify: &Path) -> (Self, Rest) {
        let root = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        let home = root.path().join("home");
        fs::create_dir(&home).unwrap();
        let mut command = Command::new("unshare");
        if !nix::unistd::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let unshare = command
            .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
            .arg(trunkline())
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(root.path().join("data"))
            .arg("--claude-bin")
            .arg(fake_claude())
            .current_dir(root.path())
            .env_clear()
            .envs(clean_env(&home, "http://127.0.0.1:9"))
            .env("NOTIFY_SOCKET", notify)
            // Such as a container engine passes on to process 1.
            .env("WATCHDOG_USEC", "1000000")
            .env("WATCHDOG_PID", "1")
            // The test looks at the leftovers of a death.
            .env("TRUNKLINE_RESTART_MAX_RESTARTS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(root.path().join("log")).unwrap())
            .spawn()
            .expect("unshare is needed: Debian has it in the package util-linux");
        let mut container = Self { root, unshare };
        let rest = wait_for("the daemon answers", PATIENCE, async || container.probe()).await;
        (container, rest)
    }

    fn probe(&mut self) -> Option<Rest> {
        if let Some(status) = self.unshare.try_wait().unwrap() {
            panic!("it ended at its start: {status}\n{}", self.log());
        }
        let data = self.root.path().join("data");
        let facts: Value = serde_json::from_slice(&fs::read(data.join("daemon.json")).ok()?).ok()?;
        let token = fs::read_to_string(data.join("token")).ok()?;
        Some(Rest::new(facts["url"].as_str()?, Some(token.trim())))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    fn work_dir(&self, name: &str) -> PathBuf {
        let dir = self.root.path().join(name);
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// Process 1, by the id that it has outside.
    fn init(&self) -> i32 {
        let unshare = i32::try_from(self.unshare.id()).unwrap();
        children(unshare)[0].pid
    }

    /// The daemon, likewise. Only it is called `serve`.
    fn daemon(&self) -> i32 {
        let children = children(self.init());
        let serving = children
            .iter()
            .find(|process| process.command.contains(" serve "));
        serving
            .unwrap_or_else(|| panic!("no daemon among {children:?}"))
            .pid
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = holds_within(Duration::from_secs(30), || {
            status = self.unshare.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "no end\n{}", self.log());
        status.unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // All in it ends with it.
        self.unshare.kill().ok();
        self.unshare.wait().ok();
    }
}

/// Children of a process, zombies included.
fn children(parent: i32) -> Vec<Process> {
    let mut all = proc::all();
    all.retain(|process| process.parent == parent);
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_1_reaps_what_lost_its_parent_and_nothing_of_the_daemons() {
    const ORPHANS: usize = 20;
    let mut manager = Manager::new();
    let (mut container, rest) = Container::start(&manager.socket).await;
    let told = manager.until("READY=1").await;
    let ready = told.last().unwrap();
    assert!(
        !ready.contains("MAINPID"),
        "it would mean another process outside: {ready}"
    );
    manager.until("WATCHDOG=1").await;
    let (init, daemon) = (container.init(), container.daemon());

    // Orphans of a session whose keeper is killed become children of process 1.
    let session = rest.create_ready(json!({ "cwd": container.work_dir("a") })).await;
    let orphan =
        json!({ "child": { "double_fork": true, "setsid": true, "clear_env": true, "marker": "orphan" } });
    rest.ask(&session, &fake_prompt(&json!(vec![orphan; ORPHANS])))
        .await;
    let orphans = || {
        let mut all = proc::with_env("FAKE_CHILD_MARKER", "orphan");
        all.retain(|process| process.command.contains("python3"));
        all
    };
    let keeper = children(daemon)
        .into_iter()
        .find(|process| process.state != 'Z')
        .unwrap();
    // The process between an orphan and its keeper may be about to end.
    let of_the_keeper: Vec<Process> = wait_for("all are the keeper's", PATIENCE, async || {
        let mut all = orphans();
        all.retain(|process| process.parent == keeper.pid);
        (all.len() == ORPHANS).then_some(all)
    })
    .await;
    proc::signal(keeper.pid, Signal::SIGKILL);
    let pids: Vec<i32> = of_the_keeper.iter().map(|process| process.pid).collect();
    wait_until("they lost their parent", PATIENCE, || {
        pids.iter()
            .all(|pid| proc::read(*pid).is_none_or(|process| process.parent == init))
    })
    .await;
    for pid in &pids {
        if proc::read(*pid).is_some_and(|process| process.parent == init) {
            proc::signal(*pid, Signal::SIGKILL);
        }
    }
    wait_until("they are reaped", PATIENCE, || {
        pids.iter().all(|pid| proc::read(*pid).is_none())
    })
    .await;
    // The CLI, too, which died with its keeper.
    wait_until("nothing is left but the daemon", PATIENCE, || {
        children(init).iter().all(|process| process.pid == daemon)
    })
    .await;

    // The daemon hears of the ends of its own children.
    wait_until("the keeper is reaped", PATIENCE, || {
        proc::read(keeper.pid).is_none()
    })
    .await;
    let other = rest.create_ready(json!({ "cwd": container.work_dir("b") })).await;
    rest.ask(&other, "hello").await;
    rest.lifecycle(&other, "stop", json!({})).await.expect(200);
    wait_until("no child is left", PATIENCE, || children(daemon).is_empty()).await;

    // Process 1 has no default actions for signals, and yet it ends, in order.
    let last = rest.create_ready(json!({ "cwd": container.work_dir("c") })).await;
    proc::signal(init, Signal::SIGTERM);
    assert_eq!(container.end().code(), Some(0), "{}", container.log());
    let told = manager.until("STOPPING=1").await;
    assert!(!told.iter().any(|message| has(message, "READY=1")));
    let journal = container.root.path().join("data/sessions").join(last);
    let records: String = fs::read_dir(journal)
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .collect();
    assert!(
        records.contains("\"run_exited\""),
        "the session was stopped in order"
    );
    assert!(!container.log().contains("panicked"), "{}", container.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_ends_with_its_daemon_and_says_how() {
    let manager = Manager::new();
    let (mut container, rest) = Container::start(&manager.socket).await;
    rest.create_ready(json!({ "cwd": container.work_dir("a") })).await;
    let inside = proc::below(container.root.path());
    proc::signal(container.daemon(), Signal::SIGKILL);
    let status = container.end();
    assert_eq!(status.code(), Some(128 + 9), "{:?}", status.signal());
    wait_until("nothing is left", PATIENCE, || {
        inside.iter().all(|process| !proc::is_alive(process.pid))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_below_process_1_starts_again_in_its_place() {
    let mut manager = Manager::new();
    let (mut container, rest) = Container::start(&manager.socket).await;
    manager.until("READY=1").await;
    let (init, daemon) = (container.init(), container.daemon());
    let session = rest.create_ready(json!({ "cwd": container.work_dir("a") })).await;
    rest.post("/v1/daemon/restart", json!({})).await.expect(202);
    let told = manager.until("READY=1").await;
    assert!(
        told.iter().any(|message| message.starts_with("RELOADING=1\n")),
        "{told:?}"
    );
    assert!(!told.last().unwrap().contains("MAINPID"), "{told:?}");
    // The watchdog goes on: it means process 1, and so the daemon.
    manager.until("WATCHDOG=1").await;
    assert_eq!((container.init(), container.daemon()), (init, daemon));
    rest.ask(&session, "still there?").await;
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    wait_until("the keeper is reaped", PATIENCE, || children(daemon).is_empty()).await;
    proc::signal(init, Signal::SIGTERM);
    assert_eq!(container.end().code(), Some(0), "{}", container.log());
}
