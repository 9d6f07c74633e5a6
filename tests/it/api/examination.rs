//! Owns the tests of what the daemon says of itself over HTTP: its findings, the processes of its sessions, its build.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    api::common::problem,
    support::{
        daemon::TestDaemon,
        event_stream::EventStream,
        proc,
        programs::{fake_claude, fake_prompt},
        wait::{PATIENCE, wait_until},
    },
};

const DOCTOR: &str = "/v1/daemon/doctor";

fn finding<'a>(examination: &'a Value, name: &str) -> &'a Value {
    let items = examination["items"].as_array().unwrap();
    let found = items.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("nothing about {name}: {examination:#}"))
}

#[tokio::test]
async fn an_examination_says_what_is_wrong_and_what_to_do() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let well = rest.get(DOCTOR).await.expect(200);
    for name in ["agent CLI", "data directory", "token"] {
        let finding = finding(&well, name);
        assert_ne!(finding["grade"], "problem", "{finding:#}");
    }
    fs::set_permissions(daemon.data_dir().join("token"), fs::Permissions::from_mode(0o644)).unwrap();
    let ill = rest.get(DOCTOR).await.expect(200);
    let token = finding(&ill, "token");
    assert_ne!(token["grade"], "ok", "{token:#}");
    assert!(
        token["advice"].as_str().is_some_and(|advice| !advice.is_empty()),
        "{token:#}"
    );
    fs::set_permissions(daemon.data_dir().join("token"), fs::Permissions::from_mode(0o600)).unwrap();
}

/// A CLI that does not say its version while `hang` is there. It writes its own id and that of its child to `ran`.
fn may_hang(path: &Path, hang: &Path, ran: &Path) {
    let script = format!(
        "#!/bin/sh\nif [ -e '{}' ]; then sleep 600 & echo $$ $! >> '{}'; wait; fi\nexec '{}' \"$@\"\n",
        hang.display(),
        ran.display(),
        fake_claude().display()
    );
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn many_who_examine_the_daemon_start_one_cli_and_leave_none() {
    let dir = tempfile::tempdir().unwrap();
    let (cli, hang, ran) = (
        dir.path().join("claude"),
        dir.path().join("hang"),
        dir.path().join("ran"),
    );
    may_hang(&cli, &hang, &ran);
    let daemon = TestDaemon::with_fake().claude(&cli).start().await;
    let rest = daemon.rest();
    rest.get("/readyz").await.expect(200);
    fs::write(&hang, "").unwrap();

    let asking: Vec<_> = (0..8)
        .map(|_| tokio::spawn(rest.builder(Method::GET, DOCTOR).send()))
        .collect();
    let started = || fs::read_to_string(&ran).unwrap_or_default();
    wait_until("the CLI is asked for its version", PATIENCE, || {
        started().ends_with('\n')
    })
    .await;
    // The others have come too, and wait with it.
    rest.get("/v1/rules").await.expect(200);
    assert_eq!(started().lines().count(), 1, "{}", started());

    for caller in &asking {
        caller.abort();
    }
    let pids: Vec<i32> = started()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    wait_until("the CLI and its child are gone", Duration::from_secs(10), || {
        !pids.iter().any(|pid| proc::is_alive(*pid))
    })
    .await;
    // The next examination is a new one.
    fs::remove_file(&hang).unwrap();
    let well = rest.get(DOCTOR).await.expect(200);
    assert_ne!(finding(&well, "agent CLI")["grade"], "problem", "{well:#}");
}

#[tokio::test]
async fn the_processes_of_a_session_are_listed_with_their_memory() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let path = format!("/v1/sessions/{id}/processes");
    rest.ask(&id, &fake_prompt(&json!([{ "child": {} }, { "text": "done" }])))
        .await;
    let list = rest.get(&path).await.expect(200);
    let items = list["items"].as_array().unwrap();
    let roles: Vec<_> = items
        .iter()
        .map(|process| process["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["keeper", "cli", "child"], "{list:#}");
    let cli = rest.session(&id).await["cli"]["pid"].clone();
    assert_eq!(
        (&items[1]["pid"], &items[1]["parent_pid"]),
        (&cli, &items[0]["pid"])
    );
    assert_eq!(items[2]["parent_pid"], cli, "{list:#}");
    let bytes = |process: &Value, name: &str| process[name].as_u64().unwrap();
    let sum: u64 = items.iter().map(|process| bytes(process, "pss_bytes")).sum();
    assert_eq!(list["pss_bytes"], sum);
    for process in items {
        let (share, held) = (bytes(process, "pss_bytes"), bytes(process, "rss_bytes"));
        assert!(0 < share && share <= held, "{process:#}");
    }

    rest.post(&format!("/v1/sessions/{id}/stop"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        rest.get(&path).await.expect(200),
        json!({ "items": [], "pss_bytes": 0 })
    );
    let nobody = "/v1/sessions/0197f0f0-5c1e-7000-8000-00000000000a/processes";
    problem(rest.get(nobody).await, 404, "session_not_found");
}

#[tokio::test]
async fn each_snapshot_names_the_build_of_the_daemon() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    let build = rest.get("/readyz").await.expect(200)["build"].clone();
    assert!(build.as_str().is_some_and(|build| !build.is_empty()), "{build}");
    let mut lobby = EventStream::open(&rest, "/v1/events", None).await;
    assert_eq!(lobby.next().await.data["build"], build);
    assert_eq!(daemon.attach(&id, None).await.next().await["build"], build);
}
