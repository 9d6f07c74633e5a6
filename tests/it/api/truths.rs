//! Owns small promises that clients rely on without a thought: that one prompt is the same by every transport, that a cursor is of
//! its own list, and that a directory is found by any of its names.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    daemon::TestDaemon,
    event_stream::EventStream,
    programs::fake_prompt,
    rest::Rest,
    wait::{PATIENCE, wait_for},
};

#[tokio::test]
async fn a_prompt_is_the_same_by_rest_and_by_socket_however_it_is_spelled() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut socket = daemon.attach(&id, None).await;
    let uuid = Uuid::new_v4();
    let send = async |text: &str| {
        let body = json!({"text": text, "uuid": uuid});
        rest.post(&format!("/v1/sessions/{id}/messages"), body).await
    };
    assert_eq!(send("one").await.expect(202)["repeated"], false);
    rest.in_state(&id, &["idle"]).await;
    let blocks = json!([{"type": "text", "text": "one"}]);
    for message in [
        json!({"role": "user", "content": "one"}),
        json!({"content": blocks, "role": "user"}),
    ] {
        socket
            .send(&json!({"uuid": uuid, "message": message, "type": "user"}))
            .await;
        let ack = socket
            .find("the ack", |frame| frame["type"] == "trunkline.ack")
            .await;
        assert_eq!(ack["repeated"], true, "{ack:#}");
    }
    let told = async |socket: &mut crate::support::ws::Ws, line: Value| {
        socket.send(&line).await;
        let error = socket
            .find("a refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        error["code"].as_str().unwrap().to_owned()
    };
    let other = json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": "two"}});
    assert_eq!(told(&mut socket, other).await, "prompt_conflict");
    assert_eq!(send("two").await.problem(409), "prompt_conflict");

    // One that came by the socket, and a priority that there is not.
    let uuid = Uuid::new_v4();
    let mut line = json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": "three"}});
    socket.send(&line).await;
    let is_ack = |frame: &Value| frame["type"] == "trunkline.ack" && frame["uuid"] == uuid.to_string();
    socket.find("the ack", is_ack).await;
    let body = json!({"text": "three", "uuid": uuid});
    let again = rest.post(&format!("/v1/sessions/{id}/messages"), body).await;
    assert_eq!(again.expect(202)["repeated"], true);
    line["uuid"] = json!(Uuid::new_v4());
    line["priority"] = json!("urgent");
    assert_eq!(told(&mut socket, line).await, "invalid_line");
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 2);
}

#[tokio::test]
async fn an_interrupt_right_behind_a_prompt_is_meant_for_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut socket = daemon.attach(&id, None).await;
    let slow = fake_prompt(&json!([{"sleep_ms": 5000}, {"text": "too late"}]));
    for number in 0..4 {
        let request_id = format!("i{number}");
        let prompt = json!({"type": "user", "message": {"role": "user", "content": slow}});
        socket.send(&prompt).await;
        let request = json!({"subtype": "interrupt"});
        socket
            .send(&json!({"type": "control_request", "request_id": request_id, "request": request}))
            .await;
        let is_answer = |frame: &Value| frame["response"]["request_id"] == request_id;
        socket.find("the answer", is_answer).await;
        rest.in_state(&id, &["idle"]).await;
    }
    // Between the prompt and its turn the CLI must be told what the interrupt is meant for. The fake one misses some that come
    // just as a turn begins.
    let records = rest.events(&id, 0).await;
    let sent = |record: &&Value| record["data"]["request"]["subtype"] == "interrupt";
    let mut sent = records.iter().filter(sent);
    assert!(sent.any(|record| record["data"]["request"]["cancel_queued"] == true));
}

/// A session with two turns, in each of which somebody decided.
async fn decided_twice(rest: &Rest, cwd: &std::path::Path) -> String {
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    for number in 0..2 {
        let input = json!({"command": format!("needle {number}")});
        let ask = json!([{"ask": {"ids": [format!("r{number}")], "input": input}}, {"text": "needle"}]);
        rest.prompt(&id, &fake_prompt(&ask)).await;
        let approval = rest.pending_approval(&id).await;
        let approval = approval["id"].as_str().unwrap();
        rest.decide(&id, approval, json!({"decision": "allow"}))
            .await
            .expect(200);
        rest.in_state(&id, &["idle"]).await;
    }
    id
}

#[tokio::test]
async fn a_cursor_is_of_the_list_of_its_session_and_a_directory_has_many_names() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("w").canonicalize().unwrap();
    let (one, other) = (decided_twice(&rest, &cwd).await, decided_twice(&rest, &cwd).await);
    for list in ["turns?", "messages?", "approvals?", "find?q=needle&"] {
        let path = |id: &str, cursor: &str| format!("/v1/sessions/{id}/{list}limit=1{cursor}");
        let page = rest.get(&path(&one, "")).await.expect(200);
        let cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
        let next = rest.get(&path(&one, &cursor)).await.expect(200);
        assert_ne!(next["items"], page["items"], "{list}");
        assert_eq!(
            rest.get(&path(&other, &cursor)).await.problem(400),
            "invalid_cursor",
            "{list}"
        );
    }

    let link = cwd.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&cwd, &link).unwrap();
    let gone = daemon.work_dir("gone").canonicalize().unwrap();
    let lost = rest.create_ready(json!({"cwd": gone})).await;
    std::fs::remove_dir(&gone).unwrap();
    for (name, expected) in [
        (cwd.display().to_string(), vec![&other, &one]),
        (format!("{}/", cwd.display()), vec![&other, &one]),
        (link.display().to_string(), vec![&other, &one]),
        (format!("{}//", gone.display()), vec![&lost]),
    ] {
        let found = rest.get(&format!("/v1/sessions?cwd={name}")).await.expect(200);
        let items = found["items"].as_array().unwrap().iter();
        let ids: Vec<_> = items.map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{name}");
    }
    let mut lobby = EventStream::open(&rest, &format!("/v1/events?cwd={}", link.display()), None).await;
    let snapshot = lobby.next().await.data;
    assert_eq!(snapshot["sessions"].as_array().unwrap().len(), 2, "{snapshot:#}");
}

#[tokio::test]
async fn a_daemon_in_a_directory_that_is_gone_can_be_restarted() {
    let script = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@""#;
    let daemon = TestDaemon::with_fake()
        .launcher(["sh", "-c", script])
        .start()
        .await;
    let rest = daemon.rest();
    let before = rest.get("/readyz").await.expect(200);
    let restarting = rest.post("/v1/daemon/restart", json!({})).await.expect(202);
    assert_eq!(restarting["started_at"], before["started_at"]);
    wait_for("the next daemon is ready", PATIENCE, async || {
        let request = rest.builder(Method::GET, "/readyz").send().await.ok()?;
        let ready: Value = request.json().await.ok()?;
        (ready["started_at"] != before["started_at"]).then_some(())
    })
    .await;
}
