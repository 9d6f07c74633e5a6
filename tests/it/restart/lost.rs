//! Owns the tests of a database that is gone while its sessions are not.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::{
    daemon::TestDaemon,
    programs::{clean_env, trunkline},
};

/// Moves the database, with what SQLite keeps beside it, to another name.
fn rename(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let side = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        // After a clean end there is only one file.
        let _ = fs::rename(side(from), side(to));
    }
}

/// The words of `doctor`, and whether it found something bad.
#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn doctor(daemon: &TestDaemon) -> (String, bool) {
    let output = Command::new(trunkline())
        .args(["doctor", "--data-dir"])
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    (told, output.status.code() == Some(1))
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_as_it_is() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "hello").await;
    let pid = rest.session(&id).await["cli"]["pid"].clone();
    daemon.kill();
    let (database, aside) = (daemon.database(), daemon.data_dir().join("aside"));
    rename(&database, &aside);
    make_foreign(&database);
    let before = fs::read(&database).unwrap();
    let said = daemon.log().len();
    daemon.launch();
    let ended = daemon.ready_or_ended().await;
    assert_eq!(ended.unwrap_err().code(), Some(1), "{}", daemon.log());
    let said = daemon.log().split_off(said);
    let lines = said.lines().filter(|line| line.contains("trunkline.db"));
    let lines: Vec<&str> = lines.collect();
    assert!(
        matches!(lines[..], [line] if line.contains("of another program")),
        "{said}"
    );
    let (told, is_bad) = doctor(&daemon);
    assert!(is_bad && told.contains("of another program"), "{told}");
    assert_eq!(fs::read(&database).unwrap(), before);

    rename(&aside, &database);
    daemon.start().await;
    let view = daemon.rest().session(&id).await;
    assert_eq!(view["cli"]["pid"], pid, "{view:#}");
    daemon.rest().ask(&id, "and on").await;
}

/// The tables of another program in the format of our database.
#[expect(clippy::disallowed_methods, reason = "another program makes the database")]
fn make_foreign(database: &Path) {
    let program = "import sqlite3, sys\n\
                   db = sqlite3.connect(sys.argv[1])\n\
                   db.execute('CREATE TABLE theirs (x)')\n\
                   db.commit()";
    let made = Command::new("python3")
        .args(["-c", program])
        .arg(database)
        .status();
    assert!(made.unwrap().success());
}

#[tokio::test]
async fn no_session_is_made_while_the_database_is_gone() {
    let daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    rest.ask(&id, "hello").await;
    let (database, aside) = (daemon.database(), daemon.data_dir().join("aside"));
    for is_swapped in [false, true] {
        fs::rename(&database, &aside).unwrap();
        if is_swapped {
            fs::copy(&aside, &database).unwrap();
        }
        let unready = rest.get("/readyz").await.expect(503);
        let detail = unready["detail"].as_str().unwrap();
        assert!(detail.contains("moved or deleted"), "{unready:#}");
        let refused = rest.post("/v1/sessions", json!({ "cwd": cwd })).await;
        assert_eq!(refused.problem(503), "storage_unavailable");
        let refused = rest.lifecycle(&id, "fork", json!({})).await;
        assert_eq!(refused.problem(503), "storage_unavailable");
        let refused = rest.post("/v1/daemon/restart", json!({})).await;
        assert_eq!(refused.problem(409), "restart_refused");
        fs::rename(&aside, &database).unwrap();
        rest.get("/readyz").await.expect(200);
    }
    rest.create_ready(json!({ "cwd": cwd })).await;
}
