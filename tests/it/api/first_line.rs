//! Owns how a client of `ndjson` that can send no header shows the token: by its first line, soon, and in few bytes.

use futures_util::future::join_all;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

use crate::support::{
    daemon::TestDaemon,
    lines::{LineSocket, auth_line},
};

fn path(session: &str) -> String {
    format!("/v1/sessions/{session}/ws?protocol=ndjson")
}

/// The status with which an upgrade is refused.
async fn refused(daemon: &TestDaemon, path: &str, headers: &[(&'static str, &str)]) -> u16 {
    match LineSocket::open(daemon, path, headers).await {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_line_shows_the_token_and_goes_no_further() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let unknown = Uuid::now_v7().to_string();
    let text = format!("{}\n", auth_line(daemon.token()));
    let (one, two) = text.split_at(30);
    let ask = json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}});
    let mut client = LineSocket::open(&daemon, &path(&id), &[]).await.unwrap();
    client.send_text(one).await;
    // More than may come before the proof stands behind it in the same frame, and in the next.
    client.send_text(&format!("{two}{ask}\n")).await;
    client
        .send_text(&format!(
            "{}\n",
            json!({"type": "keep_alive", "x": "y".repeat(100_000)})
        ))
        .await;
    assert_eq!(
        client.line("control_response").await["response"]["request_id"],
        "1"
    );
    let answer = client
        .control("2", json!({"subtype": "set_model", "model": "other"}))
        .await;
    assert_eq!(answer["response"]["subtype"], "success");

    let mut client = LineSocket::open(&daemon, &path(&unknown), &[]).await.unwrap();
    client.send_text(&text).await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 4404);
    assert!(reason.starts_with("session_not_found: "), "{reason}");

    // One that has shown the token in a header may say it again.
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send_text(&text).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send(&auth_line("another")).await;
    assert_eq!(client.close_frame().await.0, 1008);

    let token = daemon.token().to_owned();
    for (place, text) in [("journal", daemon.journal(&id)), ("log", daemon.log())] {
        assert!(!text.contains(&token), "the token is in the {place}");
        assert!(!text.contains("oauth"), "the line is in the {place}");
    }
}

#[tokio::test]
async fn whatever_else_comes_first_ends_the_connection_alike() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let unknown = Uuid::now_v7().to_string();
    let good = format!("{}\n", auth_line(daemon.token()));
    let padded = good.replacen('{', &format!("{{\"x\":\"{}\",", "y".repeat(8 * 1024)), 1);
    let other = json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}});
    let mut ends = Vec::new();
    for (what, message) in [
        (
            "another token",
            Message::text(format!("{}\n", auth_line("another"))),
        ),
        ("no token", Message::text("{\"type\":\"auth\"}\n")),
        ("another line", Message::text(format!("{other}\n"))),
        ("an empty line", Message::text(format!("\n{good}"))),
        ("no JSON", Message::text("hello\n")),
        ("too long a line", Message::text(padded)),
        ("much without a line", Message::text("x".repeat(1_000_000))),
        ("a binary frame", Message::binary(good.clone().into_bytes())),
        ("nothing", Message::Ping(vec![1].into())),
        ("no end of line", Message::text(good.trim_end().to_owned())),
    ] {
        for session in [&id, &unknown] {
            let (message, path, daemon) = (message.clone(), path(session), &daemon);
            ends.push(async move {
                let mut client = LineSocket::open(daemon, &path, &[]).await.unwrap();
                client.send_raw(message).await;
                let end = client.close_frame().await;
                assert_eq!(
                    end,
                    (1008, "no valid auth line came in time".to_owned()),
                    "{what}"
                );
            });
        }
    }
    join_all(ends).await;
    let journal = daemon.journal(&id);
    assert!(
        !journal.contains("\"ws:"),
        "a line of a stranger came through: {journal}"
    );
}

#[tokio::test]
async fn only_an_upgrade_that_names_ndjson_may_come_without_a_credential() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = Uuid::now_v7().to_string();
    let plain = format!("/v1/sessions/{id}/ws");
    let host = daemon.url().trim_start_matches("http://").to_owned();
    for (what, status, path, headers) in [
        ("no sub-protocol", 401, plain.clone(), vec![]),
        (
            "the other one",
            401,
            plain.clone(),
            vec![("sec-websocket-protocol", "trunkline.v1")],
        ),
        (
            "the other one first",
            401,
            plain.clone(),
            vec![("sec-websocket-protocol", "trunkline.v1, ndjson")],
        ),
        (
            "another route",
            401,
            format!("/v1/sessions/{id}/events?protocol=ndjson"),
            vec![],
        ),
        (
            "a wrong header",
            401,
            path(&id),
            vec![("authorization", "Bearer another")],
        ),
        (
            "a wrong offer",
            401,
            plain.clone(),
            vec![("sec-websocket-protocol", "ndjson, bearer.another")],
        ),
        (
            "a foreign page",
            403,
            path(&id),
            vec![("origin", "https://evil.example")],
        ),
        ("a foreign host", 421, path(&id), vec![("host", "evil.example")]),
    ] {
        assert_eq!(refused(&daemon, &path, &headers).await, status, "{what}");
    }
    let origin = format!("http://{host}");
    let headers = [("sec-websocket-protocol", "ndjson"), ("origin", origin.as_str())];
    let client = LineSocket::open(&daemon, &plain, &headers).await.unwrap();
    assert_eq!(client.protocol.as_deref(), Some("ndjson"));
}

#[tokio::test]
async fn few_connections_wait_for_their_first_line_at_once() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut waiting = Vec::new();
    for _ in 0..32 {
        waiting.push(LineSocket::open(&daemon, &path(&id), &[]).await.unwrap());
    }
    let mut one_more = LineSocket::open(&daemon, &path(&id), &[]).await.unwrap();
    one_more.send(&auth_line(daemon.token())).await;
    assert_eq!(one_more.close_frame().await.0, 1008);
    let mut first = waiting.swap_remove(0);
    first.send(&auth_line(daemon.token())).await;
    first.control("1", json!({"subtype": "initialize"})).await;
    // It has made room, and its own place is none of these.
    let mut next = LineSocket::open(&daemon, &path(&id), &[]).await.unwrap();
    next.send(&auth_line(daemon.token())).await;
    next.control("1", json!({"subtype": "initialize"})).await;
    for client in &mut waiting {
        assert_eq!(client.close_frame().await.0, 1008);
    }
    first
        .control("2", json!({"subtype": "set_model", "model": "other"}))
        .await;
}
