//! Owns the tests of a daemon whose log lines nobody takes.

use serde_json::json;

use crate::support::{
    daemon::TestDaemon,
    programs::fake_prompt,
    wait::{PATIENCE, wait_until},
};

/// The cases: a full disk, and a reader that has left.
const NOBODY: [&str; 2] = [
    r#"exec "$@" 2>/dev/full"#,
    // The shell becomes the daemon; the reader of its stderr ends at once.
    r#"exec 3>&1; exec "$@" 2> >(exec true) >&3"#,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_log_nobody_takes_serves_and_ends_as_ever() {
    for script in NOBODY {
        let launcher = ["bash", "-c", script, "bash"];
        let mut daemon = TestDaemon::with_fake().launcher(launcher).start().await;
        let rest = daemon.rest();
        let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        for turn in 1..=3 {
            let result = rest.ask(&session, "hello").await;
            assert_eq!(result["turn"]["number"], turn, "{script}: {result:#}");
        }
        // This is worth an error in the log, too.
        rest.ask(
            &session,
            &fake_prompt(&json!([{ "stderr": "a line of the agent\n" }])),
        )
        .await;
        assert_eq!(daemon.stop().code(), Some(0), "{script}");
        wait_until("nothing is left", PATIENCE, || {
            daemon.session_processes().is_empty()
        })
        .await;
    }
}

/// A pipe that somebody holds open and nobody reads: it takes 64 KiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_nobody_reads_holds_up_nothing() {
    let script = r#"mkfifo "$HOME/log" && exec "$@" 2<>"$HOME/log""#;
    let mut daemon = TestDaemon::with_fake()
        .launcher(["bash", "-c", script, "bash"])
        .start()
        .await;
    let rest = daemon.rest();
    let session = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    // Each is a line of more than 150 bytes.
    for _ in 0..1_000 {
        rest.get("/v1/sessions").await.expect(200);
    }
    let result = rest.ask(&session, "hello").await;
    assert_eq!(result["turn"]["number"], 1, "{result:#}");
    assert_eq!(rest.get("/healthz").await.status, 200);
    let metrics = rest.get("/metrics").await.body;
    let metrics = metrics.as_str().unwrap();
    assert!(
        metrics.contains("trunkline_log_lines_dropped_total 0"),
        "{metrics}"
    );
    assert_eq!(daemon.stop().code(), Some(0));
}
