//! Owns the tests of MCP servers that a client serves.

use std::fs;

use serde_json::{Value, json};

use super::{
    acked, answer, asked, between, call, callback, error_code, hook_of, message, reason, result_of, written,
};
use crate::{
    fake::bed::{act, answer_heard, body, of_type, plain, records, session_with},
    support::{
        daemon::TestDaemon,
        server::Server,
        wait::{PATIENCE, wait_for},
    },
};

#[tokio::test]
async fn a_client_serves_mcp_before_initialize_is_answered() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize" });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let gate = daemon.home().join("gate");
    let settings = json!({
        "init": { "wait_file": gate },
        "before_init": [message("m-1", "calc", hello), message("m-2", "calc", list)],
    });
    let options =
        json!({ "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } } });
    let view = rest.create(body(&daemon, "a", settings, options)).await;
    let id = view["id"].as_str().unwrap();
    let mut client = daemon.attach_as("x", id, Some(0)).await;
    for (request, number) in [("m-1", 0), ("m-2", 1)] {
        asked(&mut client, request).await;
        client.send(&answer(request, result_of(number, request))).await;
        acked(&mut client, request).await;
    }
    // And the other way.
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    client
        .send(&json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "mcp_message", "server_name": "calc", "message": notification } }))
        .await;
    wait_for("the message is written", PATIENCE, async || {
        let records = records(&rest, id).await;
        let requests = of_type(&records, "client", "control_request");
        let sent = requests
            .iter()
            .find(|line| line["request"]["subtype"] == "mcp_message")?;
        assert_eq!(sent["request"]["message"], notification);
        Some(())
    })
    .await;
    assert_eq!(rest.session(id).await["state"], "starting");
    fs::write(&gate, "").unwrap();
    rest.in_state(id, &["idle"]).await;
    let heard = answer_heard(&mut daemon.attach(id, Some(0)).await, "m-2").await;
    assert_eq!(heard["response"]["response"], result_of(1, "m-2"), "{heard:#}");
}

#[tokio::test]
async fn answers_come_in_any_order_and_sessions_do_not_mix() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options =
        json!({ "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } } });
    let mut sessions = Vec::new();
    for name in ["a", "b"] {
        let id = session_with(&daemon, name, json!({}), options.clone()).await;
        let client = daemon.attach_as("x", &id, None).await;
        let calls = json!([
            message("m-1", "calc", call(1)), message("m-2", "calc", call(2)),
            { "wait_answer": "m-1" }, { "wait_answer": "m-2" }, { "text": "done" },
        ]);
        act(&rest, &id, calls).await;
        sessions.push((name, id, client));
    }
    for (name, _, client) in &mut sessions {
        asked(client, "m-2").await;
        for (request, number) in [("m-2", 2), ("m-1", 1)] {
            client.send(&answer(request, result_of(number, name))).await;
            acked(client, request).await;
        }
    }
    for (name, id, _) in &sessions {
        rest.in_state(id, &["idle"]).await;
        for (request, number) in [("m-1", 1), ("m-2", 2)] {
            let written = written(&rest, id, request).await;
            assert_eq!(written.len(), 1);
            assert_eq!(
                written[0]["data"]["response"]["response"],
                result_of(number, name)
            );
        }
    }
}

#[tokio::test]
async fn a_call_of_a_tool_takes_as_long_as_it_takes() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RETURN_GRACE_MS", "100")
        .env("TRUNKLINE_SESSIONS_OFFER_MS", "100")
        .start()
        .await;
    let rest = daemon.rest();
    let options = json!({
        "hooks": [hook_of("x", json!({ "timeout_ms": 1000 }))],
        "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } },
    });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    act(
        &rest,
        &id,
        json!([message("m-1", "calc", call(1)), callback("h-1", "trunkline/0"), { "wait_answer": "m-1" }, { "text": "done" }]),
    )
    .await;
    // Every other time that the daemon waits has passed by now.
    assert_eq!(reason(&rest, &id, "h-1").await, "timeout");
    client.send(&answer("m-1", result_of(1, "slow"))).await;
    acked(&mut client, "m-1").await;
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "m-1").await;
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["data"]["response"]["response"], result_of(1, "slow"));
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_call_is_an_error_at_once() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach_as("x", &id, None).await;
    client
        .send(&json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "initialize", "sdkMcpServers": ["calc"] } }))
        .await;
    client
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    // A second connection of the same client keeps it there.
    let second = daemon.attach_as("x", &id, None).await;
    act(
        &rest,
        &id,
        json!([message("m-1", "calc", call(7)), { "wait_answer": "m-1" }, message("m-2", "calc", json!({ "jsonrpc": "2.0", "method": "notifications/x" })), { "wait_answer": "m-2" }, { "text": "done" }]),
    )
    .await;
    let question = asked(&mut client, "m-1").await;
    client.close().await;
    let mut other = daemon.attach(&id, Some(0)).await;
    let pending = other.next().await["pending_requests"][0].clone();
    assert_eq!(
        (&pending["request_id"], &pending["deadline"]),
        (&json!("m-1"), &Value::Null)
    );
    drop(second);
    let heard = answer_heard(&mut other, "m-1").await;
    let response = &heard["response"]["response"]["mcp_response"];
    assert_eq!(
        (&response["id"], &response["error"]["code"]),
        (&json!(7), &json!(-32000)),
        "{heard:#}"
    );
    let heard = answer_heard(&mut other, "m-2").await;
    assert_eq!(
        heard["response"]["response"]["mcp_response"]["result"],
        json!({}),
        "{heard:#}"
    );
    let written = &written(&rest, &id, "m-1").await[0];
    assert!(between(&question, written) < 10_000, "no grace: {written:#}");
    assert_eq!(reason(&rest, &id, "m-1").await, "no_client");
}

