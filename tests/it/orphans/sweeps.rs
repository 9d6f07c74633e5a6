//! Owns what waits for the sweep after a keeper that was killed.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::fake_claude,
    rest::Rest,
    wait::{PATIENCE, wait_until},
};

async fn keeper_of(rest: &Rest, session: &str) -> i32 {
    let view = rest.session(session).await;
    let cli = i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap();
    proc::read(cli).unwrap().parent
}

/// Processes that belong to a run, one after the other: its sweep has something to do as long as they come.
struct Brood {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Child>>,
}

impl Brood {
    /// How many there are at most.
    const MOST: usize = 400;

    #[expect(
        clippy::disallowed_methods,
        reason = "they stand for tools that fork and fork"
    )]
    fn start(run: &str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let (ended, run) = (Arc::clone(&end), run.to_owned());
        let thread = std::thread::spawn(move || {
            let mut children = Vec::new();
            while children.len() < Self::MOST && !ended.load(Ordering::Relaxed) {
                let child = Command::new("sleep")
                    .arg("90")
                    .env_clear()
                    .env("TRUNKLINE_RUN", &run)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn();
                children.push(child.unwrap());
            }
            children
        });
        Self { end, thread }
    }

    /// The pids of those that somebody killed; ends the others.
    fn killed(self) -> BTreeSet<u32> {
        self.end.store(true, Ordering::Relaxed);
        let mut killed = BTreeSet::new();
        for mut child in self.thread.join().unwrap() {
            if child.try_wait().unwrap().is_some() {
                killed.insert(child.id());
            } else {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        killed
    }
}

/// A CLI that writes down at its start which processes there are of the run that a file names.
fn witness(dir: &Path) -> PathBuf {
    let program = dir.join("claude");
    let text = format!(
        "#!/bin/sh\n\
         if [ -f \"$HOME/old-run\" ] && [ \"$1\" != --version ]; then\n\
           grep -als \"TRUNKLINE_RUN=$(cat \"$HOME/old-run\")\" /proc/[0-9]*/environ > \"$HOME/seen.new\"\n\
           mv \"$HOME/seen.new\" \"$HOME/seen\"\n\
         fi\n\
         exec {} \"$@\"\n",
        fake_claude().display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The leftovers of a lost run are gone before the next one begins: two at work on one conversation would spoil it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_waits_for_the_sweep_of_what_a_killed_keeper_left() {
    let programs = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .claude(witness(programs.path()))
        .allow_errors()
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&session, "hello").await;
    let runs = rest
        .get(&format!("/v1/sessions/{session}/runs"))
        .await
        .expect(200);
    let run = runs["items"][0]["id"].as_str().unwrap();
    fs::write(daemon.home().join("old-run"), run).unwrap();

    let brood = Brood::start(run);
    proc::signal(keeper_of(&rest, &session).await, Signal::SIGKILL);
    rest.in_state(&session, &["failed"]).await;
    rest.lifecycle(&session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    wait_until("the sweep is over", PATIENCE, || {
        daemon.log().contains("processes of a lost run were killed")
    })
    .await;
    let seen = fs::read_to_string(daemon.home().join("seen")).unwrap();
    let killed = brood.killed();
    assert!(!killed.is_empty(), "the sweep had nothing to do");
    // Those that came after the sweep live; one that was there and was still to be killed shows that it was not over.
    let early: Vec<u32> = seen
        .lines()
        .map(|path| path.split('/').nth(2).unwrap().parse().unwrap())
        .filter(|pid| killed.contains(pid))
        .collect();
    assert!(early.is_empty(), "the next process began beside {early:?}");
}
