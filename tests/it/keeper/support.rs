//! Owns what the tests share: a folder with one session, its plan, and what can be seen of it from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use trunkline::{
    domain::{RunExit, RunId, Seq, SessionId},
    journal::is_locked,
    keeper::{
        self, Identity, KeeperEvent, KeeperLimits, LaunchError, LaunchPlan, Link, RUN_MARKER, StdinLine,
    },
};

/// The program under test.
pub(crate) const TRUNKLINE: &str = env!("CARGO_BIN_EXE_trunkline");

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Lets a moment pass: nothing is waited for.
pub(crate) async fn pass(moment: Duration) {
    tokio::time::sleep(moment).await;
}

/// One session in a folder of its own.
pub(crate) struct Bed {
    folder: TempDir,
    pub(crate) tracker: TaskTracker,
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
}

/// One record of the journal.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) src: String,
    pub(crate) by: Option<String>,
    pub(crate) data: Value,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            tracker: TaskTracker::new(),
            session: SessionId::new(),
            run: RunId::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A plan that runs this Python text.
    pub(crate) fn python(&self, script: &str) -> LaunchPlan {
        let prelude = "import sys, os, json, time, signal, subprocess\n\
             def say(**fields):\n    sys.stdout.write(json.dumps(fields) + '\\n'); sys.stdout.flush()\n";
        self.program("python3", &["-S", "-c", &format!("{prelude}{script}")])
    }

    pub(crate) fn program(&self, program: &str, args: &[&str]) -> LaunchPlan {
        LaunchPlan {
            session: self.session,
            run: self.run,
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
            cwd: self.folder.path().to_owned(),
            journal_dir: self.path("journal"),
            journal_floor: Seq::ZERO,
            socket: self.path("socket"),
            identity_file: self.path("keeper.json"),
            lease_file: None,
            start_note: r#"{"type":"run_started"}"#.to_owned(),
            first_lines: Vec::new(),
            limits: KeeperLimits {
                // A test that fails leaves nothing for long.
                orphan_grace_ms: 30_000,
                ..KeeperLimits::default()
            },
        }
    }

    pub(crate) async fn try_launch(&self, plan: &LaunchPlan) -> Result<Link, LaunchError> {
        keeper::launch(Path::new(TRUNKLINE), plan, &self.tracker).await
    }

    pub(crate) async fn launch(&self, plan: &LaunchPlan) -> Link {
        self.try_launch(plan).await.unwrap()
    }

    pub(crate) async fn attach(&self) -> Link {
        keeper::attach(&self.path("keeper.json"), &self.tracker)
            .await
            .unwrap()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::read(&self.path("keeper.json")).unwrap().unwrap()
    }

    /// All whole records, once it is certain that they are numbered without gap.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut segments: Vec<_> = fs::read_dir(self.path("journal"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
            .collect();
        segments.sort();
        let mut records = Vec::new();
        for segment in segments {
            let bytes = fs::read(segment).unwrap();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let Some(line) = line.strip_suffix(b"\n") else {
                    break;
                };
                let value: Value = serde_json::from_slice(line)
                    .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(line)));
                records.push(Record {
                    seq: value["seq"].as_u64().unwrap(),
                    src: value["src"].as_str().unwrap().to_owned(),
                    by: value["by"].as_str().map(str::to_owned),
                    data: value["data"].clone(),
                });
            }
        }
        for (record, expected) in records.iter().zip(1..) {
            assert_eq!(record.seq, expected);
        }
        records
    }

    /// The records of one source.
    pub(crate) fn data(&self, src: &str) -> Vec<Value> {
        self.records()
            .into_iter()
            .filter(|record| record.src == src)
            .map(|record| record.data)
            .collect()
    }

    /// The notices with this code.
    pub(crate) fn notices(&self, code: &str) -> Vec<Value> {
        let mut notices = self.data("daemon");
        notices.retain(|data| data["type"] == "notice" && data["code"] == code);
        notices
    }

    /// Waits until the process printed a line with this type, and gives it.
    pub(crate) async fn said(&self, kind: &str) -> Value {
        let mut found = None;
        wait_for(&format!("a line of type {kind}"), || {
            found = self.data("cli").into_iter().find(|data| data["type"] == kind);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Waits for the end of the run, and checks all that has to be true after it.
    pub(crate) async fn ended(&self, link: &mut Link) -> RunExit {
        let exit = exited(link).await;
        let pid = self.path("keeper.json");
        wait_for("the keeper to clean up", || {
            !pid.exists() && !self.path("socket").exists()
        })
        .await;
        // Its files go before it does; until then it holds the journal, and after that the lease no more.
        wait_for("the keeper to let the journal go", || {
            is_locked(&self.path("journal")).is_ok_and(|is_locked| !is_locked)
        })
        .await;
        self.is_swept().await;
        let last = self.records().pop().unwrap();
        assert_eq!(
            (&last.src[..], &last.data["type"]),
            ("daemon", &"run_exited".into())
        );
        assert_eq!(last.data["run_id"], self.run.to_string());
        assert_eq!(serde_json::from_value::<RunExit>(last.data).unwrap(), exit);
        exit
    }

    /// No process of the run is left.
    pub(crate) async fn is_swept(&self) {
        wait_for("no process with the marker", || marked(self.run).is_empty()).await;
    }
}

/// Waits for the exit event and for the end of the link.
pub(crate) async fn exited(link: &mut Link) -> RunExit {
    let mut exit = None;
    tokio::time::timeout(SOON, async {
        while let Some(event) = link.events.recv().await {
            match event {
                KeeperEvent::Head(_) => {}
                KeeperEvent::Exited(found) => exit = Some(found),
                KeeperEvent::Gone => {}
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("the run did not end"));
    exit.unwrap_or_else(|| panic!("the link ended without an exit"))
}

/// The live processes that carry the marker of the run.
pub(crate) fn marked(run: RunId) -> Vec<i32> {
    let marker = format!("{RUN_MARKER}={run}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == marker.as_bytes())
        {
            found.push(pid);
        }
    }
    found
}

/// Whether the process runs; a zombie does not.
pub(crate) fn is_running(pid: i64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Looks again and again until the condition holds.
pub(crate) async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A line for stdin.
pub(crate) fn line(text: &str) -> StdinLine {
    StdinLine {
        by: None,
        line: text.to_owned(),
    }
}

/// Sends a line that must be taken.
pub(crate) async fn send(link: &Link, by: &str, text: String) -> Seq {
    let sent = link.handle.write_line(Some(by), Bytes::from(text));
    tokio::time::timeout(SOON, sent).await.unwrap().unwrap()
}
