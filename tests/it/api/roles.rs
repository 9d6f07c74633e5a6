//! Owns the tests of viewers at a session that lives: they see all of it, and reach nothing in it.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::support::{
    daemon::TestDaemon,
    lines::{LineSocket, auth_line},
    programs::fake_prompt,
    wait::{PATIENCE, wait_for},
    ws::Ws,
};

async fn with_session() -> (TestDaemon, String) {
    let daemon = TestDaemon::with_fake().start().await;
    let session = json!({"cwd": daemon.work_dir("w")});
    let id = daemon.rest().create_ready(session).await;
    (daemon, id)
}

async fn attach(daemon: &TestDaemon, id: &str, query: &str) -> Result<Ws, Error> {
    let path = format!("/v1/sessions/{id}/ws{query}");
    Ws::try_connect(
        daemon.url(),
        &path,
        &["trunkline.v1"],
        Some(&daemon.viewer_token()),
    )
    .await
}

#[track_caller]
fn assert_forbidden<T>(attached: Result<T, Error>) {
    match attached {
        Err(Error::Http(response)) => {
            assert_eq!(response.status(), 403);
            let body: Value = serde_json::from_slice(response.body().as_ref().unwrap()).unwrap();
            assert_eq!(body["code"], "role_forbidden", "{body:#}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn a_viewer_sees_the_records_and_nothing_it_sends_reaches_the_session() {
    let (daemon, id) = with_session().await;
    let mut viewer = attach(&daemon, &id, "").await.unwrap();
    assert_eq!(viewer.next().await["type"], "trunkline.snapshot");
    let uuid = "0b1f4e9c-6a86-4f0e-9a77-1b8d4c5f0001";
    let message = json!({"role": "user", "content": "PLANTED"});
    let answer = json!({"subtype": "success", "request_id": "PLANTED-3", "response": {}});
    for (line, member, name) in [
        (
            json!({"type": "user", "uuid": uuid, "message": message}),
            "uuid",
            uuid,
        ),
        (
            json!({"type": "control_request", "request_id": "PLANTED-2", "request": {"subtype": "interrupt"}}),
            "request_id",
            "PLANTED-2",
        ),
        (
            json!({"type": "control_response", "response": answer}),
            "request_id",
            "PLANTED-3",
        ),
        (
            json!({"type": "control_cancel_request", "request_id": "PLANTED-4"}),
            "request_id",
            "PLANTED-4",
        ),
    ] {
        viewer.send(&line).await;
        let is_error = |frame: &Value| frame["type"] == "trunkline.error";
        let error = viewer.find("the refusal", is_error).await;
        assert_eq!(
            (&error["type"], &error["code"], &error[member]),
            (&json!("trunkline.error"), &json!("role_forbidden"), &json!(name)),
            "{error:#}"
        );
    }
    viewer.send(&json!({"type": "keep_alive"})).await;
    viewer.send(&json!({"type": "trunkline.ping", "id": 1})).await;
    let is_answer =
        |frame: &Value| ["trunkline.pong", "trunkline.error"].contains(&frame["type"].as_str().unwrap_or(""));
    assert_eq!(
        viewer.find("the answer", is_answer).await["type"],
        "trunkline.pong"
    );

    let said = daemon
        .rest()
        .ask(&id, &fake_prompt(&json!([{"text": "hello viewer"}])))
        .await;
    assert_eq!(said["result"]["subtype"], "success", "{said:#}");
    let seen = viewer.cli_line("assistant").await;
    assert!(seen.to_string().contains("hello viewer"), "{seen:#}");
    assert!(!daemon.journal(&id).contains("PLANTED"));
    // A frame full of lines is not answered line by line without an end.
    viewer.send_text(&"{}\n".repeat(1_000)).await;
    let (code, reason) = viewer.close_frame().await;
    assert_eq!(code, 4403);
    assert!(reason.starts_with("role_forbidden: "), "{reason}");
}

#[tokio::test]
async fn a_viewer_takes_no_name_and_starts_no_process() {
    let (daemon, id) = with_session().await;
    assert_forbidden(attach(&daemon, &id, "?client_id=editor").await);
    let bearer = format!("Bearer {}", daemon.viewer_token());
    let headers = [("authorization", bearer.as_str())];
    let rest = daemon.rest();
    rest.post(&format!("/v1/sessions/{id}/stop"), json!({}))
        .await
        .expect(200);
    let path = format!("/v1/sessions/{id}/ws?protocol=ndjson&resume=true");
    assert_forbidden(LineSocket::open(&daemon, &path, &headers).await);
    let mut unproven = LineSocket::open(&daemon, &path, &[]).await.unwrap();
    unproven.send(&auth_line(&daemon.viewer_token())).await;
    assert_eq!(unproven.close_frame().await.0, 4403);
    assert_eq!(rest.session(&id).await["state"], "stopped");
}

#[tokio::test]
async fn a_viewer_of_ndjson_sees_the_lines_and_is_closed_when_it_speaks() {
    let (daemon, id) = with_session().await;
    let rest = daemon.rest();
    let viewer = daemon.viewer_token();
    let bearer = format!("Bearer {viewer}");
    let path = format!("/v1/sessions/{id}/ws?protocol=ndjson");
    let headers = [("authorization", bearer.as_str())];
    let mut by_header = LineSocket::open(&daemon, &path, &headers).await.unwrap();
    let mut by_line = LineSocket::open(&daemon, &path, &[]).await.unwrap();
    // The operator's token in a line makes no operator of a socket that a viewer opened.
    by_header.send(&auth_line(daemon.token())).await;
    by_line.send(&auth_line(&viewer)).await;
    for client in [&mut by_header, &mut by_line] {
        client.send(&json!({"type": "keep_alive"})).await;
    }
    let initialize =
        json!({"type": "control_request", "request_id": "PLANTED", "request": {"subtype": "initialize"}});
    for client in [&mut by_header, &mut by_line] {
        // Turns go on until the client, which may not be attached yet, has seen one.
        let turns = async {
            loop {
                rest.ask(&id, &fake_prompt(&json!([{"text": "hello"}]))).await;
            }
        };
        tokio::select! {
            _ = client.line("assistant") => {}
            () = turns => {}
        }
        client.send(&initialize).await;
        let (code, reason) = client.close_frame().await;
        assert_eq!(code, 4403);
        assert!(reason.starts_with("role_forbidden: "), "{reason}");
    }
    // One that speaks behind its proof is closed as well.
    let mut hasty = LineSocket::open(&daemon, &path, &[]).await.unwrap();
    hasty
        .send_text(&format!("{}\n{initialize}\n", auth_line(&viewer)))
        .await;
    assert_eq!(hasty.close_frame().await.0, 4403);
    assert!(!daemon.journal(&id).contains("PLANTED"));
}

#[tokio::test]
async fn the_cli_does_not_wait_for_an_answer_of_a_viewer() {
    let (daemon, id) = with_session().await;
    let rest = daemon.rest();
    let mut viewer = attach(&daemon, &id, "").await.unwrap();
    viewer.next().await;
    let asks = json!([{"request": {"subtype": "oauth_token_refresh"}, "id": "r-1"}, {"text": "done"}]);
    let answer = rest.ask(&id, &fake_prompt(&asks)).await;
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    let fallback = wait_for("the record of the stated answer", PATIENCE, async || {
        let records = rest.events(&id, 0).await;
        let mut notes = records.into_iter().map(|record| record["data"].clone());
        notes.find(|note| note["type"] == "fallback" && note["request_id"] == "r-1")
    })
    .await;
    assert_eq!(fallback["reason"], "no_client");
}
