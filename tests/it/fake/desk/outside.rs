//! Owns the tests of what is reached over HTTP: webhooks, and MCP servers behind URLs.

use std::fs;

use serde_json::{Value, json};

use super::{call, callback, message, reason, written};
use crate::{
    fake::bed::{act, path, session_with},
    support::{
        daemon::TestDaemon,
        server::{Exchange, Server},
    },
};

fn webhook(server: &Server, with: Value) -> Value {
    let url = server.url("/hook?key=s3cret").uri().to_string();
    let mut hook =
        json!({ "event": "PreToolUse", "target": { "type": "webhook", "url": url, "secret": "s3cret" } });
    for (name, value) in with.as_object().unwrap() {
        hook[name] = value.clone();
    }
    hook
}

#[tokio::test]
async fn a_webhook_is_called_again_by_the_next_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let mut server = Server::start().await;
    let options = json!({ "hooks": [webhook(&server, json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    act(
        &daemon.rest(),
        &id,
        json!([callback("h-1", "trunkline/0"), { "text": "done" }]),
    )
    .await;
    let first = server.next().await;
    daemon.kill();
    daemon.start().await;
    let second = server.next().await;
    for header in ["webhook-id", "trunkline-event"] {
        assert_eq!(first.header(header), second.header(header), "{header}");
    }
    assert_eq!(first.body, second.body);
    second
        .answer(
            "200 OK\ncontent-type: application/json",
            r#"{"systemMessage":"heard"}"#,
        )
        .await;
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "h-1").await;
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["by"], "webhook:0");
    assert_eq!(
        written[0]["data"]["response"]["response"],
        json!({ "systemMessage": "heard" })
    );
    assert!(
        !rest.session(&id).await.to_string().contains("\"s3cret\""),
        "a secret is not given back"
    );
    assert!(!daemon.log().contains("s3cret"));
}

#[tokio::test]
async fn a_webhook_that_fails_leaves_the_stated_answer() {
    let daemon = TestDaemon::with_fake().start().await;
    let mut server = Server::start().await;
    let block = json!({ "on_failure": "block" });
    let options =
        json!({ "hooks": [webhook(&server, block), webhook(&server, json!({ "timeout_ms": 1000 }))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let rest = daemon.rest();
    act(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), callback("h-2", "trunkline/1"), { "text": "done" }]),
    )
    .await;
    server.next().await.answer("403 Forbidden", "").await;
    assert_eq!(reason(&rest, &id, "h-1").await, "webhook_failed");
    let denied = written(&rest, &id, "h-1").await[0]["data"]["response"]["response"].clone();
    assert_eq!(
        denied["hookSpecificOutput"]["permissionDecision"], "deny",
        "{denied:#}"
    );
    // This one never answers.
    let _silent = server.next().await;
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(
        written(&rest, &id, "h-2").await[0]["data"]["response"]["response"],
        json!({})
    );
    assert!(!daemon.log().contains("s3cret"));
}

#[tokio::test]
async fn a_call_of_a_tool_behind_a_url_is_not_repeated_by_the_next_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let mut server = Server::start().await;
    let target = json!({ "type": "url", "url": server.url("/mcp").uri().to_string() });
    let options = json!({ "sdk_mcp_servers": { "calc": { "target": target } } });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } });
    let again = daemon.home().join("again");
    act(
        &daemon.rest(),
        &id,
        json!([
            message("m-0", "calc", hello), { "wait_answer": "m-0" },
            message("m-1", "calc", call(1)), { "wait_answer": "m-1" },
            { "wait_file": again }, message("m-2", "calc", call(2)), { "wait_answer": "m-2" }, { "text": "done" },
        ]),
    )
    .await;
    let greeted = |id: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "result": { "protocolVersion": "2025-11-25", "capabilities": {} } }).to_string()
    };
    let json_head = "200 OK\ncontent-type: application/json\nmcp-session-id: s1";
    server.next().await.answer(json_head, &greeted(json!(0))).await;
    let called = server.next().await;
    assert!(called.body.contains("tools/call"), "{}", called.body);
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    assert_eq!(reason(&rest, &id, "m-1").await, "outcome_unknown");
    let told = written(&rest, &id, "m-1").await[0]["data"]["response"]["response"]["mcp_response"].clone();
    assert!(
        told["error"]["message"]
            .as_str()
            .unwrap()
            .contains("may have run"),
        "{told:#}"
    );
    // The next call finds a server that was greeted anew, with what the CLI said.
    fs::write(&again, "").unwrap();
    let hello = server.next().await;
    assert!(hello.body.contains(r#""method":"initialize""#), "{}", hello.body);
    hello.answer(json_head, &greeted(json!(0))).await;
    let ready = server.next().await;
    assert!(ready.body.contains("notifications/initialized"), "{}", ready.body);
    ready.answer("202 Accepted", "").await;
    let mut call = server.next().await;
    while call.method == "GET" {
        call.answer("405 Method Not Allowed", "").await;
        call = server.next().await;
    }
    assert!(call.body.contains(r#""id":2"#), "{}", call.body);
    call.answer(
        json_head,
        &json!({ "jsonrpc": "2.0", "id": 2, "result": {} }).to_string(),
    )
    .await;
    rest.in_state(&id, &["idle"]).await;
}

/// Answers what an MCP server behind a URL is asked until `last` comes, which is returned.
async fn greeted_until(server: &mut Server, session: &str, last: &str) -> (Exchange, Vec<String>) {
    let mut seen = Vec::new();
    loop {
        let asked = server.next().await;
        if asked.body.contains(last) {
            return (asked, seen);
        }
        if asked.method == "GET" {
            asked.answer("405 Method Not Allowed", "").await;
        } else if asked.body.contains(r#""method":"initialize""#) {
            let body: Value = serde_json::from_str(&asked.body).unwrap();
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
            let answer = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result });
            let head = format!("200 OK\ncontent-type: application/json\nmcp-session-id: {session}");
            seen.push("initialize".to_owned());
            asked.answer(&head, &answer.to_string()).await;
        } else {
            seen.push(asked.header("mcp-session-id").unwrap_or_default().to_owned());
            asked.answer("202 Accepted", "").await;
        }
    }
}

const JSON: &str = "200 OK\ncontent-type: application/json";

#[tokio::test]
async fn a_server_that_forgot_its_session_is_greeted_again() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let target = json!({ "type": "url", "url": server.url("/mcp").uri().to_string() });
    let options = json!({ "sdk_mcp_servers": { "calc": { "target": target } } });
    let id = session_with(&daemon, "a", json!({}), options).await;
    act(
        &rest,
        &id,
        json!([
            message("m-1", "calc", call(1)), { "wait_answer": "m-1" },
            message("m-2", "calc", call(2)), { "wait_answer": "m-2" }, { "text": "done" },
        ]),
    )
    .await;
    let result = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "result": { "n": id } }).to_string();
    let (call, _) = greeted_until(&mut server, "s1", "tools/call").await;
    call.answer(JSON, &result(1)).await;
    // It was restarted, and knows nothing of the session.
    let (call, _) = greeted_until(&mut server, "s1", "tools/call").await;
    assert_eq!(call.header("mcp-session-id"), Some("s1"));
    call.answer("404 Not Found", "").await;
    let (call, seen) = greeted_until(&mut server, "s2", "tools/call").await;
    assert_eq!(seen, ["initialize", "s2"]);
    assert_eq!(call.header("mcp-session-id"), Some("s2"));
    call.answer(JSON, &result(2)).await;
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "m-2").await;
    let response = &written[0]["data"]["response"]["response"]["mcp_response"];
    assert_eq!(response["result"], json!({ "n": 2 }), "{written:#?}");
}

#[tokio::test]
async fn a_server_that_talks_without_end_leaves_room_for_people() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let target = json!({ "type": "url", "url": server.url("/mcp").uri().to_string() });
    let options = json!({ "sdk_mcp_servers": { "calc": { "target": target } } });
    let id = session_with(&daemon, "a", json!({}), options).await;
    act(
        &rest,
        &id,
        json!([message("m-1", "calc", call(1)), { "wait_answer": "m-1" }, { "text": "done" }]),
    )
    .await;
    let (mut call, _) = greeted_until(&mut server, "s1", "tools/call").await;
    call.begin_events().await;
    let talk = r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    let many = format!("{talk}\n\n").repeat(1000);
    let talking = async { while call.write(&many).await {} };
    let asking = async {
        // Each prompt would meet a queue that is full of it.
        for number in 0..20 {
            let body = json!({ "text": format!("prompt {number}") });
            rest.post(&path(&id, "messages"), body).await.expect(202);
        }
    };
    tokio::select! {
        () = asking => {}
        () = talking => panic!("the server was cut off"),
    }
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
}
