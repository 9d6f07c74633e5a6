//! Owns working directories that are none, or not allowed.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use serde_json::{Value, json};

use crate::{
    api::common::{assert_nothing_made, id_of, problem},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
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

/// The roots bound the files of an agent, and not only the place where it begins.
#[tokio::test]
async fn added_directories_are_bound_by_the_roots() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let dump = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .fake(json!({ "dump": dump.path() }))
        .start()
        .await;
    let rest = daemon.rest();
    let outside = daemon.work_dir("outside");
    symlink(&outside, root.join("link")).unwrap();
    let (cwd, extra) = (root.join("in"), root.join("extra"));
    fs::create_dir(&cwd).unwrap();
    fs::create_dir(&extra).unwrap();
    for (options, field) in [
        (
            json!({ "additional_directories": [extra, "/etc"] }),
            "additional_directories",
        ),
        (
            json!({ "additional_directories": [root.join("link")] }),
            "additional_directories",
        ),
        (
            json!({ "settings": { "permissions": { "additionalDirectories": ["/etc"] } } }),
            "settings.permissions.additionalDirectories",
        ),
    ] {
        let made = rest
            .post("/v1/sessions", json!({ "cwd": cwd, "options": options }))
            .await;
        let found = problem(made, 422, "invalid_option");
        assert_eq!(found["field"], format!("options.{field}"), "{options}");
    }
    assert_nothing_made(&daemon).await;

    let settings = json!({ "permissions": { "additionalDirectories": [extra], "deny": ["Read(./x)"] } });
    let options = json!({ "additional_directories": [extra], "settings": settings });
    let id = rest.create_ready(json!({ "cwd": cwd, "options": options })).await;
    let mut client = daemon.attach(&id, None).await;
    rest.prompt(&id, &fake_prompt(&json!([{ "ask": { "ids": ["q-1"] } }])))
        .await;
    let approval = rest.pending_approval(&id).await;
    let adds = |directory: &Path| json!([{ "type": "addDirectories", "directories": [directory], "destination": "session" }]);
    let decide = async |directory: &Path| {
        let decision = json!({ "decision": "allow", "updated_permissions": adds(directory) });
        rest.decide(&id, approval["id"].as_str().unwrap(), decision).await
    };
    problem(decide(&outside).await, 400, "invalid_decision");
    let answer = json!({ "behavior": "allow", "updatedPermissions": adds(&outside) });
    let response = json!({ "subtype": "success", "request_id": "q-1", "response": answer });
    client
        .send(&json!({ "type": "control_response", "response": response }))
        .await;
    let request = json!({ "subtype": "register_repo_root", "directory": outside });
    client
        .send(&json!({ "type": "control_request", "request_id": "c-1", "request": request }))
        .await;
    for (request_id, code) in [("q-1", "invalid_decision"), ("c-1", "control_not_allowed")] {
        let error = client
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(
            (&error["request_id"], &error["code"]),
            (&json!(request_id), &json!(code)),
            "{error:#}"
        );
    }
    decide(&extra).await.expect(200);
    rest.in_state(&id, &["idle"]).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);

    // The directory becomes a way out while the session sleeps: the next process does not get it.
    fs::remove_dir(&extra).unwrap();
    symlink(&outside, &extra).unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({})).await;
    rest.in_state(&id, &["idle"]).await;
    let starts = fs::read_to_string(dump.path()).unwrap();
    let with_it: Vec<bool> = starts
        .lines()
        .map(|line| line.contains(extra.to_str().unwrap()))
        .collect();
    assert_eq!(with_it, [true, false], "{starts}");
    let notice = wait_for("the notice", PATIENCE, async || {
        let mut records = rest.events(&id, 0).await.into_iter();
        records.find(|record| record["data"]["code"] == "directories_left_out")
    })
    .await;
    assert_eq!(notice["data"]["directories"], json!([extra, extra]));
    let given = daemon
        .data_dir()
        .join("sessions")
        .join(&id)
        .join("launch/settings.json");
    let given: serde_json::Value = serde_json::from_slice(&fs::read(given).unwrap()).unwrap();
    let left = json!({ "additionalDirectories": [], "deny": ["Read(./x)"] });
    assert_eq!(given["permissions"], left, "the rest of the settings stays");
}

