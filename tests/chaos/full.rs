//! Owns what needs a disk of its own that is full, and no chance.

use std::{fs, io::Write as _};

use serde_json::json;

use crate::{
    place,
    support::{daemon::TestDaemon, rest::Rest, wait::PATIENCE, wait::wait_for},
};

/// A session is refused when it has to wait for its start and that cannot be written down: then nothing of it stays.
#[test]
fn a_session_that_a_full_disk_refuses_leaves_nothing() {
    if !place::is_inside() {
        place::enter("full::a_session_that_a_full_disk_refuses_leaves_nothing");
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let daemon = TestDaemon::with_fake()
            .data_disk(16 << 20)
            .env("TRUNKLINE_LIMITS_PARALLEL_STARTS", "1")
            .allow_errors()
            .start()
            .await;
        let rest = daemon.rest();
        let (first, gate) = (daemon.work_dir("first"), daemon.home().join("gate"));
        let settings = json!({ "init": { "wait_file": gate } });
        fs::write(first.join(".fake-claude.json"), settings.to_string()).unwrap();
        let first = rest.create(json!({ "cwd": first })).await["id"].clone();
        let ballast = daemon.data_dir().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        let block = vec![0; 4096];
        while file.write_all(&block).is_ok() {}
        // What is open holds its room.
        drop(file);

        let second = json!({ "cwd": daemon.work_dir("second"), "prompt": "hello" });
        let refused = rest.post("/v1/sessions", second.clone()).await;
        assert_eq!(refused.problem(503), "storage_unavailable");
        let folders = fs::read_dir(daemon.data_dir().join("sessions")).unwrap();
        let folders: Vec<_> = folders.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(folders, [first.as_str().unwrap()]);

        fs::remove_file(ballast).unwrap();
        let second = wait_for("the store to catch up", PATIENCE, async || {
            made(&rest, &second).await
        })
        .await;
        fs::write(gate, "").unwrap();
        rest.in_state(&second, &["idle"]).await;
    });
}

async fn made(rest: &Rest, session: &serde_json::Value) -> Option<String> {
    let reply = rest.post("/v1/sessions", session.clone()).await;
    (reply.status.as_u16() == 201).then(|| reply.body["id"].as_str().unwrap().to_owned())
}
