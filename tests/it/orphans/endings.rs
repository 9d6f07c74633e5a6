//! Owns the endings: each of them takes every tool of the run along.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    orphans::tools::{Tools, UNMARKED, actions},
    support::{
        daemon::TestDaemon,
        proc,
        rest::Rest,
        wait::{PATIENCE, wait_for},
    },
};

/// How long the daemon may take to end what a dead keeper left: the sweep itself gives up after 3 s.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

fn cli_of(view: &Value) -> i32 {
    i32::try_from(view["cli"]["pid"].as_i64().unwrap()).unwrap()
}

async fn keeper_of(rest: &Rest, session: &str) -> i32 {
    proc::read(cli_of(&rest.session(session).await)).unwrap().parent
}

/// Ends what nobody else can: see [`UNMARKED`].
fn end_unmarked(tools: &Tools) {
    for kind in UNMARKED {
        let pid = tools.pid(kind);
        assert!(proc::is_alive(pid), "{kind} is nobody's, and was touched");
        proc::signal(pid, Signal::SIGKILL);
    }
}

/// The daemon says how many strays it killed.
async fn strays_killed(rest: &Rest) -> u64 {
    let metrics = rest.get("/metrics").await.expect(200);
    let text = metrics.as_str().unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("trunkline_strays_killed_total "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_stop_leaves_no_tool() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    tools.check_gone();
}

/// Nobody but its keeper would have removed it.
#[tokio::test]
async fn a_delete_removes_the_socket_that_a_killed_keeper_left() {
    let runtime = tempfile::Builder::new().prefix("tl-run-").tempdir().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_DATA_RUNTIME_DIR", runtime.path())
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    proc::signal(keeper_of(&rest, &session).await, Signal::SIGKILL);
    rest.in_state(&session, &["failed"]).await;
    let sockets = || fs::read_dir(runtime.path()).unwrap().count();
    assert_eq!(sockets(), 1, "what this is about");
    rest.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(sockets(), 0);
}

#[tokio::test]
async fn a_delete_leaves_no_tool() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    let deleted = rest.delete(&format!("/v1/sessions/{session}")).await;
    assert_eq!(deleted.status, 204, "{:#}", deleted.body);
    tools.check_gone();
}

#[tokio::test]
async fn a_shutdown_leaves_no_tool() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ON_SHUTDOWN", "stop")
        .start()
        .await;
    let (_, tools) = Tools::session(&daemon, &daemon.rest()).await;
    tools.check_alive();
    assert_eq!(daemon.stop().code(), Some(0));
    tools.check_gone();
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_tool() {
    let daemon = TestDaemon::with_fake().start().await;
    let cwd = daemon.work_dir("a");
    let mut start = actions();
    start.push(json!({ "exit": 3 }));
    fs::write(
        cwd.join(".fake-claude.json"),
        json!({ "start": start }).to_string(),
    )
    .unwrap();
    let rest = daemon.rest();
    let view = rest.create(json!({ "cwd": cwd })).await;
    let session = view["id"].as_str().unwrap();
    let failed = rest.in_state(session, &["failed"]).await;
    assert_eq!(failed["reason"]["code"], "start_failed", "{failed:#}");
    Tools::of(&rest, session).await.check_gone();
}

#[tokio::test]
async fn a_start_that_never_ends_leaves_no_tool() {
    let daemon = TestDaemon::with_fake()
        // The CLI has started all its tools by then.
        .env("TRUNKLINE_SESSIONS_START_TIMEOUT_MS", "15000")
        .start()
        .await;
    let cwd = daemon.work_dir("a");
    let settings = json!({ "start": actions(), "init": { "never": true } });
    fs::write(cwd.join(".fake-claude.json"), settings.to_string()).unwrap();
    let rest = daemon.rest();
    let view = rest.create(json!({ "cwd": cwd })).await;
    let session = view["id"].as_str().unwrap();
    let failed = rest.in_state(session, &["failed"]).await;
    assert_eq!(failed["reason"]["code"], "start_timed_out", "{failed:#}");
    Tools::of(&rest, session).await.check_gone();
}

#[tokio::test]
async fn a_cli_that_is_killed_leaves_no_tool() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    proc::signal(cli_of(&rest.session(&session).await), Signal::SIGKILL);
    rest.in_state(&session, &["failed"]).await;
    tools.check_gone();
}

