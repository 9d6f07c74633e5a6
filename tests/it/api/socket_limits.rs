//! Owns the ends of a socket and its limits: sizes, counts, silence, shutdown.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

use crate::{
    api::{common::endless, requests::refused_upgrade},
    support::{
        daemon::TestDaemon,
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

type Stream = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

/// A socket without any help.
async fn connect(daemon: &TestDaemon, id: &str, query: &str) -> Stream {
    let url = format!(
        "{}/v1/sessions/{id}/ws{query}",
        daemon.url().replacen("http", "ws", 1)
    );
    let mut request = url.into_client_request().unwrap();
    let token = format!("Bearer {}", daemon.token()).parse().unwrap();
    request.headers_mut().insert("authorization", token);
    connect_async(request).await.unwrap().0
}

/// Reads to the close and gives its code.
async fn close_code(stream: &mut Stream) -> u16 {
    let end = async {
        while let Some(frame) = stream.next().await {
            if let Ok(Message::Close(frame)) = frame {
                return frame.map(|frame| frame.code.into());
            }
        }
        None
    };
    let code = tokio::time::timeout(Duration::from_secs(60), end)
        .await
        .expect("no close");
    code.expect("the socket ended without a close frame")
}

#[tokio::test]
async fn what_is_too_big_or_binary_ends_the_socket_and_not_the_session() {
    const LIMIT: usize = 64 * 1024;
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", LIMIT.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let message =
        |bytes: usize| json!({"type": "user", "message": {"role": "user", "content": "x".repeat(bytes)}});
    for bytes in [LIMIT + 1024 * 1024, LIMIT + 8 * 1024 * 1024] {
        let mut stream = connect(&daemon, &id, "").await;
        // The daemon may close before it has read everything.
        let _closed = stream.send(Message::text(message(bytes).to_string())).await;
        assert_eq!(close_code(&mut stream).await, 1009, "{bytes}");
    }
    let mut stream = connect(&daemon, &id, "").await;
    stream
        .send(Message::binary(b"{\"type\":\"keep_alive\"}".to_vec()))
        .await
        .unwrap();
    assert_eq!(close_code(&mut stream).await, 1003);

    // Over the limit of a message, though the frame would pass: refused as over REST, and the socket stays.
    let mut socket = daemon.attach(&id, None).await;
    socket.send(&message(LIMIT + 1)).await;
    let error = socket
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(error["code"], "prompt_too_large", "{error:#}");
    socket.send(&message(LIMIT - 2)).await;
    socket
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    socket.cli_line("result").await;
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 1);
}

#[tokio::test]
async fn sockets_and_streams_are_counted() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_CONNECTIONS", "3")
        .env("TRUNKLINE_SERVER_MAX_CONNECTIONS_PER_SESSION", "2")
        .start()
        .await;
    let rest = daemon.rest();
    let one = rest.create_ready(json!({"cwd": daemon.work_dir("a")})).await;
    let two = rest.create_ready(json!({"cwd": daemon.work_dir("b")})).await;
    let mut first = daemon.attach(&one, None).await;
    let stream = rest
        .builder(reqwest::Method::GET, &format!("/v1/sessions/{one}/events"))
        .header("accept", "text/event-stream");
    let stream = stream.send().await.unwrap().error_for_status().unwrap();
    assert_eq!(
        refused_upgrade(&daemon, &one, "").await,
        (429, "too_many_clients".into())
    );
    let _third = daemon.attach(&two, None).await;
    assert_eq!(
        refused_upgrade(&daemon, &two, "").await,
        (503, "too_many_connections".into())
    );
    // Pages and everything else still work.
    rest.get(&format!("/v1/sessions/{one}/events")).await.expect(200);
    drop(stream);
    wait_for("the place of the stream is free", PATIENCE, async || {
        let path = format!("/v1/sessions/{one}/ws");
        let socket =
            crate::support::ws::Ws::try_connect(daemon.url(), &path, &["trunkline.v1"], Some(daemon.token()))
                .await;
        socket.ok().map(drop)
    })
    .await;
    assert_eq!(first.next().await["type"], "trunkline.snapshot");
}

#[tokio::test]
async fn a_client_that_never_reads_delays_nobody_and_one_that_is_silent_is_let_go() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_PING_INTERVAL_MS", "5000")
        .env("TRUNKLINE_SERVER_SEND_TIMEOUT_MS", "5000")
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let deaf = connect(&daemon, &id, "?after=0").await;
    let mut others = [daemon.attach(&id, None).await, daemon.attach(&id, None).await];
    // More than what the system keeps for a socket that nobody reads.
    let prompt = fake_prompt(&json!([{"flood": 10_000, "bytes": 2000}, {"text": "end"}]));
    rest.prompt(&id, &prompt).await;
    let watch = async |other: &mut Ws| -> Vec<Value> {
        let frames = other
            .until("the result", |frame| frame["data"]["type"] == "result")
            .await;
        let records: Vec<Value> = frames.into_iter().filter(|frame| frame["seq"].is_u64()).collect();
        let follows = |pair: &[Value]| pair[1]["seq"].as_u64() == pair[0]["seq"].as_u64().map(|seq| seq + 1);
        assert!(
            records.windows(2).all(follows),
            "a record is missing or came twice"
        );
        assert!(records.len() > 10_000);
        records
    };
    let [one, two] = &mut others;
    let seen: [Vec<Value>; 2] = tokio::join!(watch(one), watch(two)).into();
    assert!(seen[0] == seen[1], "two viewers saw different records");
    // Its records are in the journal, its socket is not kept for ever.
    wait_for("the deaf client is let go", Duration::from_secs(30), async || {
        let log = daemon.log();
        (log.contains("client too slow") || log.contains("client silent")).then_some(())
    })
    .await;
    drop(deaf);
    rest.in_state(&id, &["idle"]).await;
}

#[tokio::test]
async fn pings_are_answered_and_a_shutdown_says_where_to_go_on() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut stream = connect(&daemon, &id, "").await;
    stream
        .send(Message::Ping(b"are you there"[..].into()))
        .await
        .unwrap();
    let pong = async {
        while let Some(frame) = stream.next().await {
            if let Ok(Message::Pong(bytes)) = frame {
                return Some(bytes);
            }
        }
        None
    };
    let pong = tokio::time::timeout(PATIENCE, pong).await.expect("no pong");
    assert_eq!(pong.as_deref(), Some(&b"are you there"[..]));
    // A client's own close is answered.
    let mut leaving = connect(&daemon, &id, "").await;
    leaving.close(None).await.unwrap();
    let end = async { while let Some(Ok(_)) = leaving.next().await {} };
    tokio::time::timeout(PATIENCE, end)
        .await
        .expect("the close was not answered");

    rest.prompt(&id, &endless()).await;
    rest.in_state(&id, &["busy"]).await;
    let mut watcher = daemon.attach(&id, None).await;
    watcher.next().await;
    let (stopped, ended) = tokio::join!(
        tokio::task::spawn_blocking(move || {
            let status = daemon.stop();
            (status, daemon)
        }),
        watcher.close_frame()
    );
    let (status, daemon) = stopped.unwrap();
    assert!(status.success(), "{status}");
    let (code, reason) = ended;
    assert_eq!(code, 1001, "{reason}");
    let after: u64 = reason
        .rsplit("after=")
        .next()
        .unwrap()
        .parse()
        .unwrap_or_else(|_| panic!("{reason}"));
    assert!(after > 0);
    assert!(daemon.session_processes().is_empty());
}