#[tokio::test]
async fn an_answer_that_the_cli_could_not_use_is_refused_and_the_request_waits_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({
        "hooks": [hook_of("x", json!({ "on_failure": "block" }))],
        "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } },
    });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    act(
        &rest,
        &id,
        json!([message("m-1", "calc", call(1)), callback("h-1", "trunkline/0"), { "wait_answer": "m-1" }, { "text": "done" }]),
    )
    .await;
    asked(&mut client, "h-1").await;
    for (request, garbage) in [
        ("h-1", json!([1])),
        ("h-1", json!("block")),
        ("m-1", json!({})),
        ("m-1", json!({ "mcp_response": "3" })),
        (
            "m-1",
            json!({ "mcp_response": { "jsonrpc": "2.0", "id": "1", "result": {} } }),
        ),
        ("m-1", result_of(2, "another's")),
    ] {
        client.send(&answer(request, garbage.clone())).await;
        assert_eq!(error_code(&mut client).await, "invalid_line", "{garbage}");
    }
    client.send(&answer("h-1", json!({ "decision": "block" }))).await;
    client.send(&answer("m-1", result_of(1, "three"))).await;
    rest.in_state(&id, &["idle"]).await;
    for (request, payload) in [
        ("h-1", json!({ "decision": "block" })),
        ("m-1", result_of(1, "three")),
    ] {
        let written = written(&rest, &id, request).await;
        assert_eq!(written.len(), 1);
        assert_eq!(written[0]["data"]["response"]["response"], payload);
    }
}

/// As the specification of MCP says, nobody answers a call that was cancelled.
#[tokio::test]
async fn a_cancelled_call_holds_nothing_up() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let target = json!({ "type": "url", "url": server.url("/mcp").uri().to_string() });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "web", "version": "1" } });
    let options = json!({ "sdk_mcp_servers": {
        "calc": { "target": { "type": "client", "client_id": "x" } },
        "web": { "target": target, "manifest": { "initializeResult": hello, "toolsListResult": { "tools": [] } } },
    } });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut client = daemon.attach_as("x", &id, None).await;
    let cancel = |id: u64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    let gate = daemon.home().join("gate");
    let actions = json!([
        message("m-1", "calc", call(1)), message("m-2", "calc", call(2)), message("m-3", "web", call(1)),
        { "wait_file": gate },
        message("c-1", "calc", cancel(1)), message("c-3", "web", cancel(1)), { "text": "done" },
    ]);
    act(&rest, &id, actions).await;
    // The server is greeted, and called; it does not answer.
    let call = loop {
        let exchange = server.next().await;
        let message: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        match message["method"].as_str() {
            Some("tools/call") => break exchange,
            Some("initialize") => {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": hello });
                let head = "200 OK\ncontent-type: application/json";
                exchange.answer(head, &answer.to_string()).await;
            }
            Some(_) => exchange.answer("202 Accepted", "").await,
            None => exchange.answer("405 Method Not Allowed", "").await,
        }
    };
    asked(&mut client, "m-2").await;
    fs::write(&gate, "").unwrap();
    // The bridge hangs up.
    call.gone().await;
    asked(&mut client, "c-1").await;
    client.send(&answer("m-1", result_of(1, "late"))).await;
    assert_eq!(error_code(&mut client).await, "request_not_pending");
    for (request, payload) in [
        ("m-2", result_of(2, "two")),
        ("c-1", json!({ "mcp_response": {} })),
    ] {
        client.send(&answer(request, payload)).await;
        acked(&mut client, request).await;
    }
    let told = async {
        loop {
            let exchange = server.next().await;
            if exchange.body.contains("notifications/cancelled") {
                return exchange.answer("202 Accepted", "").await;
            }
            exchange.answer("405 Method Not Allowed", "").await;
        }
    };
    told.await;
    wait_for("nothing is open", PATIENCE, async || {
        let view = rest.session(&id).await;
        (view["state"] == "idle" && !view["silent_for_ms"].is_null()).then_some(())
    })
    .await;
    let snapshot = daemon.attach(&id, None).await.next().await;
    assert_eq!(snapshot["pending_requests"], json!([]), "{snapshot:#}");
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
}
