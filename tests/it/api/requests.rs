//! Owns requests that are wrong before any body is looked at: paths, methods, ids, queries, headers.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use reqwest::{Method, header};
use serde_json::json;
use uuid::Uuid;

use crate::{
    api::common::{call, id_of, operations, problem},
    support::{daemon::TestDaemon, rest::Rest, ws::Ws},
};

#[tokio::test]
async fn ids_that_are_none_and_sessions_that_are_not_there_are_told_apart_on_every_route() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let operations = operations(&rest).await;
    let of_session: Vec<_> = operations.iter().filter(|it| it.path.contains("{id}")).collect();
    assert!(
        of_session.len() >= 15,
        "only {} routes of a session",
        of_session.len()
    );
    let unknown = Uuid::now_v7().to_string();
    for operation in of_session {
        for id in ["not-a-uuid", "--help", "0", "..%2F..%2Fetc", "%FF", "last"] {
            problem(call(&rest, operation, id, &unknown).await, 400, "invalid_id");
            if operation.path.contains("{approval_id}") {
                problem(call(&rest, operation, &unknown, id).await, 400, "invalid_id");
            }
        }
        if operation.id == "attach_session" {
            assert_eq!(
                refused_upgrade(&daemon, &unknown, "").await,
                (404, "session_not_found".into())
            );
        } else {
            problem(
                call(&rest, operation, &unknown, &unknown).await,
                404,
                "session_not_found",
            );
        }
    }
}

/// Status and code with which an upgrade is refused.
pub(crate) async fn refused_upgrade(daemon: &TestDaemon, session: &str, query: &str) -> (u16, String) {
    use tokio_tungstenite::tungstenite::Error;
    let path = format!("/v1/sessions/{session}/ws{query}");
    match Ws::try_connect(daemon.url(), &path, &["trunkline.v1"], Some(daemon.token())).await {
        Ok(_) => panic!("the socket was opened"),
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            let body: serde_json::Value = serde_json::from_slice(body).unwrap();
            (
                response.status().as_u16(),
                body["code"].as_str().unwrap().to_owned(),
            )
        }
        Err(error) => panic!("no answer: {error}"),
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut methods: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let id = Uuid::now_v7().to_string();
    for operation in operations(&rest).await {
        let of_path = methods.entry(operation.at(&id, &id)).or_default();
        of_path.insert(operation.method.to_string());
        if operation.method == Method::GET {
            of_path.insert("HEAD".into());
        }
    }
    for (path, allowed) in methods {
        let wrong = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
            .into_iter()
            .filter(|method| !allowed.contains(*method));
        for method in wrong {
            let request = rest.builder(method.parse().unwrap(), &path);
            let response = request.send().await.unwrap();
            let told = response.headers().get(header::ALLOW).cloned();
            let told = told.unwrap_or_else(|| panic!("no Allow: {method} {path}: {}", response.status()));
            let told: BTreeSet<String> = told
                .to_str()
                .unwrap()
                .split(',')
                .map(|it| it.trim().to_owned())
                .collect();
            assert_eq!(told, allowed, "{method} {path}");
            assert_eq!(response.status(), 405, "{method} {path}");
            let body: serde_json::Value = response.json().await.unwrap();
            assert_eq!(body["code"], "method_not_allowed", "{method} {path}");
        }
    }
    for path in [
        "/v2/sessions",
        "/v1",
        "/v1/sessions/",
        "/v1/session",
        "/V1/sessions",
        "/.git/config",
        "//v1/sessions",
    ] {
        problem(rest.get(path).await, 404, "route_not_found");
    }
}

