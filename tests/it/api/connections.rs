//! Owns what connections may do: those that do nothing are closed, those at work never, and nobody locks others out.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Method, header};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::{
    daemon::TestDaemon,
    programs::{fake_prompt, fake_settings},
    wait::{PATIENCE, pass},
};

async fn connect(daemon: &TestDaemon) -> TcpStream {
    let address = daemon.url().strip_prefix("http://").unwrap();
    TcpStream::connect(address).await.unwrap()
}

/// The daemon's words until it closes the connection.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    // A reset is an end as well.
    let _ = read.expect("the connection is closed");
    String::from_utf8_lossy(&said).into_owned()
}

fn head(daemon: &TestDaemon, rest: &str) -> String {
    let token = daemon.token();
    format!("{rest}\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_nothing_are_closed() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_HEADER_TIMEOUT_MS", "1000")
        .env("TRUNKLINE_SERVER_IDLE_TIMEOUT_MS", "1000")
        .env("TRUNKLINE_SERVER_BODY_TIMEOUT_MS", "1000")
        .start()
        .await;
    let get = head(&daemon, "GET /v1/sessions HTTP/1.1");
    let post = head(&daemon, "POST /v1/sessions HTTP/1.1");
    let json = "content-type: application/json\r\ncontent-length: 100";
    for (sent, said) in [
        (String::new(), ""),
        ("GET /v1/ses".to_owned(), ""),
        (get.clone(), ""),
        // One request, and nothing or half of one behind it.
        (format!("{get}\r\n"), "HTTP/1.1 200"),
        (format!("{get}\r\n{get}"), "HTTP/1.1 200"),
        (
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            "HTTP/1.1 200",
        ),
        (format!("{post}{json}\r\n\r\n{{\"c"), "HTTP/1.1 400"),
    ] {
        let mut stream = connect(&daemon).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let answer = until_closed(stream).await;
        assert!(answer.starts_with(said), "{sent}: {answer}");
        assert_eq!(answer.is_empty(), said.is_empty(), "{sent}: {answer}");
    }
}

/// Everything here takes longer than each of the deadlines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_at_work_have_all_their_time() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_HEADER_TIMEOUT_MS", "4000")
        .env("TRUNKLINE_SERVER_IDLE_TIMEOUT_MS", "4000")
        .env("TRUNKLINE_SERVER_BODY_TIMEOUT_MS", "4000")
        .start()
        .await;
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    fake_settings(&cwd, &json!({}));
    let id = rest.create_ready(json!({ "cwd": cwd })).await;
    let mut socket = daemon.attach(&id, None).await;
    let stream = rest
        .builder(Method::GET, &format!("/v1/sessions/{id}/events"))
        .header(header::ACCEPT, "text/event-stream");
    let mut stream = stream.send().await.unwrap().bytes_stream();

    // A wait, during which nothing else moves.
    let slow = fake_prompt(&json!([{ "sleep_ms": 6000 }, { "text": "late" }]));
    let body = json!({ "text": slow }).to_string();
    let waiting = rest.ask(&id, &slow);
    // A body that moves.
    let moving = async {
        let post = head(&daemon, &format!("POST /v1/sessions/{id}/messages HTTP/1.1"));
        let length = body.len();
        let mut stream = connect(&daemon).await;
        let start = format!(
            "{post}content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(start.as_bytes()).await.unwrap();
        for piece in body.as_bytes().chunks(length.div_ceil(12)) {
            stream.write_all(piece).await.unwrap();
            pass(Duration::from_millis(500)).await;
        }
        until_closed(stream).await
    };
    let (answer, moved) = tokio::join!(waiting, moving);
    assert_eq!(answer["result"]["subtype"], "success", "{answer:#}");
    assert!(moved.starts_with("HTTP/1.1 202"), "{moved}");
    let line = socket.cli_line("assistant").await;
    assert_eq!(line["message"]["content"][0]["text"], "late");
    let mut told = String::new();
    while !told.contains("late") {
        let piece = timeout(PATIENCE, stream.next()).await.unwrap();
        told.push_str(&String::from_utf8_lossy(
            &piece.expect("the stream goes on").unwrap(),
        ));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_side_is_answered_and_so_is_a_broken_request() {
    let daemon = TestDaemon::with_fake().start().await;
    let get = head(&daemon, "GET /v1/sessions HTTP/1.1");
    let mut stream = connect(&daemon).await;
    stream.write_all(format!("{get}\r\n").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = until_closed(stream).await;
    assert!(answer.ends_with(r#"{"items":[],"next_cursor":null}"#), "{answer}");

    let many: String = (0..150).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = head(&daemon, &format!("GET /{} HTTP/1.1", "x".repeat(70_000)));
    for (sent, status, code) in [
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400, "malformed_request"),
        (format!("{get}bad\0name: x\r\n\r\n"), 400, "malformed_request"),
        (format!("{get}{many}\r\n"), 431, "headers_too_large"),
        (format!("{long}\r\n"), 414, "uri_too_long"),
    ] {
        let mut stream = connect(&daemon).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let answer = until_closed(stream).await;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&problem["code"], &problem["status"]),
            (&json!(code), &json!(status))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_token_lock_nobody_out() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_UNAUTHENTICATED_CONNECTIONS", "16")
        .start()
        .await;
    // One that has shown the token and is idle.
    let mut known = connect(&daemon).await;
    let get = format!("{}\r\n", head(&daemon, "GET /v1/sessions HTTP/1.1"));
    known.write_all(get.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    known.read_exact(&mut first).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect(&daemon).await);
    }
    for _ in 0..20 {
        daemon.rest().get("/v1/sessions").await.expect(200);
    }
    // The oldest went first, long before its deadline.
    let oldest = silent.remove(0);
    assert_eq!(until_closed(oldest).await, "");
    known
        .write_all(
            get.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
        .await
        .unwrap();
    let said = until_closed(known).await;
    assert_eq!(said.matches("HTTP/1.1 200").count(), 1, "{said}");
}

#[tokio::test]
async fn a_body_that_says_that_it_is_too_large_is_not_waited_for() {
    let daemon = TestDaemon::with_fake().start().await;
    let post = head(&daemon, "POST /v1/sessions HTTP/1.1");
    let mut stream = connect(&daemon).await;
    let large = "content-type: application/json\r\ncontent-length: 10000000000\r\n\r\n{";
    stream
        .write_all(format!("{post}{large}").as_bytes())
        .await
        .unwrap();
    let answer = until_closed(stream).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}
