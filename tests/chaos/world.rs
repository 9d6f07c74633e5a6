//! Owns the world of the test: the daemon, its sessions with their clients, what is done to them, and when it is looked at.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    checks::{self, Killed},
    client::{Address, Client},
    journal::Journal,
    people::{self, Sent},
    plan::{FAKES, Fault, Round, SESSIONS},
    processes,
    story::Story,
    support::{
        daemon::TestDaemon,
        model_api::ModelApi,
        proc,
        programs::{fake_claude, real_claude},
        rest::Rest,
        wait::{holds_within, pass, wait_for},
    },
};

/// The disk of the data directory.
const DISK_BYTES: u64 = 192 << 20;
/// Small, so that journals have several files.
const SEGMENT_BYTES: &str = "262144";
/// How long it may take until everything is at rest again.
const REST_LIMIT: Duration = Duration::from_secs(90);
/// How long the last words of a round may take.
const SENDERS_LIMIT: Duration = Duration::from_secs(60);
/// Between two starts of a daemon that a full disk keeps from starting.
const START_PAUSE: Duration = Duration::from_millis(200);
/// A client that comes back after so many records.
const RESTLESS: usize = 300;

struct Session {
    id: String,
    clients: Vec<Client>,
    sent: Vec<Sent>,
    cost: f64,
    killed: Killed,
}

