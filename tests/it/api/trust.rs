//! Owns who may talk to the daemon: token, Host, Origin, and where it listens.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use reqwest::{Method, header};
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::{
    api::common::{call, operations, problem},
    support::{daemon::TestDaemon, programs::trunkline, rest::Rest, ws::Ws},
};

#[tokio::test]
async fn every_route_of_data_needs_the_token() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let token = daemon.token().to_owned();
    let changed = format!("{}x", &token[..token.len() - 1]);
    let wrong = [
        None,
        Some(""),
        Some("x"),
        Some(&token[1..]),
        Some(changed.as_str()),
    ];
    for operation in operations(&rest).await {
        if ["get_asyncapi", "get_docs", "get_health", "get_openapi"].contains(&operation.id.as_str()) {
            rest.with_token(None).get(&operation.path).await.expect(200);
            continue;
        }
        for token in wrong {
            let reply = call(&rest.with_token(token), &operation, &id, &id).await;
            problem(reply, 401, "unauthorized");
        }
    }
    for path in ["/nothing", "/healthz/", "/v1/../healthz/x", "/docs/", "/metrics"] {
        problem(rest.with_token(None).get(path).await, 401, "unauthorized");
    }
    // In a query or a cookie it is no token.
    let bare = rest.with_token(None);
    for query in ["token", "access_token", "bearer"] {
        problem(
            bare.get(&format!("/v1/sessions?{query}={token}")).await,
            401,
            "unauthorized",
        );
    }
    for (name, value) in [
        (header::COOKIE, format!("token={token}; trunkline={token}")),
        (header::AUTHORIZATION, format!("Basic {token}")),
        (header::AUTHORIZATION, token.clone()),
        (header::SEC_WEBSOCKET_PROTOCOL, format!("bearer.{token}")),
    ] {
        let request = bare.builder(Method::GET, "/v1/sessions").header(&name, value);
        problem(bare.send(request).await, 401, "unauthorized");
    }
    let lower = bare
        .builder(Method::GET, "/v1/sessions")
        .header(header::AUTHORIZATION, format!("bearer {token}"));
    bare.send(lower).await.expect(200);
    assert_eq!(
        rest.session(&id).await["state"],
        "idle",
        "an unauthorised request had an effect"
    );
}

#[tokio::test]
async fn a_socket_needs_the_token_too() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = daemon
        .rest()
        .create_ready(json!({"cwd": daemon.work_dir("w")}))
        .await;
    let path = format!("/v1/sessions/{id}/ws");
    for (protocols, token) in [
        (vec![], None),
        (vec!["trunkline.v1"], None),
        (vec!["trunkline.v1"], Some("wrong")),
    ] {
        let refused = Ws::try_connect(daemon.url(), &path, &protocols, token).await;
        let Err(Error::Http(response)) = refused else {
            panic!("not refused: {protocols:?} {token:?}");
        };
        assert_eq!(response.status(), 401);
    }
    let token = daemon.token();
    let with_query = Ws::try_connect(
        daemon.url(),
        &format!("{path}?token={token}"),
        &["trunkline.v1"],
        None,
    )
    .await;
    assert!(matches!(with_query, Err(Error::Http(response)) if response.status() == 401));
    let mut named = daemon.attach(&id, None).await;
    assert_eq!(
        named.protocol.as_deref(),
        Some("trunkline.v1"),
        "the token must not be chosen"
    );
    assert_eq!(named.next().await["type"], "trunkline.snapshot");
    let mut unnamed = Ws::try_connect(daemon.url(), &path, &[], Some(token)).await;
    // A client that offers only its token gets no protocol; some libraries refuse that themselves.
    if let Ok(unnamed) = &mut unnamed {
        assert_eq!(unnamed.protocol, None);
        assert_eq!(unnamed.next().await["type"], "trunkline.snapshot");
    }
}

