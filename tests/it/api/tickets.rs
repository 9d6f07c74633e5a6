//! Owns tickets at the sockets and streams of a live session, and that they are written nowhere.

use std::{fs, path::Path};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::support::{
    daemon::TestDaemon,
    lines::{LineSocket, auth_line},
    rest::Rest,
    ws::Ws,
};

async fn ticket(rest: &Rest, path: &str, role: &str) -> String {
    // A key is ignored: the answer would be kept for a day.
    let request = rest
        .builder(Method::POST, "/v1/tickets")
        .header("idempotency-key", "one")
        .json(&json!({"path": path, "role": role}));
    let made = rest.send(request).await.expect(201);
    made["ticket"].as_str().unwrap().to_owned()
}

async fn with_session(level: &str) -> (TestDaemon, String) {
    let daemon = TestDaemon::with_fake()
        .arg(format!("--log-level={level}"))
        .start()
        .await;
    let session = json!({"cwd": daemon.work_dir("w")});
    let id = daemon.rest().create_ready(session).await;
    (daemon, id)
}

fn status<T>(refused: Result<T, Error>) -> u16 {
    match refused {
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test]
async fn a_socket_opens_with_a_ticket_and_keeps_its_role() {
    let (daemon, id) = with_session("info").await;
    let rest = daemon.rest();
    let path = format!("/v1/sessions/{id}/ws");
    let interrupt =
        json!({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}});
    for (role, expected) in [("viewer", "trunkline.error"), ("operator", "control_response")] {
        let ticket = ticket(&rest, &path, role).await;
        let offer = [format!("ticket.{ticket}"), "trunkline.v1".to_owned()];
        let offer: Vec<&str> = offer.iter().map(String::as_str).collect();
        let mut socket = Ws::try_connect(daemon.url(), &path, &offer, None).await.unwrap();
        assert_eq!(socket.protocol.as_deref(), Some("trunkline.v1"));
        socket.send(&interrupt).await;
        let wanted = ["trunkline.error", "control_response"];
        let is_answer = |frame: &Value| wanted.contains(&frame["type"].as_str().unwrap_or_default());
        let answer = socket.find("an answer", is_answer).await;
        assert_eq!(answer["type"], expected, "{answer:#}");
        let again = Ws::try_connect(daemon.url(), &path, &offer, None).await;
        assert_eq!(status(again), 401, "it is used");
    }
    // In the query, which is all that the SDK's transport in a browser can set.
    let one = ticket(&rest, &path, "operator").await;
    let with_query = format!("{path}?protocol=ndjson&ticket={one}");
    let mut client = LineSocket::open(&daemon, &with_query, &[]).await.unwrap();
    client.control("1", json!({"subtype": "initialize"})).await;
    let again = LineSocket::open(&daemon, &with_query, &[]).await;
    assert_eq!(status(again), 401);
}

#[tokio::test]
async fn the_first_line_of_ndjson_shows_a_ticket_once() {
    let (daemon, id) = with_session("info").await;
    let rest = daemon.rest();
    let path = format!("/v1/sessions/{id}/ws");
    let open = async || {
        let path = format!("{path}?protocol=ndjson");
        LineSocket::open(&daemon, &path, &[]).await.unwrap()
    };
    let one = ticket(&rest, &path, "operator").await;
    let mut client = open().await;
    client.send(&auth_line(&one)).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    let elsewhere = ticket(&rest, &format!("/v1/sessions/{id}/events"), "operator").await;
    for spent in [&one, &elsewhere] {
        let mut client = open().await;
        client.send(&auth_line(spent)).await;
        assert_eq!(client.close_frame().await.0, 1008);
    }
    let viewer = ticket(&rest, &path, "viewer").await;
    let mut client = open().await;
    client.send(&auth_line(&viewer)).await;
    client
        .send(&json!({"type": "control_request", "request_id": "2", "request": {"subtype": "initialize"}}))
        .await;
    assert_eq!(client.close_frame().await.0, 4403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sockets_that_race_for_a_ticket_one_opens() {
    let (daemon, id) = with_session("info").await;
    let rest = daemon.rest();
    let path = format!("/v1/sessions/{id}/ws");
    for _ in 0..10 {
        let ticket = ticket(&rest, &path, "viewer").await;
        let with_query = format!("{path}?ticket={ticket}");
        let race = (0..4).map(|_| Ws::try_connect(daemon.url(), &with_query, &[], None));
        let opened = join_all(race).await;
        let (opened, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        assert_eq!(opened.len(), 1);
        for refused in refused {
            assert_eq!(status(refused), 401);
        }
    }
}

#[tokio::test]
async fn an_event_stream_opens_with_a_ticket_for_any_query() {
    let (daemon, id) = with_session("info").await;
    let path = format!("/v1/sessions/{id}/events");
    let ticket = ticket(&daemon.rest(), &path, "viewer").await;
    let request = daemon
        .rest()
        .with_token(None)
        .builder(Method::GET, &format!("{path}?ticket={ticket}&after=0"))
        .header("accept", "text/event-stream");
    let mut answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut text = String::new();
    while !text.contains("id: 2\n") {
        let chunk = answer.chunk().await.unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.append(&mut files(&entry.path()));
        } else if entry.file_type().unwrap().is_file() {
            found.extend(fs::read(entry.path()).ok());
        }
    }
    found
}

#[tokio::test]
async fn a_ticket_is_written_nowhere() {
    let (mut daemon, id) = with_session("trace").await;
    let rest = daemon.rest();
    let path = format!("/v1/sessions/{id}/events");
    let used = ticket(&rest, &path, "viewer").await;
    let unused = ticket(&rest, &path, "viewer").await;
    assert_ne!(used, unused, "the key makes no difference");
    let anonymous = rest.with_token(None);
    anonymous.get(&format!("{path}?ticket={used}")).await.expect(200);
    anonymous.get(&format!("{path}?ticket={used}")).await.expect(401);
    anonymous
        .get(&format!("/v1/none?ticket={unused}"))
        .await
        .expect(401);
    daemon.stop();
    let log = daemon.log();
    assert!(log.contains(" TRACE "), "the log is not at level trace: {log}");
    for ticket in [&used, &unused] {
        assert!(!log.contains(ticket.as_str()), "{log}");
        for file in files(&daemon.data_dir()) {
            assert!(memchr::memmem::find(&file, ticket.as_bytes()).is_none());
        }
    }
}
