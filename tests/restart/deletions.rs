//! Owns the tests of deletions that a daemon died over.

use std::fs;

use serde_json::json;

use crate::support::daemon::TestDaemon;

/// A folder is set aside while its session is deleted: it goes without a row, and comes back with one.
#[tokio::test]
async fn a_deletion_that_the_daemon_died_over_is_done_or_undone() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({ "cwd": daemon.work_dir("a") })).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let records = rest.events(&id, 0).await;
    let sessions = daemon.data_dir().join("sessions");
    daemon.kill();
    let rowless = sessions.join("0196aa00-0000-7000-8000-000000000001.deleted");
    fs::create_dir(&rowless).unwrap();
    fs::write(rowless.join("00000000000000000001.ndjson"), "{}\n").unwrap();
    fs::rename(sessions.join(&id), sessions.join(format!("{id}.deleted"))).unwrap();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(rest.events(&id, 0).await, records);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "and on").await;
    let left = fs::read_dir(&sessions).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, [id.as_str()]);
}
