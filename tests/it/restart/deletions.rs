//! Owns the tests of deletions that a daemon died over.

use std::fs;

use serde_json::json;

use crate::support::daemon::TestDaemon;

/// A folder is set aside while its session is deleted, and the deletion is ended at the next start, also one of a version before.
#[tokio::test]
async fn a_deletion_that_the_daemon_died_over_is_ended_by_the_next_one() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
        rest.ask(&id, "hello").await;
        rest.lifecycle(&id, "stop", json!({})).await.expect(200);
        ids.push(id);
    }
    let sessions = daemon.data_dir().join("sessions");
    daemon.kill();
    let aside = |id: &str, name: String| fs::rename(sessions.join(id), sessions.join(name)).unwrap();
    aside(&ids[0], format!(".deleted-{}", ids[0]));
    aside(&ids[1], format!("{}.deleted", ids[1]));
    let rowless = sessions.join(".deleted-0196aa00-0000-7000-8000-000000000001");
    fs::create_dir(&rowless).unwrap();
    fs::write(rowless.join("00000000000000000001.ndjson"), "{}\n").unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    for id in &ids[..2] {
        rest.get(&format!("/v1/sessions/{id}")).await.problem(404);
    }
    rest.lifecycle(&ids[2], "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&ids[2], "and on").await;
    let left = fs::read_dir(&sessions).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, [ids[2].as_str()]);
}
