//! Owns rows of the database that cannot be read: the others do not suffer, and each can be seen and deleted.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    daemon::TestDaemon,
    proc,
    programs::{clean_env, trunkline},
    rest::Rest,
    wait::{PATIENCE, wait_until},
};

/// The values to put into a row, so that it cannot be read.
const DAMAGES: [(&str, &str); 7] = [
    ("state", "'nonsense'"),
    ("cli_session_id", "'x'"),
    ("run_id", "'x'"),
    ("created_at", "9223372036854775807"),
    ("updated_at", "-9223372036854775808"),
    ("turns", "-1"),
    ("state_reason", "'{'"),
];

/// Changes the database as another program would.
#[expect(clippy::disallowed_methods, reason = "another program damages the database")]
fn edit(daemon: &TestDaemon, sql: &str) {
    let program = "import sqlite3, sys\n\
                   db = sqlite3.connect(sys.argv[1], timeout=30)\n\
                   assert db.execute(sys.argv[2]).rowcount == 1\n\
                   db.commit()";
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(daemon.database())
        .arg(sql)
        .output()
        .unwrap();
    assert!(output.status.success(), "{sql}: {output:?}");
}

fn damage(daemon: &TestDaemon, sessions: &[String]) {
    for (id, (column, value)) in sessions.iter().zip(DAMAGES) {
        edit(
            daemon,
            &format!("UPDATE sessions SET {column} = {value} WHERE id = '{id}'"),
        );
    }
}

