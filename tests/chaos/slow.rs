//! Owns the start of a daemon that gets little time, with many sessions: it ends none of their processes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    chance::Chance,
    daemon::TestDaemon,
    proc,
    rest::Rest,
    wait::{PATIENCE, pass, wait_for},
};

const SESSIONS: usize = 200;
/// How often the daemon dies.
const DEATHS: usize = 3;
/// Threads that take the processors' time meanwhile.
const LOAD: usize = 8;
/// Longer than older keepers wait for a hello.
const PAUSE: Duration = Duration::from_millis(6_500);

/// Threads that do nothing, as fast as they can.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..LOAD {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn all(rest: &Rest) -> BTreeMap<String, Value> {
    let list = rest.get("/v1/sessions?limit=500").await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|view| (view["id"].as_str().unwrap().to_owned(), view.clone()))
        .collect()
}

/// The pids of the processes, once all sessions are at rest.
async fn at_rest(rest: &Rest) -> BTreeMap<String, i64> {
    wait_for("all sessions are idle", 5 * PATIENCE, async || {
        let views = all(rest).await;
        let are_idle = views
            .values()
            .all(|view| view["state"] == "idle" && view["reason"].is_null());
        let pids = views
            .into_iter()
            .map(|(id, view)| Some((id, view["cli"]["pid"].as_i64()?)));
        if are_idle { pids.collect() } else { None }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_of_slow_starts_ends_no_process() {
    let mut chance = Chance::new();
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_LIMITS_LIVE_PROCESSES", "1000")
        .env("TRUNKLINE_LIMITS_LIVE_PER_CWD", "0")
        .env("TRUNKLINE_LIMITS_QUEUED_STARTS", "500")
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    for _ in 0..SESSIONS {
        rest.create(json!({ "cwd": cwd })).await;
    }
    let before = at_rest(&rest).await;
    assert_eq!(before.len(), SESSIONS);
    for _ in 0..DEATHS {
        daemon.kill();
        let load = Load::start();
        daemon.launch();
        pass(chance.moment(200)).await;
        daemon.signal(Signal::SIGSTOP);
        pass(PAUSE).await;
        daemon.signal(Signal::SIGCONT);
        daemon.ready().await;
        drop(load);
        for (id, pid) in &before {
            let pid = i32::try_from(*pid).unwrap();
            assert!(proc::is_alive(pid), "the process of {id} was ended");
        }
        assert_eq!(at_rest(&daemon.rest()).await, before);
    }
}
