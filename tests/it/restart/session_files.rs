//! Owns the tests of the file of a session, which has what no journal says of it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    daemon::TestDaemon,
    programs::{clean_env, trunkline},
    wait::{PATIENCE, wait_until},
};

const SECRET: &str = "a-secret-that-only-the-file-has";

fn path(daemon: &TestDaemon, id: &str) -> PathBuf {
    daemon.data_dir().join("sessions").join(id).join("session.json")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "starts the program under test")]
fn doctor(daemon: &TestDaemon) -> String {
    let output = Command::new(trunkline())
        .args(["doctor", "--data-dir"])
        .arg(daemon.data_dir())
        .env_clear()
        .envs(clean_env(&daemon.home(), "http://127.0.0.1:9"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn a_session_and_its_fork_have_their_settings_in_a_file_of_their_own() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let options = json!({ "env": { "KEY": SECRET } });
    let id = rest
        .create_ready(json!({ "cwd": cwd, "title": "first", "options": options }))
        .await;
    rest.ask(&id, "hello").await;
    let file = path(&daemon, &id);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let made = read(&file);
    assert_eq!(
        (&made["title"], &made["options"]["env"]["KEY"]),
        (&json!("first"), &json!(SECRET))
    );
    let patch = json!({ "title": "second", "tag": "t", "labels": { "a": "b" } });
    rest.patch(&format!("/v1/sessions/{id}"), patch).await.expect(200);
    let edited = read(&file);
    assert_eq!(edited["title"], "second", "{edited:#}");
    assert_eq!(
        (&edited["tag"], &edited["labels"]),
        (&json!("t"), &json!({ "a": "b" }))
    );
    assert_eq!(edited["revision"], made["revision"].as_u64().unwrap() + 1);
    let fork = rest.lifecycle(&id, "fork", json!({})).await.expect(201);
    let fork = fork["id"].as_str().unwrap();
    let forked = read(&path(&daemon, fork));
    assert_eq!(
        (&forked["parent"], &forked["title"]),
        (&json!(id), &json!("second"))
    );
    assert_eq!(forked["options"]["env"]["KEY"], SECRET);
    for id in [id.as_str(), fork] {
        assert!(
            !daemon.journal(id).contains(SECRET),
            "a journal is streamed to clients"
        );
    }
    rest.delete(&format!("/v1/sessions/{fork}")).await.expect(204);
    assert!(!path(&daemon, fork).exists());
}

#[tokio::test]
async fn a_file_is_whole_and_has_what_was_answered_over_kills() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let cwd = daemon.work_dir("a");
    let id = daemon.rest().create_ready(json!({ "cwd": cwd })).await;
    let file = path(&daemon, &id);
    let route = format!("/v1/sessions/{id}");
    // Large enough for a write that is cut short.
    let filler = "x".repeat(200);
    for round in 0..5 {
        let rest = daemon.rest();
        let (told, mut answers) = tokio::sync::watch::channel(0);
        let (path, filler) = (route.clone(), filler.clone());
        let mut edits = JoinSet::new();
        edits.spawn(async move {
            for number in 1.. {
                let labels = (0..40).map(|key| (format!("k{key}"), json!(filler)));
                let labels: serde_json::Map<_, _> = labels.collect();
                let request = rest.builder(reqwest::Method::PATCH, &path);
                let body = json!({ "title": format!("{round}-{number}"), "labels": labels });
                let answer = request.json(&body).send().await;
                if !answer.is_ok_and(|answer| answer.status().is_success()) || told.send(number).is_err() {
                    return;
                }
            }
        });
        answers
            .wait_for(|answered| *answered >= 10 + round)
            .await
            .unwrap();
        daemon.kill();
        edits.shutdown().await;
        let answered = *answers.borrow();
        let now = read(&file);
        let title = now["title"].as_str().unwrap();
        let number: u64 = title.strip_prefix(&format!("{round}-")).unwrap().parse().unwrap();
        assert!(
            number >= answered,
            "{title} is older than what was answered, {answered}"
        );
        assert_eq!(now["labels"].as_object().unwrap().len(), 40);
        daemon.start().await;
        let shown = daemon.rest().session(&id).await["title"].clone();
        let shown: u64 = shown
            .as_str()
            .unwrap()
            .strip_prefix(&format!("{round}-"))
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            (answered..=number).contains(&shown),
            "{answered} {shown} {number}"
        );
    }
}

/// A daemon that dies over a change may have written the file and not the row. Nobody was told of the change, so it is in neither
/// place from the next start on, also when the database is made again.
#[tokio::test]
async fn a_file_that_is_ahead_of_the_database_is_brought_back() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest
        .create_ready(json!({ "cwd": daemon.work_dir("a"), "title": "told" }))
        .await;
    daemon.kill();
    let file = path(&daemon, &id);
    let mut ahead = read(&file);
    ahead["title"] = json!("not told");
    ahead["revision"] = json!(ahead["revision"].as_u64().unwrap() + 1);
    fs::write(&file, ahead.to_string()).unwrap();
    daemon.start().await;
    assert_eq!(daemon.rest().session(&id).await["title"], "told");
    wait_until("the file is as the database", PATIENCE, || {
        read(&file)["title"] == "told"
    })
    .await;
    daemon.kill();
    super::rebuild::lose(&daemon);
    daemon.start().await;
    assert_eq!(daemon.rest().session(&id).await["title"], "told");
}

#[tokio::test]
async fn sessions_of_a_version_before_get_their_files_and_doctor_counts_them() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    let mut sessions = Vec::new();
    for title in ["a", "b"] {
        let id = rest.create_ready(json!({ "cwd": cwd, "title": title })).await;
        rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        sessions.push(id);
    }
    assert!(!doctor(&daemon).contains("session.json"));
    for id in &sessions {
        fs::remove_file(path(&daemon, id)).unwrap();
    }
    let findings = rest.get("/v1/daemon/doctor").await.expect(200);
    let findings = findings["items"].as_array().unwrap();
    let finding = findings.iter().find(|it| it["name"] == "session files").unwrap();
    assert_eq!(finding["found"], "2 sessions have no session.json", "{finding:#}");
    daemon.kill();
    assert!(doctor(&daemon).contains("2 sessions have no session.json"));
    daemon.start().await;
    let files: Vec<PathBuf> = sessions.iter().map(|id| path(&daemon, id)).collect();
    wait_until("the files are written", PATIENCE, || {
        files.iter().all(|file| file.exists())
    })
    .await;
    assert_eq!(read(&files[0])["title"], "a");
    assert!(!doctor(&daemon).contains("session.json"));
}
