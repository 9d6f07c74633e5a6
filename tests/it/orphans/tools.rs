//! Owns the tools that a CLI leaves behind in these tests, and the check that none of them is left.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::fake_prompt,
    rest::Rest,
    wait::{PATIENCE, holds_within, wait_until},
};

/// How long any tool lives if nobody ends it.
const LIFE_S: u64 = 90;

/// The kinds of tools, each by what makes it hard to end.
pub(crate) const KINDS: [&str; 7] = ["deaf", "setsid", "orphan", "holder", "storm", "bare", "wiped"];

/// The kinds that do not show whose they are.
pub(crate) const UNMARKED: [&str; 2] = ["bare", "wiped"];

/// The tools of one run.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) run: String,
    pub(crate) pids: Vec<(&'static str, i32)>,
}

/// The actions that have the fake CLI start one tool of each kind.
pub(crate) fn actions() -> Vec<Value> {
    KINDS
        .into_iter()
        .map(|kind| {
            let mut plan = match kind {
                "deaf" => json!({ "ignore_term": true }),
                "setsid" => json!({ "setsid": true, "ignore_term": true }),
                "orphan" => json!({ "setsid": true, "double_fork": true, "ignore_term": true }),
                "holder" => json!({ "setsid": true, "hold_output": true, "ignore_term": true }),
                "storm" => json!({ "setsid": true, "storm": 6 }),
                "bare" => {
                    json!({ "setsid": true, "double_fork": true, "clear_env": true, "ignore_term": true })
                }
                "wiped" => {
                    json!({ "setsid": true, "double_fork": true, "wipe_env": true, "ignore_term": true })
                }
                other => unreachable!("no such kind of tool: {other}"),
            };
            plan["seconds"] = LIFE_S.into();
            json!({ "child": plan })
        })
        .collect()
}

impl Tools {
    /// A session whose CLI is idle and has one tool of each kind.
    pub(crate) async fn session(daemon: &TestDaemon, rest: &Rest) -> (String, Self) {
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        rest.ask(&session, &fake_prompt(&Value::Array(actions()))).await;
        let tools = Self::of(rest, &session).await;
        (session, tools)
    }

    /// The tools of the session's last run, which were started by [`actions`].
    pub(crate) async fn of(rest: &Rest, session: &str) -> Self {
        let records = rest.events(session, 0).await;
        let started = records
            .iter()
            .rposition(|record| record["data"]["type"] == "run_started")
            .unwrap();
        let run = records[started]["data"]["run_id"].as_str().unwrap().to_owned();
        let pids: Vec<_> = records[started..]
            .iter()
            .filter(|record| record["data"]["type"] == "fake_child")
            .map(|record| i32::try_from(record["data"]["pid"].as_i64().unwrap()).unwrap())
            .collect();
        assert_eq!(pids.len(), KINDS.len(), "{records:#?}");
        Self {
            run,
            pids: KINDS.into_iter().zip(pids).collect(),
        }
    }

    /// Fails unless all of them live: else their end would show nothing.
    pub(crate) fn check_alive(&self) {
        self.check_alive_without_cli();
        // The storm's chains too: at any moment some of them are between two processes.
        let is_storming = holds_within(PATIENCE, || self.marked().len() > self.pids.len());
        assert!(is_storming, "{:#?}", self.marked());
    }

    /// As [`Self::check_alive`] after the CLI and its keeper were killed.
    pub(crate) fn check_alive_without_cli(&self) {
        for (kind, pid) in &self.pids {
            assert!(proc::is_alive(*pid), "{kind} is not there");
        }
    }

    pub(crate) fn marked(&self) -> Vec<proc::Process> {
        proc::with_env("TRUNKLINE_RUN", &self.run)
    }

    /// The leftovers of the run, of the tools that are not `spared`.
    fn left(&self, spared: &[&str]) -> String {
        let mut left = String::new();
        for process in self.marked() {
            let proc::Process {
                pid, parent, state, ..
            } = process;
            let _ = writeln!(left, "marked: {pid}, {state}, child of {parent}");
        }
        for (kind, pid) in &self.pids {
            if proc::is_alive(*pid) && !spared.contains(kind) {
                let _ = writeln!(left, "{kind}: {pid}");
            }
        }
        left
    }

    /// Fails if a process of the run is left now.
    #[track_caller]
    pub(crate) fn check_gone(&self) {
        self.check_gone_but(&[]);
    }

    /// As [`Self::check_gone`], for what is not `spared`.
    pub(crate) fn check_gone_but(&self, spared: &[&str]) {
        let left = self.left(spared);
        assert!(left.is_empty(), "processes are left:\n{left}");
    }

    /// Waits until no process of the run is left, but those of kinds that are spared.
    pub(crate) async fn gone_within(&self, limit: Duration, spared: &[&str]) {
        wait_until("no process of the run is left", limit, || {
            self.left(spared).is_empty()
        })
        .await;
    }

    /// The pid of the tool of this kind.
    pub(crate) fn pid(&self, kind: &str) -> i32 {
        let found = self.pids.iter().find(|(name, _)| *name == kind);
        found.unwrap().1
    }
}