pub(crate) struct World {
    daemon: TestDaemon,
    _api: ModelApi,
    /// The agent, the clock and the sockets.
    dir: TempDir,
    address: watch::Sender<Address>,
    sessions: Vec<Session>,
    people: JoinSet<()>,
    senders: JoinSet<Sent>,
    /// Faults that end by themselves.
    undoing: JoinSet<()>,
    disk_was_full: Option<Instant>,
    made: usize,
    story: Story,
    /// What was done so far.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl World {
    pub(crate) async fn start(story: &Story) -> Self {
        let api = ModelApi::start();
        let dir = tempfile::Builder::new().prefix("tl-chaos-").tempdir().unwrap();
        let clock = dir.path().join("clock");
        fs::write(&clock, "+0").unwrap();
        let daemon = TestDaemon::with_real(&api)
            .claude(agents(dir.path()))
            .data_disk(DISK_BYTES)
            .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
            .env("TRUNKLINE_SESSIONS_SEGMENT_BYTES", SEGMENT_BYTES)
            .env("TRUNKLINE_DATA_RUNTIME_DIR", dir.path().join("run"))
            .env("LD_PRELOAD", libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("NO_FAKE_STAT", "1")
            .allow_errors()
            .start()
            .await;
        let address = watch::Sender::new(Address::of(&daemon));
        let mut people = JoinSet::new();
        people.spawn(people::decide_all(address.subscribe()));
        let mut world = Self {
            daemon,
            _api: api,
            dir,
            address,
            sessions: Vec::new(),
            people,
            senders: JoinSet::new(),
            undoing: JoinSet::new(),
            disk_was_full: None,
            made: 0,
            story: story.clone(),
            counts: BTreeMap::new(),
        };
        fs::create_dir(world.logs()).unwrap();
        for place in 0..SESSIONS {
            let session = world.make(place).await;
            world.sessions.push(session);
        }
        world
    }

    fn logs(&self) -> PathBuf {
        self.daemon.home().join("logs")
    }

    fn api(&self) -> Rest {
        self.daemon.rest()
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn summary(&self) -> String {
        let counts: Vec<_> = self
            .counts
            .iter()
            .map(|(what, n)| format!("{what} {n}"))
            .collect();
        counts.join(", ")
    }

    async fn make(&mut self, place: usize) -> Session {
        self.made += 1;
        let kind = if place < FAKES { "fake" } else { "real" };
        let cwd = self.daemon.work_dir(&format!("{kind}-{}", self.made));
        let settings =
            json!({ "output_log": self.logs(), "merge": place.is_multiple_of(2), "keeps_answers": true });
        fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
        let body = json!({ "cwd": cwd, "options": { "include_partial_messages": true } });
        let id = self.api().create_ready(body).await;
        self.story
            .tell(format!("session {place} is {id} in {kind}-{}", self.made));
        let mut clients = vec![Client::start(self.address.subscribe(), &id, usize::MAX)];
        if place.is_multiple_of(3) {
            clients.push(Client::start(self.address.subscribe(), &id, RESTLESS));
        }
        self.count("sessions");
        Session {
            id,
            clients,
            sent: Vec::new(),
            cost: 0.0,
            killed: Killed::default(),
        }
    }

    /// Carries out a plan.
    pub(crate) async fn live_through(&mut self, round: &Round) {
        for prompt in &round.prompts {
            let id = self.sessions[prompt.session].id.clone();
            self.senders
                .spawn(people::send(self.address.subscribe(), id, prompt.clone()));
        }
        let began = Instant::now();
        for (at_ms, fault) in &round.faults {
            pass(Duration::from_millis(*at_ms).saturating_sub(began.elapsed())).await;
            self.strike(fault).await;
        }
    }

    async fn strike(&mut self, fault: &Fault) {
        self.story.tell(format!("{fault:?}"));
        match *fault {
            Fault::KillDaemon {
                down_ms,
                dies_again_ms,
            } => self.kill_daemon(down_ms, dies_again_ms).await,
            Fault::FreezeDaemon { ms } => self.freeze(self.daemon.pid(), ms),
            Fault::KillKeeper { session } | Fault::KillCli { session } => {
                let Some(agent) = processes::agent_of(&self.sessions[session].id) else {
                    return;
                };
                let killed = &mut self.sessions[session].killed;
                if matches!(fault, Fault::KillCli { .. }) {
                    killed.agents.insert(agent.run);
                    proc::signal(agent.pid, Signal::SIGKILL);
                } else {
                    killed.keepers.insert(agent.run);
                    proc::signal(agent.keeper, Signal::SIGKILL);
                }
            }
            Fault::FreezeKeeper { session, ms } | Fault::FreezeCli { session, ms } => {
                let Some(agent) = processes::agent_of(&self.sessions[session].id) else {
                    return;
                };
                let is_keeper = matches!(fault, Fault::FreezeKeeper { .. });
                self.freeze(if is_keeper { agent.keeper } else { agent.pid }, ms);
            }
            Fault::FillDisk { ms } => self.fill_disk(ms),
            Fault::SetClock { seconds } => self.set_clock(seconds),
            Fault::Park { session } => self.park(session),
            Fault::Stall { session, ms } => self.stall(session, ms),
        }
        self.count(fault.name());
    }

    async fn kill_daemon(&mut self, down_ms: u64, dies_again_ms: Option<u64>) {
        self.daemon.kill();
        pass(Duration::from_millis(down_ms)).await;
        if let Some(ms) = dies_again_ms {
            self.daemon.launch();
            pass(Duration::from_millis(ms)).await;
            self.daemon.kill();
            self.count("kill daemon");
        }
        loop {
            let launched = Instant::now();
            self.daemon.launch();
            match self.daemon.ready_or_ended().await {
                Ok(()) => break,
                Err(status) => {
                    let had_no_room = self.disk_was_full.is_some_and(|until| launched <= until);
                    assert!(
                        had_no_room,
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
        self.address.send_replace(Address::of(&self.daemon));
    }

    fn freeze(&mut self, pid: i32, ms: u64) {
        proc::signal(pid, Signal::SIGSTOP);
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            proc::signal(pid, Signal::SIGCONT);
        });
    }

    fn fill_disk(&mut self, ms: u64) {
        let ballast = self.daemon.data_dir().join("ballast");
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(&ballast)
            .unwrap();
        let block = vec![0; 1 << 20];
        while file.write_all(&block).is_ok() {}
        let until = Instant::now() + Duration::from_millis(ms);
        self.disk_was_full = self.disk_was_full.max(Some(until + Duration::from_secs(1)));
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            // Another one may have been there first.
            fs::remove_file(ballast).ok();
        });
    }

    fn set_clock(&self, seconds: i64) {
        let clock = self.dir.path().join("clock");
        let new = clock.with_extension("new");
        fs::write(&new, format!("{seconds:+}")).unwrap();
        fs::rename(new, clock).unwrap();
    }

    fn park(&mut self, session: usize) {
        let (address, id) = (self.address.subscribe(), self.sessions[session].id.clone());
        self.undoing.spawn(people::park(address, id));
    }

    fn stall(&mut self, session: usize, ms: u64) {
        let stalled: Vec<_> = self.sessions[session].clients.iter().map(Client::stall).collect();
        for client in &stalled {
            client.send_replace(true);
        }
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            for client in stalled {
                client.send_replace(false);
            }
        });
    }

