//! Owns the tests of MCP servers that are no processes of the CLI: a client serves them, or a URL does.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    support::{
        server::{Exchange, Server},
        ws::Ws,
    },
    world::{MCP_SERVER, World},
};

const TOOL: &str = "mcp__calc__add";

/// A server's answer to a request; nothing to a notification, and to the call of a tool.
fn stock_answer(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": { "tools": {} },
            "serverInfo": { "name": "calc", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "add", "inputSchema": { "type": "object" } }] }),
        _ => return None,
    };
    Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn sum(message: &Value) -> Value {
    let text = format!(
        "the sum is {}",
        message["params"]["arguments"]["a"].as_u64().unwrap() + 1
    );
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": [{ "type": "text", "text": text }] } })
}

async fn asked(client: &mut Ws) -> Value {
    let is_message =
        |frame: &Value| frame["src"] == "cli" && frame["data"]["request"]["subtype"] == "mcp_message";
    client.until("a message", is_message).await.pop().unwrap()["data"].take()
}

async fn respond(client: &mut Ws, asked: &Value, response: Value) {
    let payload = json!({ "mcp_response": response });
    let response = json!({ "subtype": "success", "request_id": asked["request_id"], "response": payload });
    client
        .send(&json!({ "type": "control_response", "response": response }))
        .await;
}

/// Answers what comes before the call of a tool; that call.
async fn serve_to_the_call(client: &mut Ws) -> Value {
    loop {
        let asked = asked(client).await;
        let message = &asked["request"]["message"];
        if message["method"] == "tools/call" {
            return asked;
        }
        let response = stock_answer(message).unwrap_or(json!({ "jsonrpc": "2.0", "result": {}, "id": 0 }));
        respond(client, &asked, response).await;
    }
}

fn calls() -> Value {
    json!([{ "tool": TOOL, "input": { "a": 41 } }, { "text": "done" }])
}

async fn told(world: &World, id: &str) -> String {
    world.idle_after(id, 1).await;
    world.last_request().await["messages"].to_string()
}

#[tokio::test]
async fn a_client_serves_mcp() {
    let world = World::start().await;
    let servers = json!({ "calc": { "target": { "type": "client", "client_id": "x" } } });
    let options = json!({ "sdk_mcp_servers": servers, "allowed_tools": [TOOL] });
    let id = world.session(options).await;
    let mut client = world.daemon.attach_as("x", &id, Some(0)).await;
    world.prompt(&id, calls()).await;
    let call = serve_to_the_call(&mut client).await;
    respond(&mut client, &call, sum(&call["request"]["message"])).await;
    assert!(told(&world, &id).await.contains("the sum is 42"));
}

#[tokio::test]
async fn a_client_announces_servers_later_and_tells_of_new_tools() {
    let world = World::start().await;
    let id = world.session(json!({ "allowed_tools": [TOOL] })).await;
    let mut client = world.daemon.attach_as("x", &id, None).await;
    let set =
        json!({ "subtype": "mcp_set_servers", "servers": { "calc": { "type": "sdk", "name": "calc" } } });
    client
        .send(&json!({ "type": "control_request", "request_id": "1", "request": set }))
        .await;
    // The CLI greets the server before it answers.
    for _ in 0..3 {
        let asked = asked(&mut client).await;
        let response = stock_answer(&asked["request"]["message"]);
        respond(
            &mut client,
            &asked,
            response.unwrap_or(json!({ "jsonrpc": "2.0", "result": {}, "id": 0 })),
        )
        .await;
    }
    world.prompt(&id, calls()).await;
    let call = serve_to_the_call(&mut client).await;
    respond(&mut client, &call, sum(&call["request"]["message"])).await;
    assert!(told(&world, &id).await.contains("the sum is 42"));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    client
        .send(&json!({ "type": "control_request", "request_id": "2", "request": { "subtype": "mcp_message", "server_name": "calc", "message": changed } }))
        .await;
    let again = asked(&mut client).await;
    assert_eq!(again["request"]["message"]["method"], "tools/list", "{again:#}");
}

