//! Owns the sweep at a start: what carries the mark of this data directory and has no keeper is ended; nothing else is touched,
//! whatever it is called and however old it is.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    orphans::tools::Tools,
    support::{daemon::TestDaemon, proc, rest::Rest},
};

const MARKERS: [&str; 3] = ["TRUNKLINE_DATA_MARK", "TRUNKLINE_SESSION", "TRUNKLINE_RUN"];

/// A process of the test, ended with it.
struct Foreign(Child);

impl Foreign {
    /// A process that lists show under the name `arguments`, with these variables.
    #[expect(clippy::disallowed_methods, reason = "stands for a process of somebody else")]
    fn start(arguments: &str, variables: &[(&str, String)]) -> Self {
        let child = Command::new("sleep")
            .arg0(arguments)
            .arg("90")
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        Self(child.unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It may have been killed by the daemon.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cli_of(view: &Value) -> proc::Process {
    proc::read(i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

async fn ready(daemon: &TestDaemon, rest: &Rest, name: &str) -> String {
    rest.create_ready(json!({ "cwd": daemon.work_dir(name) })).await
}

#[tokio::test]
async fn a_sweep_takes_what_is_ours_and_nothing_else() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = ready(&daemon, &rest, "gone").await;
    let cli = cli_of(&rest.session(&session).await);
    let markers = MARKERS.map(|name| (name, cli.env(name).unwrap()));
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    let (live, tools) = Tools::session(&daemon, &rest).await;

    // As a tool that the last daemon had no time to end: its session is at rest.
    let mut stray = Foreign::start("whatever", &markers);
    let without = |name: &str| {
        let kept = markers.iter().filter(|(marker, _)| *marker != name);
        kept.cloned().collect::<Vec<_>>()
    };
    let mut of_another_directory = markers.clone();
    of_another_directory[0].1 = "00000000-0000-4000-8000-000000000000".to_owned();
    let mut foreign = [
        ("the same arguments", Foreign::start(&cli.command, &[])),
        (
            "another data directory",
            Foreign::start(&cli.command, &of_another_directory),
        ),
        (
            "no data directory",
            Foreign::start(&cli.command, &without("TRUNKLINE_DATA_MARK")),
        ),
        ("no run", Foreign::start(&cli.command, &without("TRUNKLINE_RUN"))),
    ];

    daemon.kill();
    daemon.start().await;
    assert!(!stray.is_alive(), "a stray of an ended run is left");
    for (what, process) in &mut foreign {
        assert!(process.is_alive(), "a process with {what} was killed");
    }
    // A process with a keeper is no stray.
    tools.check_alive();
    let rest = daemon.rest();
    assert_eq!(rest.session(&live).await["state"], "idle");
    assert_eq!(
        rest.ask(&live, "still there?").await["result"]["subtype"],
        "success"
    );
    let metrics = rest.get("/metrics").await.expect(200);
    let text = metrics.as_str().unwrap();
    assert!(text.contains("\ntrunkline_strays_killed_total 1\n"), "{text}");
    assert!(
        daemon.log().contains("processes without a keeper were killed"),
        "{}",
        daemon.log()
    );
    rest.lifecycle(&live, "stop", json!({})).await.expect(200);
    tools.check_gone();
}

/// A file says that a process is the keeper, and the pid is somebody else's by now.
#[tokio::test]
async fn a_pid_that_is_used_again_is_left_alone() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = ready(&daemon, &rest, "a").await;
    let file = daemon
        .data_dir()
        .join("sessions")
        .join(&session)
        .join("keeper.json");
    let mut identity: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    daemon.kill();
    let keeper = i32::try_from(identity["pid"].as_i64().unwrap()).unwrap();
    proc::signal(keeper, Signal::SIGKILL);
    let mut foreign = Foreign::start("trunkline keeper", &[]);
    identity["pid"] = foreign.pid().into();
    fs::write(&file, identity.to_string()).unwrap();
    daemon.start().await;
    assert!(foreign.is_alive(), "somebody else's process was killed");
    let rest = daemon.rest();
    assert_eq!(rest.session(&session).await["state"], "failed");
    rest.lifecycle(&session, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert!(foreign.is_alive(), "somebody else's process was killed");
}

/// Nobody can talk to a keeper whose file is lost or spoilt, and it holds the journal.
#[tokio::test]
async fn a_keeper_that_cannot_be_reached_is_ended_and_its_session_goes_on() {
    for spoil in ["{\"pid\":", ""] {
        let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
        let rest = daemon.rest();
        let (session, tools) = Tools::session(&daemon, &rest).await;
        let file = daemon
            .data_dir()
            .join("sessions")
            .join(&session)
            .join("keeper.json");
        daemon.kill();
        if spoil.is_empty() {
            fs::remove_file(&file).unwrap();
        } else {
            fs::write(&file, spoil).unwrap();
        }
        daemon.start().await;
        tools.check_gone();
        let rest = daemon.rest();
        let view = rest.session(&session).await;
        assert_eq!(view["state"], "failed", "{view:#}");
        // Its keeper saw the end, and said so.
        assert_eq!(view["reason"]["code"], "cli_killed", "{view:#}");
        rest.lifecycle(&session, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        rest.ask(&session, "go on").await;
    }
}

#[tokio::test]
async fn a_keeper_that_was_stopped_goes_on_under_the_next_daemon_and_can_be_stopped() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = ready(&daemon, &rest, "a").await;
    let keeper = cli_of(&rest.session(&session).await).parent;
    proc::signal(keeper, Signal::SIGSTOP);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.session(&session).await["state"], "idle");
    rest.ask(&session, "still there?").await;
    // Under a daemon that lives, it is woken by who wants something of it.
    proc::signal(keeper, Signal::SIGSTOP);
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    assert!(!proc::is_alive(keeper) || rest.session(&session).await["state"] == "stopped");
}

/// The database was put back from a copy, say, and does not know the session: nobody can tell whose its process is.
#[tokio::test]
async fn a_process_whose_session_is_not_known_goes_on_until_somebody_deletes_it() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let kept = ready(&daemon, &rest, "kept").await;
    rest.lifecycle(&kept, "stop", json!({})).await.expect(200);
    assert_eq!(daemon.stop().code(), Some(0));
    let copy = daemon.database().with_extension("copy");
    fs::copy(daemon.database(), &copy).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    let journal = daemon.journal(&session);
    daemon.kill();
    let right = daemon.database().with_extension("right");
    for side in ["", "-wal", "-shm"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{side}", path.display()));
        let _ = fs::rename(beside(&daemon.database()), beside(&right));
    }
    fs::copy(&copy, daemon.database()).unwrap();
    let path = format!("/v1/sessions/{session}");
    for is_deleted in [false, true] {
        tools.check_alive();
        daemon.start().await;
        tools.check_alive();
        assert!(daemon.journal(&session).starts_with(&journal), "records are kept");
        let rest = daemon.rest();
        rest.get(&path).await.problem(404);
        rest.session(&kept).await;
        let ready = rest.get("/readyz").await.expect(200);
        assert_eq!(ready["unknown_sessions"], json!([session]), "{ready:#}");
        assert!(daemon.log().contains("belongs to no session"), "{}", daemon.log());
        if is_deleted {
            rest.delete(&path).await.expect(204);
            tools.check_gone();
            assert!(!daemon.data_dir().join("sessions").join(&session).exists());
            let ready = rest.get("/readyz").await.expect(200);
            assert_eq!(ready["unknown_sessions"], json!([]), "{ready:#}");
            rest.delete(&path).await.problem(404);
            break;
        }
        daemon.kill();
    }
}