    /// Waits until nothing goes wrong any more and every session is at rest.
    pub(crate) async fn rest(&mut self) {
        while let Some(undone) = self.undoing.join_next().await {
            undone.unwrap();
        }
        let finished = timeout(SENDERS_LIMIT, async {
            let mut all = Vec::new();
            while let Some(sent) = self.senders.join_next().await {
                all.push(sent.unwrap());
            }
            all
        });
        let Ok(all) = finished.await else {
            panic!("prompts are neither taken nor refused after {SENDERS_LIMIT:?}");
        };
        for sent in all {
            self.count(if sent.seq.is_some() {
                "prompts taken"
            } else {
                "prompts refused"
            });
            self.sessions[sent.session].sent.push(sent);
        }
        let api = self.api();
        for (place, session) in self.sessions.iter().enumerate() {
            let what = format!("session {place} ({}) is at rest", session.id);
            let mut last = Value::Null;
            let is_at_rest = timeout(
                REST_LIMIT,
                wait_for(&what, REST_LIMIT * 2, async || {
                    last = api.session(&session.id).await;
                    is_at_rest(&last).then_some(())
                }),
            );
            if is_at_rest.await.is_err() {
                panic!(
                    "in vain: {what}: {last:#}\n{}",
                    tail(&self.daemon.journal(&session.id))
                );
            }
        }
        if let Some(ended) = self.people.try_join_next() {
            ended.unwrap();
        }
    }