/// One request for all: what fails is named, and the others serve.
#[tokio::test]
async fn a_good_a_failing_and_an_in_process_server_are_set_in_one_request() {
    let world = World::start().await;
    world.write("server.py", MCP_SERVER);
    let wave = "mcp__good__wave";
    let id = world.session(json!({ "allowed_tools": [TOOL, wave] })).await;
    let mut client = world.daemon.attach_as("x", &id, None).await;
    let servers = json!({
        "good": { "type": "stdio", "command": "python3", "args": [world.dir().join("server.py")] },
        "failing": { "type": "stdio", "command": "/nonexistent", "args": [] },
        "calc": { "type": "sdk", "name": "calc" },
    });
    let set = json!({ "subtype": "mcp_set_servers", "servers": servers });
    client
        .send(&json!({ "type": "control_request", "request_id": "mine", "request": set }))
        .await;
    // The CLI greets the client's server before it answers.
    let answered = loop {
        let frame = client
            .until("a message or the answer", |frame| {
                frame["type"] == "control_response" || frame["data"]["request"]["subtype"] == "mcp_message"
            })
            .await
            .pop()
            .unwrap();
        if frame["type"] == "control_response" {
            break frame;
        }
        let response = stock_answer(&frame["data"]["request"]["message"]);
        let response = response.unwrap_or(json!({ "jsonrpc": "2.0", "result": {}, "id": 0 }));
        respond(&mut client, &frame["data"], response).await;
    };
    let response = &answered["response"];
    assert_eq!(response["request_id"], "mine", "{answered:#}");
    let mut added: Vec<_> = response["response"]["added"].as_array().unwrap().clone();
    added.sort_by_key(Value::to_string);
    assert_eq!(added, ["calc", "failing", "good"], "{answered:#}");
    let errors = response["response"]["errors"].as_object().unwrap();
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["failing"]);

    let steps =
        json!([{ "tool": TOOL, "input": { "a": 41 } }, { "tool": wave, "input": {} }, { "text": "done" }]);
    world.prompt(&id, steps).await;
    let call = serve_to_the_call(&mut client).await;
    respond(&mut client, &call, sum(&call["request"]["message"])).await;
    let told = told(&world, &id).await;
    assert!(told.contains("the sum is 42") && told.contains("waved"), "{told}");
    let status = world
        .rest
        .get(&format!("/v1/sessions/{id}/mcp"))
        .await
        .expect(200);
    let servers = status["response"]["mcpServers"].as_array().unwrap();
    for (name, expected) in [
        ("good", "connected"),
        ("failing", "failed"),
        ("calc", "connected"),
    ] {
        let server = servers.iter().find(|server| server["name"] == name).unwrap();
        assert_eq!(server["status"], expected, "{status:#}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_call_fails_the_tool_and_not_the_turn() {
    let world = World::start().await;
    let servers = json!({ "calc": { "target": { "type": "client", "client_id": "x" } } });
    let options = json!({ "sdk_mcp_servers": servers, "allowed_tools": [TOOL] });
    let id = world.session(options).await;
    let mut client = world.daemon.attach_as("x", &id, Some(0)).await;
    world.prompt(&id, calls()).await;
    serve_to_the_call(&mut client).await;
    drop(client);
    assert!(told(&world, &id).await.contains("not connected"));
    let results = world.lines(&id, "result").await;
    assert_eq!(results[0]["result"], "done", "{results:#?}");
}

async fn json_answer(exchange: Exchange, extra: &str, answer: &Value) {
    let head = format!("200 OK\ncontent-type: application/json{extra}");
    exchange.answer(&head, &answer.to_string()).await;
}

/// Answers as a server over HTTP until a tool is called; that call, and its message.
async fn serve_http_to_the_call(server: &mut Server) -> (Exchange, Value) {
    loop {
        let exchange = server.next().await;
        if exchange.method == "GET" {
            exchange.answer("405 Method Not Allowed", "").await;
            continue;
        }
        assert_eq!(exchange.header("authorization"), Some("Bearer s3cret"));
        let message: Value = serde_json::from_str(&exchange.body).unwrap();
        if message["method"] != "initialize" {
            assert_eq!(exchange.header("mcp-session-id"), Some("s1"), "{message:#}");
        }
        match message["method"].as_str() {
            Some("tools/call") => return (exchange, message),
            Some("initialize") => {
                json_answer(exchange, "\nmcp-session-id: s1", &stock_answer(&message).unwrap()).await;
            }
            Some("tools/list") => json_answer(exchange, "", &stock_answer(&message).unwrap()).await,
            _ => exchange.answer("202 Accepted", "").await,
        }
    }
}

fn url_server(server: &Server, manifest: Option<Value>) -> Value {
    let target = json!({
        "type": "url", "url": server.url("/mcp").uri().to_string(), "headers": { "Authorization": "Bearer s3cret" },
    });
    let mut config = json!({ "target": target });
    if let Some(manifest) = manifest {
        config["manifest"] = manifest;
    }
    json!({ "sdk_mcp_servers": { "calc": config }, "allowed_tools": [TOOL] })
}

#[tokio::test]
async fn a_url_serves_mcp() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let id = world.session(url_server(&server, None)).await;
    world.prompt(&id, calls()).await;
    let (exchange, message) = serve_http_to_the_call(&mut server).await;
    // As a stream: first something of the server's own.
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "at it" } });
    let events = format!("data: {progress}\n\ndata: {}\n\n", sum(&message));
    exchange
        .answer("200 OK\ncontent-type: text/event-stream", &events)
        .await;
    assert!(told(&world, &id).await.contains("the sum is 42"));
    let events = world.rest.events(&id, 0).await;
    let passed_on = events
        .iter()
        .filter(|record| record["src"] == "client" && record["data"]["request"]["subtype"] == "mcp_message");
    let messages: Vec<_> = passed_on
        .map(|record| &record["data"]["request"]["message"])
        .collect();
    assert_eq!(messages, [&progress]);
    assert!(!json!(events).to_string().contains("s3cret"));
    assert!(!world.rest.session(&id).await.to_string().contains("s3cret"));
    // The end of the process is the end of the server's session.
    let (stopped, goodbye) = tokio::join!(world.stop(&id), async {
        let exchange = server.next().await;
        let method = exchange.method.clone();
        exchange.answer("200 OK", "").await;
        method
    });
    assert_eq!(
        (&stopped["state"], goodbye.as_str()),
        (&json!("stopped"), "DELETE")
    );
}

