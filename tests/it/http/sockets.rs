//! The WebSocket over a real connection: what a client sees of `trunkline.v1`.

use axum::http::Method;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        http::{HeaderValue, Response},
        protocol::frame::{
            CloseFrame, Frame,
            coding::{Data, OpCode},
        },
    },
};
use trunkline::{domain::SessionId, http::serve, journal::Source};

use crate::http::harness::{Bed, MAX_PROMPT_BYTES, PATIENCE};

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

struct Server {
    bed: Bed,
    address: String,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start(bed: Bed) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(serve(listener, bed.state.clone(), bed.shutdown.clone()));
        Self {
            bed,
            address,
            serving,
        }
    }

    async fn try_connect(
        &self,
        path: &str,
        protocols: Option<&str>,
    ) -> Result<(Socket, Option<String>), Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        if let Some(protocols) = protocols {
            let value = HeaderValue::from_str(protocols).unwrap();
            request.headers_mut().insert("sec-websocket-protocol", value);
        } else {
            let value = HeaderValue::from_str(&format!("Bearer {}", self.bed.token)).unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let (socket, response) = connect_async(request).await?;
        let protocol = response.headers().get("sec-websocket-protocol");
        Ok((socket, protocol.map(|value| value.to_str().unwrap().to_owned())))
    }

    async fn connect(&self, id: SessionId, query: &str) -> Socket {
        let path = format!("/v1/sessions/{id}/ws{query}");
        self.try_connect(&path, None).await.unwrap().0
    }
}

async fn next(socket: &mut Socket) -> Message {
    timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap()
}

async fn text(socket: &mut Socket) -> String {
    match next(socket).await {
        Message::Text(text) => text.to_string(),
        other => panic!("no text frame: {other:?}"),
    }
}

async fn json_frame(socket: &mut Socket) -> Value {
    serde_json::from_str(&text(socket).await).unwrap()
}

/// Reads to the end; the close frame that came.
async fn closed(socket: &mut Socket) -> CloseFrame {
    loop {
        match timeout(PATIENCE, socket.next()).await.unwrap() {
            Some(Ok(Message::Close(Some(frame)))) => return frame,
            Some(Ok(_)) => {}
            other => panic!("no close frame: {other:?}"),
        }
    }
}

fn refused(error: Error) -> Response<Option<Vec<u8>>> {
    match error {
        Error::Http(response) => *response,
        other => panic!("not refused over HTTP: {other:?}"),
    }
}