    /// Looks at everything from outside.
    pub(crate) async fn check(&mut self) {
        let api = self.api();
        let (logs, data) = (self.logs(), self.daemon.data_dir());
        let mut faults = Vec::new();
        let mut live = BTreeMap::new();
        for (place, session) in self.sessions.iter_mut().enumerate() {
            let mut own = Vec::new();
            let view = api.session(&session.id).await;
            match Journal::read(&data.join("sessions").join(&session.id)) {
                Err(fault) => own.push(fault),
                Ok(journal) => {
                    if place < FAKES {
                        own.extend(checks::lines(&journal, &logs, &session.killed));
                    }
                    own.extend(checks::prompts(&journal, &session.sent, &session.killed));
                    own.extend(checks::view(&view, &journal, &mut session.cost));
                    let turns = api
                        .get(&format!("/v1/sessions/{}/turns?limit=500", session.id))
                        .await;
                    let turns = turns.expect(200);
                    assert_eq!(turns["next_cursor"], Value::Null, "more turns than a page has");
                    let turns = turns["items"].as_array().unwrap();
                    own.extend(checks::turns(turns, &view, &journal));
                    for prompt in checks::unanswered(&journal, &session.sent) {
                        own.extend(people::ask_after(&api, &session.id, prompt).await);
                    }
                    for client in &mut session.clients {
                        own.extend(client.has_exactly(&journal.bytes).await.err());
                    }
                    if let Some(run) = journal.live() {
                        let pid = view["cli"]["pid"].as_i64().unwrap_or_default();
                        live.insert(run.id.clone(), i32::try_from(pid).unwrap());
                    }
                }
            }
            faults.extend(
                own.into_iter()
                    .map(|fault| format!("session {place} ({}): {fault}", session.id)),
            );
        }
        // What was just killed may take a moment to vanish.
        let mut found = Vec::new();
        holds_within(Duration::from_secs(10), || {
            found = processes::check(&live);
            found.is_empty()
        });
        faults.extend(found);
        if self.daemon.log().contains("panicked") {
            faults.push(format!("the daemon panicked:\n{}", self.daemon.log()));
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// Takes every session out of its state, and replaces one.
    pub(crate) async fn go_on(&mut self, replaced: usize) {
        let api = self.api();
        for place in 0..self.sessions.len() {
            let id = self.sessions[place].id.clone();
            let view = api.session(&id).await;
            let state = view["state"].as_str().unwrap_or_default();
            if state == "idle" || state == "parked" {
                continue;
            }
            let ways: Vec<_> = view["ways_out"].as_array().into_iter().flatten().collect();
            let fresh = state == "failed" && !ways.iter().any(|way| **way == "resume");
            self.story.tell(format!(
                "session {place} is {state} ({}) and resumed",
                view["reason"]
            ));
            let reply = api
                .lifecycle(&id, "resume?wait=ready", json!({ "fresh": fresh }))
                .await;
            assert!(
                reply.status.is_success(),
                "session {place} ({id}) has no way out of {view:#}: {} {:#}",
                reply.status,
                reply.body
            );
            self.count("resumed");
        }
        self.sessions[replaced].clients.clear();
        self.delete(replaced).await;
        self.sessions[replaced] = self.make(replaced).await;
    }

    async fn delete(&mut self, place: usize) {
        let id = self.sessions[place].id.clone();
        let reply = self.api().delete(&format!("/v1/sessions/{id}")).await;
        assert_eq!(reply.status.as_u16(), 204, "{:#}", reply.body);
        let dir = self.daemon.data_dir().join("sessions").join(&id);
        assert!(!dir.exists(), "{} is left of a deleted session", dir.display());
        let left = processes::agent_of(&id);
        assert!(left.is_none(), "{left:?} is left of a deleted session");
    }

    /// Deletes everything: nothing is left.
    pub(crate) async fn end(mut self) {
        for place in 0..self.sessions.len() {
            self.sessions[place].clients.clear();
            self.delete(place).await;
        }
        let list = self.api().get("/v1/sessions").await.expect(200);
        assert_eq!(list["items"], json!([]));
        let mut found = Vec::new();
        holds_within(Duration::from_secs(10), || {
            found = processes::check(&BTreeMap::new());
            found.is_empty()
        });
        assert!(found.is_empty(), "{}", found.join("\n"));
        let data = self.daemon.data_dir();
        for dir in [
            data.join("sessions"),
            data.join("leases"),
            self.dir.path().join("run"),
        ] {
            let names: Vec<_> = fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert!(names.is_empty(), "{} has {names:?}", dir.display());
        }
        assert_eq!(self.daemon.stop().code(), Some(0));
    }
}

fn is_at_rest(view: &Value) -> bool {
    let is_still = matches!(
        view["state"].as_str(),
        Some("idle" | "parked" | "stopped" | "failed")
    );
    is_still && view["restart"].is_null() && view["open_prompts"] == json!([]) && view["turn"].is_null()
}

fn tail(journal: &str) -> String {
    let lines: Vec<&str> = journal.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].iter();
    last.map(|line| line.chars().take(300).collect::<String>() + "\n")
        .collect()
}

/// A program that becomes the fake or the real agent, as the name of its directory says.
fn agents(dir: &std::path::Path) -> PathBuf {
    let path = dir.join("agent");
    let (fake, real) = (fake_claude(), real_claude());
    let text = format!(
        "#!/bin/sh\ncase \"$PWD\" in\n*/real-*) exec '{}' \"$@\" ;;\n*) exec '{}' \"$@\" ;;\nesac\n",
        real.display(),
        fake.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The library that has the daemon see another clock.
fn libfaketime() -> PathBuf {
    let lib = fs::read_dir("/usr/lib").unwrap();
    let found = lib
        .map(|entry| entry.unwrap().path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists());
    found.expect("libfaketime is needed: Debian has it in the package faketime")
}