#[tokio::test]
async fn a_url_that_is_known_by_its_manifest_is_greeted_when_it_is_needed() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let list = stock_answer(&json!({ "method": "tools/list" })).unwrap();
    let hello =
        stock_answer(&json!({ "method": "initialize", "params": { "protocolVersion": "2025-11-25" } }))
            .unwrap();
    let manifest = json!({ "initializeResult": hello["result"], "toolsListResult": list["result"] });
    let id = world.session(url_server(&server, Some(manifest))).await;
    world.prompt(&id, calls()).await;
    let (exchange, message) = serve_http_to_the_call(&mut server).await;
    json_answer(exchange, "", &sum(&message)).await;
    assert!(told(&world, &id).await.contains("the sum is 42"));
}

#[tokio::test]
async fn a_url_that_fails_is_an_error_to_the_model() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let id = world.session(url_server(&server, None)).await;
    world.prompt(&id, calls()).await;
    let (exchange, _) = serve_http_to_the_call(&mut server).await;
    exchange.answer("400 Bad Request", "").await;
    assert!(told(&world, &id).await.contains("cannot be reached"));
}

/// An interrupt cancels the call of a tool: its server is told, and it is open no longer.
#[tokio::test]
async fn an_interrupted_call_of_a_client_is_open_no_longer() {
    let world = World::start().await;
    let servers = json!({ "calc": { "target": { "type": "client", "client_id": "x" } } });
    let options = json!({ "sdk_mcp_servers": servers, "allowed_tools": [TOOL] });
    let id = world.session(options).await;
    let mut client = world.daemon.attach_as("x", &id, Some(0)).await;
    world.prompt(&id, calls()).await;
    let call = serve_to_the_call(&mut client).await;
    world
        .rest
        .lifecycle(&id, "interrupt", json!({}))
        .await
        .expect(200);
    let cancelled = asked(&mut client).await;
    let message = &cancelled["request"]["message"];
    assert_eq!(message["method"], "notifications/cancelled", "{message:#}");
    assert_eq!(
        message["params"]["requestId"], call["request"]["message"]["id"],
        "{message:#}"
    );
    let done = json!({ "jsonrpc": "2.0", "result": {}, "id": 0 });
    respond(&mut client, &cancelled, done).await;
    world.idle_after(&id, 1).await;
    let snapshot = world.daemon.attach(&id, None).await.next().await;
    assert_eq!(snapshot["pending_requests"], json!([]), "{snapshot:#}");
    let parked = world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    assert_eq!(parked["state"], "parked");
}