#[tokio::test]
async fn queries_are_checked() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let session = json!({"cwd": daemon.work_dir("w"), "prompt": "hello"});
    let id = id_of(
        &rest
            .post("/v1/sessions?wait=result", session.clone())
            .await
            .expect(201),
    );
    rest.ask(&id, "again").await;
    let of = |path: &str| format!("/v1/sessions/{id}{path}");

    for list in [
        "/v1/sessions".to_owned(),
        "/v1/approvals".into(),
        "/v1/usage".into(),
        of("/turns"),
        of("/messages"),
        of("/approvals"),
    ] {
        for query in [
            "limit=0",
            "limit=501",
            "limit=-1",
            "limit=x",
            "limit=",
            "limit=1e2",
            "unknown=1",
            "limit=1&limit=2",
        ] {
            problem(rest.get(&format!("{list}?{query}")).await, 400, "invalid_query");
        }
        for cursor in ["garbage", "", "0", "AAAA", "%00", "-1", "eyJhIjoxfQ"] {
            let code = problem(
                rest.get(&format!("{list}?cursor={cursor}")).await,
                400,
                "invalid_cursor",
            );
            assert_eq!(code["retryable"], false);
        }
    }
    // A cursor of one list is none of another.
    let page = rest.get(&of("/turns?limit=1")).await.expect(200);
    let cursor = page["next_cursor"].as_str().expect("a second page").to_owned();
    for other in [
        "/v1/sessions".to_owned(),
        of("/messages"),
        "/v1/approvals".into(),
        "/v1/usage".into(),
    ] {
        problem(
            rest.get(&format!("{other}?cursor={cursor}")).await,
            400,
            "invalid_cursor",
        );
    }
    for path in [
        "/v1/sessions?state=flying".to_owned(),
        "/v1/sessions?label=nokey".into(),
        "/v1/approvals?state=maybe".into(),
        "/v1/approvals?kind=x".into(),
        "/v1/usage?group_by=colour".into(),
        "/v1/usage?from=yesterday".into(),
        of("/events?after=-1"),
        of("/events?after=x"),
        of("/events?limit=0"),
        of("/events?limit=5001"),
        of("/events?since=1"),
        of("/events?after=18446744073709551616"),
    ] {
        problem(rest.get(&path).await, 400, "invalid_query");
    }
    for query in [
        "wait=forever",
        "timeout_ms=0",
        "timeout_ms=86400001",
        "timeout_ms=x",
        "wiat=ready",
    ] {
        problem(
            rest.post(&format!("/v1/sessions?{query}"), session.clone()).await,
            400,
            "invalid_query",
        );
        problem(
            rest.post(&of(&format!("/messages?{query}")), json!({"text": "x"}))
                .await,
            400,
            "invalid_query",
        );
    }
    problem(
        rest.post(&of("/messages?wait=ready"), json!({"text": "x"})).await,
        400,
        "invalid_query",
    );
    let promptless = json!({"cwd": daemon.work_dir("w")});
    problem(
        rest.post("/v1/sessions?wait=result", promptless).await,
        400,
        "invalid_query",
    );
    assert_eq!(
        rest.get("/v1/sessions").await.expect(200)["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(rest.turns(&id).await.len(), 2, "a refused message was run");
}

#[tokio::test]
async fn a_place_beyond_the_head_is_told_the_head() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    let path = format!("/v1/sessions/{id}/events");
    for accept in ["application/json", "application/x-ndjson", "text/event-stream"] {
        for after in [head + 1, (1 << 53) - 1] {
            let request = rest
                .builder(Method::GET, &format!("{path}?after={after}"))
                .header("accept", accept);
            let found = problem(rest.send(request).await, 400, "seq_beyond_head");
            assert_eq!(found["head_seq"], head, "{accept}");
        }
        let request = rest
            .builder(Method::GET, &format!("{path}?after={head}"))
            .header("accept", accept);
        if accept != "text/event-stream" {
            assert_eq!(rest.send(request).await.status, 200);
        }
    }
    for last in ["x", "-1", "1.5"] {
        let request = rest
            .builder(Method::GET, &path)
            .header("accept", "text/event-stream")
            .header("last-event-id", last);
        problem(rest.send(request).await, 400, "invalid_query");
    }
    let refused = refused_upgrade(&daemon, &id, &format!("?after={}", head + 1)).await;
    assert_eq!(refused, (400, "seq_beyond_head".into()));
    for query in ["?after=x", "?from=1"] {
        assert_eq!(
            refused_upgrade(&daemon, &id, query).await,
            (400, "invalid_query".into())
        );
    }
    assert_eq!(
        refused_upgrade(&daemon, &id, "?protocol=other").await,
        (400, "unsupported_protocol".into())
    );
    // A plain GET is no upgrade.
    problem(
        rest.get(&format!("/v1/sessions/{id}/ws")).await,
        426,
        "upgrade_required",
    );
}

#[tokio::test]
async fn headers_without_end_and_half_requests_hurt_nobody() {
    let daemon = TestDaemon::with_fake().start().await;
    let address = daemon.url().strip_prefix("http://").unwrap().to_owned();
    let answer = |request: Vec<u8>| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The daemon may hang up before it has read everything.
        let _cut_off = stream.write_all(&request);
        let _reset = stream.shutdown(std::net::Shutdown::Write);
        let mut text = Vec::new();
        let _reset = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let head = format!("GET /v1/sessions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    let huge = format!("{head}X-Huge: {}\r\n\r\n", "x".repeat(2_000_000));
    let many: String = (0..500).map(|n| format!("X-{n}: y\r\n")).collect();
    for request in [huge, format!("{head}{many}\r\n")] {
        let answer = answer(request.into_bytes());
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{answer}"
        );
    }
    for request in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01garbage\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
    ] {
        let answer = answer(request.as_bytes().to_vec());
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{request:?}: {answer}"
        );
    }
    // A body that ends too early.
    let token = daemon.token();
    let mut stream = TcpStream::connect(&address).unwrap();
    let half = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"cwd\":"
    );
    stream.write_all(half.as_bytes()).unwrap();
    drop(stream);
    let rest = Rest::new(daemon.url(), Some(token));
    crate::api::common::assert_nothing_made(&daemon).await;
    rest.get("/healthz").await.expect(200);
}