async fn listed(rest: &Rest) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let page = rest.get(&path).await.expect(200);
        let items = page["items"].as_array().unwrap().iter();
        found.extend(items.map(|view| view["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("/v1/sessions?limit=2&cursor={next}"),
            None => break,
        }
    }
    found.sort();
    found
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

async fn unreadable(rest: &Rest) -> Value {
    rest.get("/readyz").await.expect(200)["unreadable_sessions"].clone()
}

async fn made(daemon: &TestDaemon, count: usize) -> Vec<String> {
    let rest = daemon.rest();
    let mut ids = Vec::new();
    for number in 0..count {
        let cwd = daemon.work_dir(&number.to_string());
        ids.push(rest.create_ready(json!({ "cwd": cwd })).await);
    }
    ids
}

fn processes(session: &str) -> Vec<i32> {
    let found = proc::with_env("TRUNKLINE_SESSION", session).into_iter();
    found.map(|process| process.pid).collect()
}

/// Nothing is left of a session: no process, no folder, no row.
async fn is_gone(daemon: &TestDaemon, id: &str) {
    wait_until("its processes are gone", PATIENCE, || processes(id).is_empty()).await;
    assert!(!daemon.data_dir().join("sessions").join(id).exists());
    let path = format!("/v1/sessions/{id}");
    assert_eq!(daemon.rest().get(&path).await.problem(404), "session_not_found");
    assert_eq!(
        daemon.rest().delete(&path).await.problem(404),
        "session_not_found"
    );
}

#[tokio::test]
async fn rows_that_are_damaged_under_a_running_daemon_hide_no_other() {
    let daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let good = made(&daemon, 3).await;
    // It can be read; what is wrong matters to its next start only.
    edit(
        &daemon,
        &format!("UPDATE sessions SET options = '{{' WHERE id = '{}'", good[2]),
    );
    let bad = made(&daemon, DAMAGES.len()).await;
    damage(&daemon, &bad);
    assert_eq!(listed(&rest).await, sorted(&good));
    assert_eq!(unreadable(&rest).await, json!(sorted(&bad)));
    rest.get("/metrics").await.expect(200);
    rest.get("/v1/usage?group_by=session").await.expect(200);
    for id in &good[..2] {
        rest.ask(id, "hello").await;
    }
    for id in &bad {
        assert!(!processes(id).is_empty());
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        is_gone(&daemon, id).await;
    }
    assert_eq!(unreadable(&rest).await, json!([]));
    assert_eq!(listed(&rest).await, sorted(&good));
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "stands for a tool, and asks as a user does"
)]
async fn rows_that_are_damaged_at_a_start_are_named_and_can_be_deleted_with_their_processes() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let good = made(&daemon, 2).await;
    let bad = made(&daemon, DAMAGES.len()).await;
    let optionless = made(&daemon, 1).await.remove(0);
    let nameless = made(&daemon, 1).await.remove(0);
    let respelled = made(&daemon, 1).await.remove(0);
    let undashed = respelled.replace('-', "");
    daemon.kill();
    edit(
        &daemon,
        &format!("UPDATE sessions SET options = '{{' WHERE id = '{optionless}'"),
    );
    damage(&daemon, &bad);
    edit(
        &daemon,
        &format!("UPDATE sessions SET id = 'zz' WHERE id = '{nameless}'"),
    );
    edit(
        &daemon,
        &format!("UPDATE sessions SET id = '{undashed}' WHERE id = '{respelled}'"),
    );

    daemon.start().await;
    let rest = daemon.rest();
    // One that can be read and not opened is shown, and named.
    let shown = sorted(&[good.clone(), vec![optionless.clone()]].concat());
    assert_eq!(listed(&rest).await, shown);
    let name = format!("session.id={optionless}");
    let lines: Vec<String> = daemon.log().lines().map(str::to_owned).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains(&name) && line.contains("could not be recovered")),
        "{lines:#?}"
    );
    let expected = sorted(&[bad.clone(), vec![undashed.clone(), "zz".to_owned()]].concat());
    assert_eq!(unreadable(&rest).await, json!(expected));
    let log = daemon.log();
    for id in &expected {
        let name = format!("session.id=\"{id}\"");
        let mut lines = log.lines();
        let named = lines.any(|line| line.contains(&name) && line.contains("cannot be read"));
        assert!(named, "{id}: {log}");
    }
    let doctor = Command::new(trunkline())
        .args(["doctor", "--data-dir"])
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        told.contains(&format!("{} cannot be read", expected.len())) && told.contains(&bad[0]),
        "{told}"
    );
    for id in &good {
        rest.ask(id, "hello").await;
    }

    // One that lost its keeper since the start.
    let cli = proc::with_env("TRUNKLINE_SESSION", &bad[0]).remove(0);
    let mut stray = Command::new("sleep")
        .arg("90")
        .env_clear()
        .env("TRUNKLINE_DATA_MARK", cli.env("TRUNKLINE_DATA_MARK").unwrap())
        .env("TRUNKLINE_SESSION", &bad[0])
        .env("TRUNKLINE_RUN", Uuid::from_u128(7).to_string())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for id in bad.iter().chain([&optionless]) {
        assert!(!processes(id).is_empty(), "{id}");
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        is_gone(&daemon, id).await;
    }
    assert!(!stray.wait().unwrap().success(), "it was killed");
    // By its beginning nobody is meant; by its name that row.
    assert_eq!(rest.delete("/v1/sessions/z").await.problem(400), "invalid_id");
    let unknown = rest.get("/readyz").await.expect(200)["unknown_sessions"].clone();
    let expected = sorted(&[nameless.clone(), respelled.clone()]);
    assert_eq!(unknown, json!(expected), "who belongs to no row goes on");
    for id in &expected {
        assert!(!processes(id).is_empty(), "{id}");
        rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        is_gone(&daemon, id).await;
    }
    rest.delete("/v1/sessions/zz").await.expect(204);
    rest.delete(&format!("/v1/sessions/{undashed}")).await.expect(204);
    assert_eq!(rest.delete("/v1/sessions/zz").await.problem(400), "invalid_id");
    assert_eq!(unreadable(&rest).await, json!([]));
    assert_eq!(listed(&rest).await, sorted(&good));
    assert!(fs::read_dir(daemon.data_dir().join("sessions")).unwrap().count() <= 2);
}