#[tokio::test]
async fn a_restart_by_policy_leaves_no_tool_of_the_last_run() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_RESTART_MAX_RESTARTS", "3")
        .env("TRUNKLINE_RESTART_FIRST_DELAY_MS", "50")
        .start()
        .await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    let before = rest.session(&session).await;
    proc::signal(cli_of(&before), Signal::SIGKILL);
    let after = wait_for("the next process is ready", PATIENCE, async || {
        let view = rest.session(&session).await;
        let is_next = view["cli"]["pid"] != before["cli"]["pid"] && view["state"] == "idle";
        is_next.then_some(view)
    })
    .await;
    tools.check_gone();
    assert!(proc::is_alive(cli_of(&after)));
    assert_eq!(
        rest.ask(&session, "and you?").await["result"]["subtype"],
        "success"
    );
}

/// The hard one: with its keeper a tool loses the parent that would have ended it. The daemon ends a process that carries
/// the marker; one that lost its environment too is like any other process of the user, and is left alone.
#[tokio::test]
async fn a_keeper_that_is_killed_leaves_no_tool_with_our_marker() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    let cli = cli_of(&rest.session(&session).await);
    proc::signal(keeper_of(&rest, &session).await, Signal::SIGKILL);
    let failed = rest.in_state(&session, &["failed"]).await;
    assert_eq!(failed["reason"]["code"], "keeper_lost", "{failed:#}");
    tools.gone_within(SWEEP_LIMIT, &UNMARKED).await;
    assert!(!proc::is_alive(cli));
    wait_for("the kills are counted", PATIENCE, async || {
        (strays_killed(&rest).await >= 5).then_some(())
    })
    .await;
    end_unmarked(&tools);
}

/// A caller that is told that the session is stopped finds nothing of it, also when its keeper was killed just before.
#[tokio::test]
async fn a_stop_after_the_death_of_the_keeper_waits_for_what_it_left() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    tools.check_alive();
    proc::signal(keeper_of(&rest, &session).await, Signal::SIGKILL);
    rest.lifecycle(&session, "stop", json!({})).await.expect(200);
    tools.check_gone_but(&UNMARKED);
    end_unmarked(&tools);
}

/// A tool without an environment of its own is found as long as its parent lives and carries the marker.
#[tokio::test]
async fn what_descends_from_a_marked_process_is_swept_with_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let file = daemon.work_dir("a").join("pid");
    let script = format!(
        "env -i sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 90' & sleep 90",
        file.display()
    );
    let command = json!([{ "child": { "setsid": true, "shell": script } }]);
    rest.ask(&session, &crate::support::programs::fake_prompt(&command))
        .await;
    let bare: i32 = wait_for("the tool says who it is", PATIENCE, async || {
        fs::read_to_string(&file).ok()?.trim().parse().ok()
    })
    .await;
    assert!(proc::read(bare).unwrap().env("TRUNKLINE_RUN").is_none());
    proc::signal(keeper_of(&rest, &session).await, Signal::SIGKILL);
    wait_for("it is gone", SWEEP_LIMIT, async || {
        (!proc::is_alive(bare)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_daemon_that_does_not_come_back_leaves_no_tool_past_the_grace() {
    let mut daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_STOP_ORPHAN_GRACE_MS", "1000")
        .start()
        .await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    let keeper = keeper_of(&rest, &session).await;
    // Without the daemon they have only the grace left.
    tools.check_alive();
    daemon.kill();
    // The grace, the end of input, and the sweep.
    tools.gone_within(Duration::from_secs(20), &[]).await;
    wait_for("the keeper is gone", PATIENCE, async || {
        (!proc::is_alive(keeper)).then_some(())
    })
    .await;
    daemon.start().await;
    let view = daemon.rest().session(&session).await;
    assert_eq!(view["state"], "stopped", "{view:#}");
}

#[tokio::test]
async fn the_death_of_daemon_and_keeper_leaves_no_tool_once_the_next_daemon_answers() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (session, tools) = Tools::session(&daemon, &rest).await;
    let keeper = keeper_of(&rest, &session).await;
    daemon.kill();
    proc::signal(keeper, Signal::SIGKILL);
    tools.check_alive_without_cli();
    daemon.start().await;
    let left = tools.marked();
    assert!(left.is_empty(), "the daemon answers, and there are: {left:#?}");
    let rest = daemon.rest();
    assert_eq!(rest.session(&session).await["state"], "failed");
    assert!(strays_killed(&rest).await >= 5);
    end_unmarked(&tools);
}