/// A directory that the launch refuses is refused at run time too, and each start looks again at those that were taken.
#[tokio::test]
async fn directories_that_settings_add_at_run_time_are_bound_by_the_roots() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let heard = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_CWD_ROOTS", &root)
        .fake(json!({ "record_stdin": heard.path() }))
        .start()
        .await;
    let rest = daemon.rest();
    let outside = daemon.work_dir("outside");
    let (cwd, extra, stays) = (root.join("in"), root.join("extra"), root.join("stays"));
    for dir in [&cwd, &extra, &stays] {
        fs::create_dir(dir).unwrap();
    }
    symlink(&outside, root.join("link")).unwrap();
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    rest.ask(&id, "hello").await;
    let mut client = daemon.attach(&id, None).await;
    let adding = |directories: Value| json!({ "permissions": { "additionalDirectories": directories } });
    let settings = format!("/v1/sessions/{id}/settings");
    for directories in [
        json!(["/etc"]),
        json!([stays, root.join("link")]),
        json!([1, "../.."]),
    ] {
        let change = json!({ "settings": adding(directories.clone()) });
        problem(rest.patch(&settings, change).await, 422, "control_not_allowed");
        for subtype in ["apply_flag_settings", "update_settings"] {
            let request = json!({ "subtype": subtype, "source": "localSettings", "settings": adding(directories.clone()) });
            client
                .send(&json!({ "type": "control_request", "request_id": "c-1", "request": request }))
                .await;
            let error = client
                .find("the refusal", |frame| frame["type"] == "trunkline.error")
                .await;
            assert_eq!(error["code"], "control_not_allowed", "{error:#}");
        }
    }
    let both = json!({ "settings": adding(json!([extra, stays])) });
    rest.patch(&settings, both).await.expect(200);
    let given = || {
        let text = fs::read_to_string(heard.path()).unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let all = lines.filter(|line| line["request"]["subtype"] == "apply_flag_settings");
        all.map(|line| line["request"]["settings"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(given(), [adding(json!([extra, stays]))]);
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    fs::remove_dir(&extra).unwrap();
    symlink(&outside, &extra).unwrap();
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    assert_eq!(given()[1..], [adding(json!([stays]))]);
    let notice = wait_for("the notice", PATIENCE, async || {
        let mut records = rest.events(&id, 0).await.into_iter();
        records.find(|record| record["data"]["code"] == "directories_left_out")
    })
    .await;
    assert_eq!(notice["data"]["directories"], json!([extra]));
}

/// A program that has the daemon obey the permissions of files, as one that is not root does anyway.
fn obeying() -> Vec<String> {
    const RIGHTS: &str = "-dac_override,-dac_read_search";
    if !nix::unistd::geteuid().is_root() {
        return Vec::new();
    }
    // From the package util-linux. Where it is not, or may not do this, the daemon does not start and the test fails.
    vec![
        "setpriv".to_owned(),
        format!("--bounding-set={RIGHTS}"),
        format!("--inh-caps={RIGHTS}"),
    ]
}

/// Sets the permissions of a directory until the end of the test.
struct Closed<'d>(&'d Path);

impl<'d> Closed<'d> {
    fn with(dir: &'d Path, mode: u32) -> Self {
        fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
        Self(dir)
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        fs::set_permissions(self.0, Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_listed_or_entered_is_named_and_nothing_is_left() {
    let daemon = TestDaemon::with_fake().launcher(obeying()).start().await;
    let rest = daemon.rest();
    let dir = daemon.work_dir("closed");
    let below = dir.join("below");
    fs::create_dir(&below).unwrap();
    let is_named = |found: &serde_json::Value, cwd: &Path| {
        assert_eq!(found["field"], "cwd");
        let detail = found["detail"].as_str().unwrap();
        assert!(detail.contains(cwd.to_str().unwrap()), "{detail}");
    };
    // Neither; listed only; entered only; and none of it by its owner.
    for mode in [0o000, 0o600, 0o300, 0o077] {
        let _closed = Closed::with(&dir, mode);
        let reply = rest.post("/v1/sessions", json!({"cwd": dir})).await;
        is_named(&problem(reply, 422, "cwd_unreadable"), &dir);
        if mode & 0o100 == 0 {
            let reply = rest.post("/v1/sessions", json!({"cwd": below})).await;
            is_named(&problem(reply, 422, "cwd_unreadable"), &below);
        }
        assert_nothing_made(&daemon).await;
    }

    let id = id_of(&rest.create(json!({"cwd": dir, "prompt": "hello"})).await);
    rest.in_state(&id, &["idle"]).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    for mode in [0o000, 0o600, 0o300] {
        let _closed = Closed::with(&dir, mode);
        for verb in ["resume", "fork"] {
            let reply = rest.lifecycle(&id, verb, json!({})).await;
            is_named(&problem(reply, 422, "cwd_unreadable"), &dir);
        }
        assert!(daemon.session_processes().is_empty());
        assert_eq!(rest.session(&id).await["state"], "stopped");
        let sessions = rest.get("/v1/sessions").await.expect(200);
        assert_eq!(sessions["items"].as_array().unwrap().len(), 1, "{sessions:#}");
    }
    // A file that cannot be run is something else.
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
}
