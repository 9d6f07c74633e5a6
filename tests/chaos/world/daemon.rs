//! Owns the ends and starts of the daemon: killed, told to end, or replaced in its place.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::World;
use crate::{
    client::Address,
    plan::Ending,
    processes,
    support::wait::{PATIENCE, holds_within, pass},
};

/// Between two starts of a daemon that a full disk keeps from starting.
const START_PAUSE: Duration = Duration::from_millis(200);
/// How long what was stopped may be seen after a clean end of the daemon.
const VANISHING: Duration = Duration::from_secs(2);
/// How long the answer to a wish for a restart may take: the program is asked first, and the daemon may be frozen.
const RESTART_LIMIT: Duration = Duration::from_secs(20);
/// The exit code of a daemon that left something behind.
const NOT_CLEAN: i32 = 8;

/// The configuration of the next daemon.
pub(super) fn config(ending: Ending) -> String {
    format!("[stop]\non_shutdown = \"{}\"\n", ending.as_str())
}

impl World {
    pub(super) async fn kill_daemon(&mut self, down_ms: u64, dies_again_ms: Option<u64>) {
        self.daemon.kill();
        pass(Duration::from_millis(down_ms)).await;
        if let Some(ms) = dies_again_ms {
            self.daemon.launch();
            pass(Duration::from_millis(ms)).await;
            self.daemon.kill();
            self.count("kill daemon");
        }
        self.launch().await;
    }

    pub(super) async fn end_daemon(
        &mut self,
        hurry_ms: Option<u64>,
        dies_ms: Option<u64>,
        down_ms: u64,
        then: Ending,
    ) {
        let ending = self.ending;
        self.configure(then);
        if ending != Some(Ending::Detach) {
            self.ends += 1;
        }
        self.story.tell(format!("it is to {ending:?} its sessions"));
        self.daemon.signal(Signal::SIGTERM);
        if let Some(ms) = hurry_ms {
            pass(Duration::from_millis(ms)).await;
            self.daemon.signal(Signal::SIGTERM);
        }
        if let Some(ms) = dies_ms {
            pass(Duration::from_millis(ms)).await;
            self.daemon.kill();
            self.count("kill daemon");
        } else {
            let status = self.daemon.ended();
            let is_excused = self.had_no_room(Instant::now()) || self.was_frozen();
            let is_clean = status.code() == Some(0);
            assert!(
                is_clean || (is_excused && status.code() == Some(NOT_CLEAN)),
                "a daemon that was told to end ended with {status}\n{}",
                self.daemon.log()
            );
            if is_clean && ending == Some(Ending::Stop) {
                let mut left = Vec::new();
                holds_within(VANISHING, || {
                    left = processes::left();
                    left.is_empty()
                });
                assert!(left.is_empty(), "after a clean end there is left: {left:#?}");
            }
        }
        pass(Duration::from_millis(down_ms)).await;
        self.launch().await;
    }

    pub(super) async fn restart_daemon(&mut self, dies_ms: Option<u64>, then: Ending) {
        let (pid, before) = (self.daemon.pid(), self.started_at());
        self.configure(then);
        let request = self.api().builder(Method::POST, "/v1/daemon/restart");
        let request = request.json(&json!({})).timeout(RESTART_LIMIT).send();
        if let Some(ms) = dies_ms {
            let mut asking = JoinSet::new();
            asking.spawn(request);
            pass(Duration::from_millis(ms)).await;
            self.daemon.kill();
            self.count("kill daemon");
            self.launch().await;
            return;
        }
        // Also an answer that gets lost may be one that it has begun.
        self.ending = None;
        let (status, reply) = match request.await {
            Ok(reply) => (
                reply.status().as_u16(),
                reply.json::<Value>().await.unwrap_or_default(),
            ),
            Err(error) => {
                self.story.tell(format!("no answer: {error}"));
                return;
            }
        };
        assert!(
            status == 202 || self.had_no_room(Instant::now()),
            "a restart gets {status}: {reply:#}"
        );
        if status != 202 {
            return;
        }
        let until = Instant::now() + PATIENCE;
        while self.started_at() == before {
            let asked = Instant::now();
            assert!(
                asked < until,
                "there is no other daemon after {PATIENCE:?}\n{}",
                self.daemon.log()
            );
            if let Err(status) = self.daemon.ready_or_ended().await {
                assert!(
                    self.had_no_room(asked),
                    "the daemon ended over a restart: {status}\n{}",
                    self.daemon.log()
                );
                self.launch().await;
                return;
            }
            pass(Duration::from_millis(5)).await;
        }
        assert_eq!(self.daemon.pid(), pid);
        self.ending = Some(then);
        self.story.tell("another daemon answers in its place");
        self.address.send_replace(Address::of(&self.daemon, self.losses));
    }

    /// Starts daemons until one answers.
    pub(super) async fn launch(&mut self) {
        loop {
            let launched = Instant::now();
            self.daemon.launch();
            match self.daemon.ready_or_ended().await {
                Ok(()) => break,
                Err(status) => {
                    assert!(
                        self.had_no_room(launched),
                        "the daemon ended at its start: {status}\n{}",
                        self.daemon.log()
                    );
                    self.story
                        .tell(format!("the daemon cannot start on a full disk: {status}"));
                }
            }
            pass(START_PAUSE).await;
        }
        self.story.tell("the daemon answers");
        self.ending = Some(self.configured());
        self.address.send_replace(Address::of(&self.daemon, self.losses));
    }

    pub(super) fn had_no_room(&self, at: Instant) -> bool {
        self.disk_was_full.is_some_and(|until| at <= until)
    }

    fn was_frozen(&self) -> bool {
        // A stop that waited for it may have just timed out.
        self.frozen_until
            .is_some_and(|until| until.elapsed() < Duration::from_secs(20))
    }

    fn configure(&self, then: Ending) {
        fs::write(self.dir.path().join("config.toml"), config(then)).unwrap();
    }

    fn configured(&self) -> Ending {
        let text = fs::read_to_string(self.dir.path().join("config.toml")).unwrap();
        if text == config(Ending::Stop) {
            Ending::Stop
        } else {
            Ending::Detach
        }
    }

    /// When the daemon of the moment says that it got ready.
    fn started_at(&self) -> Option<String> {
        let text = fs::read(self.daemon.data_dir().join("daemon.json")).ok()?;
        let facts: Value = serde_json::from_slice(&text).ok()?;
        facts["started_at"].as_str().map(ToOwned::to_owned)
    }
}