/// Sends a raw request and gives status line and body.
fn raw(daemon: &TestDaemon, request: &str) -> String {
    let address = daemon.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused_before_anything_else() {
    let daemon = TestDaemon::with_fake().start().await;
    let token = daemon.token().to_owned();
    let port = daemon.url().rsplit(':').next().unwrap().to_owned();
    let own = format!("127.0.0.1:{port}");
    let request = |target: &str, headers: &str| {
        raw(
            &daemon,
            &format!(
                "GET {target} HTTP/1.1\r\n{headers}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            ),
        )
    };
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let somewhere = uuid::Uuid::now_v7();
    let targets = [
        "/".to_owned(),
        "/healthz".into(),
        "/v1/sessions".into(),
        "/openapi.json".into(),
        "/nothing".into(),
        format!("/v1/sessions/{somewhere}/ws"),
    ];
    for target in &targets {
        for host in [
            format!("attacker.example:{port}"),
            "127.0.0.1.nip.io".into(),
            format!("localhost.attacker.example:{port}"),
            "192.168.1.1".into(),
            "0.0.0.0".into(),
            format!("user@127.0.0.1:{port}"),
        ] {
            for origin in [String::new(), format!("Origin: http://{host}\r\n")] {
                let answer = request(target, &format!("Host: {host}\r\n{origin}{upgrade}"));
                assert!(
                    answer.starts_with("HTTP/1.1 421"),
                    "{target} {host} {origin}: {answer}"
                );
                assert!(answer.contains(r#""code":"host_forbidden""#), "{answer}");
            }
        }
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost:1",
            "file://",
            &format!("http://127.0.0.1:{port}.evil.example"),
            &format!("https://evil.example http://{own}"),
        ] {
            let answer = request(target, &format!("Host: {own}\r\nOrigin: {origin}\r\n{upgrade}"));
            assert!(answer.starts_with("HTTP/1.1 403"), "{target} {origin}: {answer}");
            assert!(answer.contains(r#""code":"origin_forbidden""#), "{answer}");
        }
        for headers in ["", &format!("Host: {own}\r\nHost: {own}\r\n"), "Host: \r\n"] {
            let answer = request(target, headers);
            assert!(
                answer.starts_with("HTTP/1.1 400"),
                "{target} {headers:?}: {answer}"
            );
        }
    }
    let absolute = request(
        &format!("http://attacker.example:{port}/v1/sessions"),
        &format!("Host: {own}\r\n"),
    );
    assert!(absolute.starts_with("HTTP/1.1 421"), "{absolute}");
    for (headers, status) in [
        (format!("Host: {own}\r\n"), 200),
        (
            format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"),
            200,
        ),
        (format!("Host: {own}\r\nOrigin: http://{own}\r\n"), 200),
    ] {
        let answer = request("/v1/sessions", &headers);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{headers}: {answer}"
        );
        assert!(
            !answer.to_lowercase().contains("access-control-allow"),
            "{answer}"
        );
    }
    // A page may send these without asking first.
    let rest = Rest::new(daemon.url(), Some(&token));
    let form = rest
        .builder(Method::POST, "/v1/sessions")
        .header(header::CONTENT_TYPE, "text/plain")
        .header(header::ORIGIN, format!("http://{own}"))
        .body(json!({"cwd": "/"}).to_string());
    problem(rest.send(form).await, 415, "unsupported_media_type");
    crate::api::common::assert_nothing_made(&daemon).await;
}

/// Runs a daemon that must not start; its exit code and error output.
fn refused_start(home: &std::path::Path, arguments: &[&str], env: &[(&str, &str)]) -> (i32, String) {
    let output = Command::new(trunkline())
        .arg("serve")
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let (code, told) = refused_start(home.path(), &["--listen", address], &[]);
        assert_eq!(code, 2, "{told}");
        assert!(
            told.contains("server.listen (flag --listen)") && told.contains("--insecure"),
            "{told}"
        );
        let (code, told) = refused_start(home.path(), &[], &[("TRUNKLINE_LISTEN", address)]);
        assert_eq!(code, 2, "{told}");
        assert!(told.contains("environment TRUNKLINE_LISTEN"), "{told}");
    }
    assert!(!home.path().join(".local/state/trunkline/token").exists());
}

#[test]
fn what_is_no_token_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    let token = data.join("token");
    for content in ["", "short\n", "0123456789abcdef 0123456789abcdef\n"] {
        fs::write(&token, content).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let arguments = ["--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        let (code, told) = refused_start(home.path(), &arguments, &[]);
        assert_eq!(code, 1, "{content:?}: {told}");
        assert!(told.contains(token.to_str().unwrap()), "{told}");
        assert!(
            !told.contains("0123456789abcdef"),
            "the token was printed: {told}"
        );
    }
}

#[tokio::test]
async fn a_token_that_others_can_read_is_closed_to_them() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let file = daemon.data_dir().join("token");
    let before = fs::read(&file).unwrap();
    for mode in [0o644, 0o660] {
        daemon.stop();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        daemon.start().await;
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(fs::read(&file).unwrap(), before, "the token was changed");
        daemon.rest().get("/v1/sessions").await.expect(200);
    }
}
