//! Owns working directories that are none, or not allowed.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::{
    common::{assert_nothing_made, id_of, problem},
    support::daemon::TestDaemon,
};

#[tokio::test]
async fn a_directory_that_is_none_has_its_own_error() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("w");
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    let dangling = dir.join("dangling");
    symlink(dir.join("nowhere"), &dangling).unwrap();
    let cycle = dir.join("cycle");
    symlink(&cycle, &cycle).unwrap();
    let text = |path: &std::path::Path| path.display().to_string();
    for (cwd, status, code) in [
        (text(&dir.join("missing")), 422, "cwd_missing"),
        (text(&dangling), 422, "cwd_missing"),
        (text(&file), 422, "cwd_not_a_directory"),
        (text(&file.join("below")), 422, "cwd_not_a_directory"),
        (text(&cycle), 422, "cwd_unreadable"),
        (format!("/{}", "x".repeat(5000)), 422, "cwd_unreadable"),
        ("relative/path".into(), 422, "cwd_not_absolute"),
        ("~/project".into(), 422, "cwd_not_absolute"),
        (String::new(), 422, "cwd_not_absolute"),
        (" /".into(), 422, "cwd_not_absolute"),
        (format!("{}\0/etc", dir.display()), 422, "cwd_not_absolute"),
        ("-x".into(), 422, "cwd_not_absolute"),
    ] {
        let found = problem(rest.post("/v1/sessions", json!({"cwd": cwd})).await, status, code);
        assert_eq!(found["field"], "cwd", "{cwd:?}");
    }
    assert_nothing_made(&daemon).await;
}

#[tokio::test]
async fn roots_hold_for_links_and_detours_and_at_every_start() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .start()
        .await;
    let rest = daemon.rest();
    let outside = daemon.work_dir("outside");
    symlink(&outside, root.join("link")).unwrap();
    fs::create_dir_all(root.join("in/side")).unwrap();
    for cwd in [
        outside.display().to_string(),
        "/".into(),
        root.join("link").display().to_string(),
        format!("{}/../..", root.display()),
        format!("{}/in/../../", root.display()),
    ] {
        problem(
            rest.post("/v1/sessions", json!({"cwd": cwd})).await,
            403,
            "cwd_outside_roots",
        );
    }
    assert_nothing_made(&daemon).await;

    let session = rest
        .create(json!({"cwd": root.join("in/side"), "prompt": "hello"}))
        .await;
    let id = id_of(&session);
    rest.in_state(&id, &["idle"]).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    // The directory becomes a way out while the session sleeps.
    fs::remove_dir(root.join("in/side")).unwrap();
    symlink(&outside, root.join("in/side")).unwrap();
    problem(
        rest.lifecycle(&id, "resume", json!({})).await,
        403,
        "cwd_outside_roots",
    );
    problem(
        rest.lifecycle(&id, "fork", json!({})).await,
        403,
        "cwd_outside_roots",
    );
    assert!(daemon.session_processes().is_empty());
    assert_eq!(rest.session(&id).await["state"], "stopped");
}