#[tokio::test]
async fn an_interrupted_call_of_a_url_is_hung_up() {
    let world = World::start().await;
    let mut server = Server::start().await;
    let id = world.session(url_server(&server, None)).await;
    world.prompt(&id, calls()).await;
    let (exchange, _) = serve_http_to_the_call(&mut server).await;
    world
        .rest
        .lifecycle(&id, "interrupt", json!({}))
        .await
        .expect(200);
    exchange.gone().await;
    let cancelled = server.next().await;
    assert!(
        cancelled.body.contains("notifications/cancelled"),
        "{}",
        cancelled.body
    );
    cancelled.answer("202 Accepted", "").await;
    world.idle_after(&id, 1).await;
    let parked = world.rest.lifecycle(&id, "park", json!({})).await.expect(200);
    assert_eq!(parked["state"], "parked");
}

/// The CLI itself would wait for half a minute, and for a minute where a notification gets no answer.
#[tokio::test]
async fn a_client_that_is_away_or_silent_does_not_hold_up_the_first_turn() {
    let world = World::start().await;
    for name in ["away", "silent", "forgetful"] {
        let servers = json!({ "calc": { "target": { "type": "client", "client_id": "x" } } });
        let id = world.session(json!({ "sdk_mcp_servers": servers })).await;
        let begun = Instant::now();
        let mut client = match name {
            "away" => None,
            _ => Some(world.daemon.attach_as("x", &id, Some(0)).await),
        };
        // A notification gets no answer, as JSON-RPC has it.
        let serves = async {
            let Some(client) = client.as_mut().filter(|_| name == "forgetful") else {
                return std::future::pending().await;
            };
            loop {
                let asked = asked(client).await;
                if let Some(response) = stock_answer(&asked["request"]["message"]) {
                    respond(client, &asked, response).await;
                }
            }
        };
        let answer = tokio::select! {
            answer = world.answer(&id, json!([{ "text": "ready" }])) => answer,
            () = serves => unreachable!("it serves on"),
        };
        assert_eq!(answer, "ready");
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "{name}: {:?}",
            begun.elapsed()
        );
        let records = world.rest.events(&id, 0).await;
        let told = records.iter().find(|record| record["data"]["type"] == "fallback");
        let reason = if name == "away" { "no_client" } else { "timeout" };
        assert_eq!(told.unwrap()["data"]["reason"], reason, "{name}");
    }
}
