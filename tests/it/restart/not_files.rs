//! Owns what lies in the place of a file of the data directory and is none: no start waits for it, and each is either set aside
//! or named.

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::json;

use crate::support::{
    daemon::TestDaemon,
    wait::{PATIENCE, wait_until},
};

/// Makes something of the kind in the place of what is there.
fn put(kind: &str, path: &Path) {
    let _ = fs::remove_file(path);
    match kind {
        "a FIFO" => mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(),
        "a socket" => drop(UnixListener::bind(path).unwrap()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_the_daemon_cannot_do_without_is_named() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    assert!(daemon.stop().success());
    let data = daemon.data_dir();
    for kind in ["a FIFO", "a socket"] {
        for name in [
            "lock",
            "mark",
            "token",
            "viewer-token",
            "trunkline.db",
            "trunkline.db-wal",
            "trunkline.db-shm",
            "trunkline.db-journal",
        ] {
            let path = data.join(name);
            let aside = data.join("aside");
            let was_there = fs::rename(&path, &aside).is_ok();
            put(kind, &path);
            let said = daemon.log().len();
            daemon.launch();
            let ended = daemon.ready_or_ended().await;
            assert!(
                ended.is_err_and(|status| !status.success()),
                "{name}: {}",
                daemon.log()
            );
            let said = daemon.log().split_off(said);
            let is_named = said.contains(path.to_str().unwrap());
            let what = if name.ends_with("token") {
                "not a regular file"
            } else {
                kind
            };
            assert!(is_named && said.contains(what), "{kind} as {name}: {said}");
            fs::remove_file(&path).unwrap();
            if was_there {
                fs::rename(&aside, &path).unwrap();
            }
        }
    }
    daemon.start().await;
}

#[tokio::test]
async fn what_the_daemon_can_do_without_is_set_aside() {
    let mut daemon = TestDaemon::with_fake().allow_errors().start().await;
    let rest = daemon.rest();
    let mut sessions = Vec::new();
    for name in ["identity", "draft", "lock", "segment"] {
        let id = rest.create_ready(json!({"cwd": daemon.work_dir(name)})).await;
        rest.ask(&id, "hello").await;
        rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        sessions.push(id);
    }
    let [identity, draft, lock, segment] = <[String; 4]>::try_from(sessions).unwrap();
    assert!(daemon.stop().success());
    let data = daemon.data_dir();
    let folder = |id: &str| data.join("sessions").join(id);
    for kind in ["a FIFO", "a socket"] {
        let leases = data.join("leases");
        let gone: Vec<PathBuf> = [
            leases.join("0190f0f0-0000-4000-8000-000000000001"),
            leases.join("whatever"),
            data.join("warm/0190f0f0-0000-7000-8000-000000000002"),
        ]
        .into();
        for path in &gone {
            put(kind, path);
        }
        put(kind, &data.join("daemon.json"));
        put(kind, &data.join("daemon.json.new"));
        put(kind, &folder(&identity).join("keeper.json"));
        put(kind, &folder(&draft).join("keeper.new"));
        let [lock_file, segment_file] = [
            folder(&lock).join("lock"),
            folder(&segment).join("00000000000000000001.ndjson"),
        ];
        let kept = data.join("kept");
        fs::rename(&segment_file, &kept).unwrap();
        put(kind, &lock_file);
        put(kind, &segment_file);
        daemon.launch();
        // The test would wait itself for who writes into it.
        let address = data.join("daemon.json");
        wait_until("the daemon says where it is", PATIENCE, || address.is_file()).await;
        daemon.ready().await;
        for path in &gone {
            assert!(!path.exists(), "{kind} stays as {}", path.display());
        }
        let rest = daemon.rest();
        let list = rest.get("/v1/sessions").await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 4, "{list:#}");
        for id in [&identity, &draft] {
            rest.lifecycle(id, "resume?wait=ready", json!({}))
                .await
                .expect(200);
            rest.ask(id, "again").await;
            rest.lifecycle(id, "stop", json!({})).await.expect(200);
        }
        // A journal that cannot be locked or read is said to be so.
        for id in [&lock, &segment] {
            let reply = rest.lifecycle(id, "resume?wait=ready", json!({})).await;
            assert!(!reply.status.is_success(), "{kind}: {:#}", reply.body);
            assert!(reply.body["code"].is_string(), "{kind}: {:#}", reply.body);
        }
        assert!(daemon.stop().success());
        fs::remove_file(&lock_file).unwrap();
        fs::rename(&kept, &segment_file).unwrap();
    }
    daemon.start().await;
    let rest = daemon.rest();
    for id in [&lock, &segment] {
        rest.lifecycle(id, "resume?wait=ready", json!({}))
            .await
            .expect(200);
        rest.ask(id, "again").await;
    }
    // Also a session whose journal cannot be read can be deleted.
    rest.lifecycle(&segment, "stop", json!({})).await.expect(200);
    assert!(daemon.stop().success());
    put("a FIFO", &folder(&segment).join("00000000000000000001.ndjson"));
    daemon.start().await;
    daemon
        .rest()
        .delete(&format!("/v1/sessions/{segment}"))
        .await
        .expect(204);
    assert!(!folder(&segment).exists());
}
