//! Owns the acts of a round beside its faults: the database is lost, journals are compacted, options are changed.

use std::{
    fs, io,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout_at};

use super::World;
use crate::{
    archive, marks, people,
    plan::Collecting,
    plant::Damage,
    support::wait::{PATIENCE, pass, wait_for},
};

/// How long a look at all journals may take, also of a daemon that is frozen meanwhile.
const COLLECT_LIMIT: Duration = Duration::from_secs(20);
/// How long those are waited for who are asked to park their sessions.
const PARK_LIMIT: Duration = Duration::from_secs(3);
/// All that SQLite keeps of a database.
const DATABASE_FILES: [&str; 3] = ["", "-wal", "-shm"];

impl World {
    /// The daemon dies, and its database is gone when the next one starts.
    pub(super) async fn lose_database(&mut self, down_ms: u64, dies_ms: Option<u64>) {
        self.daemon.kill();
        self.count("kill daemon");
        pass(Duration::from_millis(down_ms)).await;
        let database = self.daemon.database().display().to_string();
        for side in DATABASE_FILES {
            match fs::remove_file(format!("{database}{side}")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{database}{side}: {error}"),
                _ => {}
            }
        }
        self.losses += 1;
        self.damage(Damage::with_database);
        if let Some(ms) = dies_ms {
            self.daemon.launch();
            pass(Duration::from_millis(ms)).await;
            self.daemon.kill();
            self.count("kill daemon");
        }
        self.launch().await;
    }

    pub(super) async fn collect(&mut self, parked: &[usize], how: Collecting, dies_ms: Option<u64>) {
        let mut parking = JoinSet::new();
        for place in parked {
            if let Some(id) = self.at(*place).map(|session| session.id.clone()) {
                let address = self.address.subscribe();
                parking.spawn(async move { people::ask_for(&address, &id, "park").await });
            }
        }
        let until = tokio::time::Instant::now() + PARK_LIMIT;
        while let Ok(Some(asked)) = timeout_at(until, parking.join_next()).await {
            asked.unwrap();
        }
        archive::keep(&self.daemon.data_dir().join("sessions"), &self.archive());
        match how {
            Collecting::Request => self.request_collection(dies_ms).await,
            Collecting::Program => self.run_collection(dies_ms).await,
        }
        self.damage(Damage::with_collection);
    }

    /// Does the planted damage to the folder of the first session where it can be done.
    fn damage(&mut self, damage: impl Fn(Damage, &Path) -> bool) {
        let Some(planted) = self.planted else { return };
        let sessions = self.daemon.data_dir().join("sessions");
        let done = self
            .sessions
            .iter()
            .find(|session| damage(planted, &sessions.join(&session.id)));
        if let Some(session) = done {
            self.story.tell(format!("{planted:?} of {}", session.id));
            self.planted = None;
        }
    }

    async fn request_collection(&mut self, dies_ms: Option<u64>) {
        let request = self.api().builder(Method::POST, "/v1/daemon/gc");
        let request = request.json(&json!({})).timeout(COLLECT_LIMIT).send();
        if let Some(ms) = dies_ms {
            let mut asking = JoinSet::new();
            asking.spawn(request);
            self.count("kill daemon");
            self.kill_daemon(ms, None).await;
            return;
        }
        match request.await {
            Ok(reply) => {
                let status = reply.status().as_u16();
                let told: Value = reply.json().await.unwrap_or_default();
                assert!(
                    status == 200 || told["retryable"] == true,
                    "a look at journals gets {status}: {told:#}"
                );
                if status == 200 {
                    self.hear_of_collection(&told);
                }
            }
            Err(error) => self.story.tell(format!("no answer: {error}")),
        }
    }

    async fn run_collection(&mut self, dies_ms: Option<u64>) {
        self.daemon.kill();
        self.count("kill daemon");
        let began = Instant::now();
        let mut command = self.daemon.command("gc");
        // By the true time; the daemon's may be one at which nothing is old.
        command.arg("--json").env_remove("LD_PRELOAD");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        if let Some(ms) = dies_ms {
            pass(Duration::from_millis(ms)).await;
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            wait_for("the end of gc", PATIENCE, async || child.try_wait().unwrap()).await;
            let (is_clean, told) = outcome(child);
            assert!(
                is_clean || self.had_no_room(began),
                "gc failed: {told:#}\n{}",
                self.daemon.log()
            );
            if is_clean {
                self.hear_of_collection(&told);
            }
        }
        self.launch().await;
    }

    fn hear_of_collection(&mut self, told: &Value) {
        self.story.tell(format!("journals are looked at: {told}"));
        assert!(
            told["failed"] == 0 || self.had_no_room(Instant::now()),
            "journals could not be compacted: {told:#}\n{}",
            self.daemon.log()
        );
        for what in ["compacted", "removed"] {
            let segments = told[what]["segments"].as_u64().unwrap();
            *self.counts.entry(what).or_default() += segments;
        }
    }

    /// Changes the options of sessions all at once. One whose last change has no answer yet is left alone.
    pub(super) async fn patch(&mut self, marks: &[(usize, String)], dies_ms: Option<u64>) {
        self.hear_of_changes();
        for (place, mark) in marks {
            let Some(id) = self.at(*place).map(|session| session.id.clone()) else {
                continue;
            };
            if !self.patched.insert(id.clone()) {
                continue;
            }
            let (address, mark) = (self.address.subscribe(), mark.clone());
            self.patching.spawn(async move {
                let outcome = marks::patch(address, id.clone(), mark.clone()).await;
                (id, mark, outcome)
            });
        }
        if let Some(ms) = dies_ms {
            self.count("kill daemon");
            pass(Duration::from_millis(ms)).await;
            self.kill_daemon(0, None).await;
        }
    }

    pub(super) fn hear_of_changes(&mut self) {
        while let Some(changed) = self.patching.try_join_next() {
            let (id, mark, outcome) = changed.unwrap();
            self.hear_of_change(&id, mark, outcome);
        }
    }

    pub(super) async fn hear_of_all_changes(&mut self) {
        while let Some(changed) = self.patching.join_next().await {
            let (id, mark, outcome) = changed.unwrap();
            self.hear_of_change(&id, mark, outcome);
        }
    }

    fn hear_of_change(&mut self, id: &str, mark: String, outcome: marks::Outcome) {
        self.patched.remove(id);
        self.story.tell(format!("change {mark} of {id}: {outcome:?}"));
        if outcome == marks::Outcome::Made
            && let Some(planted) = self.planted
            && planted.with_change(&self.daemon.database(), id)
        {
            self.story.tell(format!("{planted:?} of {id}"));
            self.planted = None;
        }
        self.count(match outcome {
            marks::Outcome::Made => "changed",
            marks::Outcome::Refused => "changes refused",
            marks::Outcome::Unknown | marks::Outcome::Late => "changes unheard",
        });
        let session = self.sessions.iter_mut().chain(&mut self.guests);
        let mut session = session.filter(|session| session.id == id);
        session
            .next()
            .expect("it was not deleted")
            .marks
            .push(mark, outcome);
    }
}

fn outcome(child: Child) -> (bool, Value) {
    let output = child.wait_with_output().unwrap();
    let told = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.success(), told)
}