/// Records that change nothing about a session.
const RECORDS: [(Source, &str); 3] = [
    (Source::Daemon, r#"{"type":"note"}"#),
    (Source::Daemon, "{\"type\":\"x\", \"t\":\"\\ud83d\u{2028}\"}"),
    (Source::Daemon, r#"{"type":"state","state":"stopped"}"#),
];

#[tokio::test]
async fn a_snapshot_comes_first_and_then_the_records_byte_for_byte() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&RECORDS).await;
    let mut socket = server.connect(id, "?after=1").await;
    let snapshot = json_frame(&mut socket).await;
    assert_eq!(snapshot["type"], "trunkline.snapshot");
    assert_eq!(
        (&snapshot["head_seq"], &snapshot["after"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(snapshot["session"]["id"], id.to_string());
    assert_eq!(snapshot["session"]["state"], "stopped");
    assert_eq!(snapshot["pending_approvals"], json!([]));
    assert!(snapshot["connection_id"].is_string());
    let dir = server.bed.dir.path().join("sessions").join(id.to_string());
    let journal = std::fs::read_to_string(dir.join("00000000000000000001.ndjson")).unwrap();
    for line in journal.split_terminator('\n').skip(1) {
        assert_eq!(text(&mut socket).await, line);
    }
    // Without `after` nothing old comes: the next frame is the answer to a ping.
    let mut live = server.connect(id, "").await;
    assert_eq!(json_frame(&mut live).await["after"], 3);
    live.send(Message::text(r#"{"type":"trunkline.ping","id":"p1"}"#))
        .await
        .unwrap();
    let pong = json_frame(&mut live).await;
    assert_eq!(pong, json!({"type": "trunkline.pong", "id": "p1", "head_seq": 3}));
}

#[tokio::test]
async fn lines_are_answered_to_their_client_alone() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&[]).await;
    let (mut one, mut two) = (server.connect(id, "").await, server.connect(id, "").await);
    json_frame(&mut one).await;
    json_frame(&mut two).await;
    let frame = "{\"type\":\"trunkline.dance\"}\r\n\n{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n{bad\n";
    one.send(Message::text(frame)).await.unwrap();
    let mut codes = Vec::new();
    for _ in 0..3 {
        let error = loop {
            let frame = json_frame(&mut one).await;
            // It hears of the other client at any moment.
            if frame["type"] != "trunkline.clients" {
                break frame;
            }
        };
        assert_eq!(error["type"], "trunkline.error", "{error}");
        codes.push(error["code"].as_str().unwrap().to_owned());
    }
    assert_eq!(codes, ["unknown_frame", "session_not_live", "invalid_line"]);
    two.send(Message::text(r#"{"type":"trunkline.ping"}"#))
        .await
        .unwrap();
    assert_eq!(json_frame(&mut two).await["type"], "trunkline.pong");
}

#[tokio::test]
async fn the_token_may_come_as_a_sub_protocol_and_is_never_echoed() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&[]).await;
    let path = format!("/v1/sessions/{id}/ws");
    let token = &server.bed.token;
    let (_socket, protocol) = server
        .try_connect(&path, Some(&format!("bearer.{token}, trunkline.v1")))
        .await
        .unwrap();
    assert_eq!(protocol.as_deref(), Some("trunkline.v1"));
    for (protocols, status) in [
        ("trunkline.v1".to_owned(), 401),
        (format!("trunkline.v1, bearer.{token}x"), 401),
        (format!("trunkline.v9, bearer.{token}"), 400),
    ] {
        let response = refused(server.try_connect(&path, Some(&protocols)).await.unwrap_err());
        assert_eq!(response.status(), status, "{protocols}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn an_upgrade_that_cannot_be_served_is_refused_over_http() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&RECORDS).await;
    for (path, status) in [
        (format!("/v1/sessions/{}/ws", SessionId::new()), 404),
        ("/v1/sessions/x/ws".to_owned(), 400),
        (format!("/v1/sessions/{id}/ws?after=4"), 400),
        (format!("/v1/sessions/{id}/ws?after=x"), 400),
        (format!("/v1/sessions/{id}/ws?protocol=ndjson9"), 400),
    ] {
        let response = refused(server.try_connect(&path, None).await.unwrap_err());
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    let plain = server.bed.get(&format!("/v1/sessions/{id}/ws")).await;
    assert_eq!(plain.header("upgrade"), "websocket");
    plain.problem(426, "upgrade_required");
}

#[tokio::test]
async fn frames_that_are_not_taken_are_told_by_their_code() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&[]).await;
    let path = format!("/v1/sessions/{id}/ws");
    let limit = MAX_PROMPT_BYTES + 1024 * 1024;
    for (message, code) in [
        (Message::binary(vec![1]), 1003),
        (
            Message::Frame(Frame::message(vec![0xff], OpCode::Data(Data::Text), true)),
            1007,
        ),
        (Message::text(" ".repeat(limit + 1)), 1009),
        // This one is so large that it is not read at all.
        (Message::text(" ".repeat(limit + 4 * 1024 * 1024)), 1009),
    ] {
        let (mut socket, _) = server.try_connect(&path, None).await.unwrap();
        json_frame(&mut socket).await;
        let (mut sink, mut stream) = socket.split();
        let sending = tokio::spawn(async move { sink.send(message).await });
        let frame = loop {
            match timeout(PATIENCE, stream.next()).await.unwrap() {
                Some(Ok(Message::Close(Some(frame)))) => break frame,
                Some(Ok(_)) => {}
                other => panic!("no close frame: {other:?}"),
            }
        };
        assert_eq!(u16::from(frame.code), code);
        assert!(!frame.reason.is_empty());
        sending.abort();
    }
    // At the limit a line is read, whatever it says.
    let mut socket = server.connect(id, "").await;
    json_frame(&mut socket).await;
    let line = format!("{{{}", "x".repeat(limit - 1));
    socket.send(Message::text(line)).await.unwrap();
    assert_eq!(json_frame(&mut socket).await["code"], "invalid_line");
}

#[tokio::test]
async fn a_close_of_the_client_is_answered() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&[]).await;
    let mut socket = server.connect(id, "").await;
    json_frame(&mut socket).await;
    socket.close(None).await.unwrap();
    let rest = timeout(PATIENCE, async { while socket.next().await.is_some() {} }).await;
    assert!(rest.is_ok());
    server.bed.tracker.close();
    server.bed.shutdown.cancel();
    timeout(PATIENCE, server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_tells_every_socket_and_waits_for_none_for_long() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&RECORDS).await;
    let mut reading = server.connect(id, "?after=0").await;
    let _not_reading = server.connect(id, "?after=0").await;
    for _ in 0..4 {
        text(&mut reading).await;
    }
    server.bed.shutdown.cancel();
    let frame = closed(&mut reading).await;
    assert_eq!(u16::from(frame.code), 1001);
    assert!(frame.reason.ends_with("after=3"), "{}", frame.reason);
    timeout(PATIENCE, server.serving).await.unwrap().unwrap();
    server.bed.supervisor.finish().await;
    let tracker = server.bed.tracker.clone();
    // Nobody holds the supervisor any more.
    drop(server.bed);
    tracker.close();
    timeout(PATIENCE, tracker.wait()).await.unwrap();
}

#[tokio::test]
async fn deleting_a_session_closes_its_sockets() {
    let server = Server::start(Bed::start().await).await;
    let id = server.bed.session(&RECORDS).await;
    let mut socket = server.connect(id, "").await;
    json_frame(&mut socket).await;
    let answer = server
        .bed
        .call(Method::DELETE, &format!("/v1/sessions/{id}"))
        .await;
    assert_eq!(answer.status.as_u16(), 204, "{}", answer.text);
    let frame = closed(&mut socket).await;
    assert_eq!(u16::from(frame.code), 4410, "{}", frame.reason);
}

#[tokio::test]
async fn silent_clients_are_let_go() {
    let bed = Bed::with(|config, _| config.ping_interval_ms = 50).await;
    let server = Server::start(bed).await;
    let id = server.bed.session(&[]).await;
    // A client that reads answers pings by itself, one that does not read does not.
    let mut silent = server.connect(id, "").await;
    let mut reading = server.connect(id, "").await;
    json_frame(&mut reading).await;
    let mut pings = 0;
    while pings < 8 {
        if matches!(next(&mut reading).await, Message::Ping(_)) {
            pings += 1;
        }
    }
    let frame = closed(&mut silent).await;
    assert_eq!(u16::from(frame.code), 4409, "{}", frame.reason);
}
