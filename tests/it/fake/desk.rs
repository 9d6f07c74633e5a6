//! Owns what the CLI asks its host and no person decides: hooks, messages to MCP servers, and what is not known.

mod changed;
mod mcp;
mod outside;
mod registered;
mod stopping;

use std::{collections::BTreeSet, fs};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, answer_heard, body, of_type, path, plain, records, session, session_with},
    support::{
        daemon::TestDaemon,
        rest::Rest,
        server::Server,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

/// A hook of the launch options that a client answers.
fn hook_of(client: &str, with: Value) -> Value {
    let mut hook = json!({ "event": "PreToolUse", "target": { "type": "client", "client_id": client } });
    for (name, value) in with.as_object().unwrap() {
        hook[name] = value.clone();
    }
    hook
}

/// The CLI calls a hook back.
fn callback(id: &str, callback: &str) -> Value {
    let input = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash" });
    json!({ "request": { "subtype": "hook_callback", "callback_id": callback, "input": input }, "id": id })
}

/// The CLI sends a JSON-RPC message to an MCP server; it goes on without the answer.
fn message(id: &str, server: &str, message: Value) -> Value {
    json!({
        "request": { "subtype": "mcp_message", "server_name": server, "message": message }, "id": id, "wait": false,
    })
}

fn call(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "add" } })
}

fn answer(request_id: &str, payload: Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request_id, "response": payload },
    })
}

fn result_of(id: u64, text: &str) -> Value {
    json!({ "mcp_response": { "jsonrpc": "2.0", "id": id, "result": { "text": text } } })
}

/// Reads on to the record of a request of the CLI.
async fn asked(client: &mut Ws, request_id: &str) -> Value {
    let wanted = |frame: &Value| frame["src"] == "cli" && frame["data"]["request_id"] == request_id;
    client.find(&format!("the request {request_id}"), wanted).await
}

async fn error_code(client: &mut Ws) -> String {
    let error = client
        .until("an error", |frame| frame["type"] == "trunkline.error")
        .await
        .pop()
        .unwrap();
    error["code"].as_str().unwrap().to_owned()
}

async fn acked(client: &mut Ws, request_id: &str) {
    let wanted = |frame: &Value| frame["type"] == "trunkline.ack" && frame["request_id"] == request_id;
    client.find(&format!("the ack of {request_id}"), wanted).await;
}

/// The records of the answers to a request that were written to the CLI.
async fn written(rest: &Rest, session: &str, request_id: &str) -> Vec<Value> {
    let mut records = records(rest, session).await;
    records
        .retain(|record| record["src"] == "client" && record["data"]["response"]["request_id"] == request_id);
    records
}

/// Why stated answers were given, by the CLI's request id.
async fn reason(rest: &Rest, session: &str, request_id: &str) -> Value {
    wait_for("the record of the stated answer", PATIENCE, async || {
        let records = records(rest, session).await;
        let notes = of_type(&records, "daemon", "fallback");
        let note = notes.into_iter().find(|note| note["request_id"] == request_id)?;
        Some(note["reason"].clone())
    })
    .await
}

/// Milliseconds between two records.
fn between(earlier: &Value, later: &Value) -> u64 {
    let micros = |record: &Value| {
        let time: trunkline::domain::Timestamp = record["ts"].as_str().unwrap().parse().unwrap();
        time
    };
    micros(later).millis_since(micros(earlier))
}

#[tokio::test]
async fn a_hook_is_answered_by_its_client_and_by_no_other() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let mut other = daemon.attach_as("y", &id, None).await;
    assert_eq!(owner.next().await["client_id"], "x");
    act(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), { "text": "done" }]),
    )
    .await;
    asked(&mut owner, "h-1").await;
    let output = json!({ "systemMessage": "ü", "hookSpecificOutput": { "hookEventName": "PreToolUse", "unknown": [1, null] } });
    other.send(&answer("h-1", output.clone())).await;
    assert_eq!(error_code(&mut other).await, "request_not_owned");
    owner.send(&answer("h-1", output.clone())).await;
    acked(&mut owner, "h-1").await;
    owner.send(&answer("h-1", json!({}))).await;
    assert_eq!(error_code(&mut owner).await, "request_not_pending");
    let heard = answer_heard(&mut daemon.attach(&id, Some(0)).await, "h-1").await;
    assert_eq!(heard["response"]["response"], output, "{heard:#}");
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "h-1").await;
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["by"], "ws:x");
    let records = records(&rest, &id).await;
    let initialize = of_type(&records, "client", "control_request")[0];
    assert_eq!(
        initialize["request"]["hooks"]["PreToolUse"],
        json!([{ "hookCallbackIds": ["trunkline/0"], "timeout": 60 }])
    );
}

/// Spacing, order, numbers and escapes of an output are its author's, whichever target it comes from.
#[tokio::test]
async fn outputs_of_hooks_and_servers_reach_the_cli_byte_for_byte() {
    let odd = |name: &str| format!(r#"{{"z":1.50, "e":1E-07,"s":"\u0041", "a":{{"{name}":[ ]}}}}"#);
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut server = Server::start().await;
    let stdin = daemon.home().join("stdin");
    let target = json!({ "type": "webhook", "url": server.url("/hook").uri().to_string() });
    let options = json!({
        "hooks": [
            hook_of("x", json!({})),
            { "event": "PreToolUse", "target": target },
            { "event": "PreToolUse", "target": { "type": "fixed", "output": "FIXED" } },
        ],
        "sdk_mcp_servers": { "calc": { "target": { "type": "client", "client_id": "x" } } },
    });
    let body = body(&daemon, "a", json!({ "record_stdin": stdin }), options).to_string();
    let request = rest
        .builder(Method::POST, "/v1/sessions?wait=ready")
        .header("content-type", "application/json")
        .body(body.replace(r#""FIXED""#, &odd("fixed")));
    let view = rest.send(request).await.expect(201);
    let id = view["id"].as_str().unwrap().to_owned();
    let mut client = daemon.attach_as("x", &id, None).await;
    let waiting = |mut hook: Value| {
        hook["wait"] = json!(false);
        hook
    };
    let asks = json!([
        waiting(callback("h-0", "trunkline/0")),
        waiting(callback("h-1", "trunkline/1")),
        waiting(callback("h-2", "trunkline/2")),
        message("m-1", "calc", call(1)),
        { "wait_answer": "h-0" }, { "wait_answer": "h-1" }, { "wait_answer": "h-2" }, { "wait_answer": "m-1" },
    ]);
    act(&rest, &id, asks).await;
    server
        .next()
        .await
        .answer("200 OK\ncontent-type: application/json", &odd("webhook"))
        .await;
    let served = format!(
        r#"{{"mcp_response":{{"jsonrpc":"2.0","id":1,"result":{}}}}}"#,
        odd("served")
    );
    for (request, payload) in [("h-0", odd("client")), ("m-1", served)] {
        asked(&mut client, request).await;
        let response = format!(r#"{{"subtype":"success","request_id":"{request}","response":{payload}}}"#);
        client
            .send_text(&format!(r#"{{"type":"control_response","response":{response}}}"#))
            .await;
        acked(&mut client, request).await;
    }
    rest.in_state(&id, &["idle"]).await;
    let stdin = fs::read_to_string(stdin).unwrap();
    for output in ["client", "webhook", "fixed", "served"].map(odd) {
        assert_eq!(stdin.matches(&output).count(), 1, "{output}: {stdin}");
    }
}

#[tokio::test]
async fn an_error_of_the_client_is_an_error_to_the_cli() {
    let daemon = TestDaemon::with_fake().start().await;
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    act(&daemon.rest(), &id, json!([callback("h-1", "trunkline/0")])).await;
    asked(&mut owner, "h-1").await;
    let refusal = json!({ "subtype": "error", "request_id": "h-1", "error": "my hook broke" });
    owner
        .send(&json!({ "type": "control_response", "response": refusal }))
        .await;
    let heard = answer_heard(&mut owner, "h-1").await;
    assert_eq!(heard["response"]["error"], "my hook broke", "{heard:#}");
}

#[tokio::test]
async fn a_hook_without_an_answer_gets_the_stated_one_before_the_cli_gives_up() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RETURN_GRACE_MS", "200")
        .start()
        .await;
    let rest = daemon.rest();
    let block = json!({ "timeout_ms": 2000, "on_failure": "block" });
    let options = json!({ "hooks": [
        hook_of("silent", block),
        hook_of("away", json!({})),
        hook_of("away", json!({ "fallback": { "decision": "block", "reason": "as registered" } })),
        { "event": "PreToolUse", "target": { "type": "fixed", "output": { "suppressOutput": true } } },
    ] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut silent = daemon.attach_as("silent", &id, Some(0)).await;
    act_through(
        &rest,
        &id,
        json!([
            callback("h-0", "trunkline/0"),
            callback("h-1", "trunkline/1"),
            callback("h-2", "trunkline/2"),
            callback("h-3", "trunkline/3"),
            callback("h-4", "never/registered"),
        ]),
    )
    .await;
    let question = asked(&mut silent, "h-0").await;
    let late = &written(&rest, &id, "h-0").await[0];
    let output = &late["data"]["response"]["response"]["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{late:#}");
    assert!(
        between(&question, late) < 2000,
        "the CLI waits no longer: {late:#}"
    );
    silent.send(&answer("h-0", json!({}))).await;
    assert_eq!(error_code(&mut silent).await, "request_not_pending");
    let payload =
        async |request: &str| written(&rest, &id, request).await[0]["data"]["response"]["response"].clone();
    assert_eq!(payload("h-1").await, json!({}));
    assert_eq!(payload("h-2").await["reason"], "as registered");
    assert_eq!(payload("h-3").await, json!({ "suppressOutput": true }));
    assert_eq!(payload("h-4").await, json!({}));
    for (request, expected) in [
        ("h-0", "timeout"),
        ("h-1", "no_client"),
        ("h-2", "no_client"),
        ("h-4", "unregistered"),
    ] {
        assert_eq!(reason(&rest, &id, request).await, expected, "{request}");
        assert_eq!(written(&rest, &id, request).await.len(), 1);
    }
}

#[tokio::test]
async fn the_owner_of_a_hook_may_return_and_answer() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    act(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), { "text": "done" }]),
    )
    .await;
    let seq = asked(&mut owner, "h-1").await["seq"].clone();
    owner.close().await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let snapshot = owner.next().await;
    let pending = &snapshot["pending_requests"][0];
    assert_eq!(pending["request_id"], "h-1", "{snapshot:#}");
    assert_eq!(pending["seq"], seq);
    assert_eq!(pending["subtype"], "hook_callback");
    assert_eq!(pending["client_id"], "x");
    assert!(pending["deadline"].is_string());
    assert_eq!(pending["request"]["input"]["tool_name"], "Bash");
    owner.send(&answer("h-1", json!({ "continue": true }))).await;
    acked(&mut owner, "h-1").await;
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "h-1").await;
    assert_eq!((written.len(), &written[0]["by"]), (1, &json!("ws:x")));
    let snapshot = daemon.attach(&id, None).await.next().await;
    assert_eq!(snapshot["pending_requests"], json!([]));
}

#[tokio::test]
async fn a_hook_survives_the_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    // One that the options registered, and one that the client did.
    let hooks = json!({ "Stop": [{ "hookCallbackIds": ["mine"], "timeout": 50 }] });
    owner
        .send(&json!({ "type": "control_request", "request_id": "i", "request": { "subtype": "initialize", "hooks": hooks } }))
        .await;
    owner
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    let both = json!([
        { "request": { "subtype": "hook_callback", "callback_id": "x/mine", "input": {} }, "id": "h-2", "wait": false },
        callback("h-1", "trunkline/0"),
    ]);
    act(&daemon.rest(), &id, both).await;
    asked(&mut owner, "h-1").await;
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let mut other = daemon.attach_as("y", &id, None).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let snapshot = owner.next().await;
    let ids: Vec<_> = snapshot["pending_requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["request_id"])
        .collect();
    assert_eq!(ids, ["h-2", "h-1"], "{snapshot:#}");
    other.send(&answer("h-2", json!({}))).await;
    assert_eq!(error_code(&mut other).await, "request_not_owned");
    for request in ["h-1", "h-2"] {
        owner
            .send(&answer(request, json!({ "systemMessage": request })))
            .await;
        acked(&mut owner, request).await;
    }
    rest.in_state(&id, &["idle"]).await;
    for request in ["h-1", "h-2"] {
        let written = written(&rest, &id, request).await;
        assert_eq!(written.len(), 1);
        assert_eq!(
            written[0]["data"]["response"]["response"]["systemMessage"],
            request
        );
    }
}

#[tokio::test]
async fn a_hook_that_says_stop_ends_the_turn_of_a_cli_that_runs_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "hooks": [
        { "event": "PreToolUse", "target": { "type": "fixed", "output": { "continue": false } } },
        hook_of("silent", json!({ "timeout_ms": 8000 })),
    ] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let interrupts = async || {
        let records = records(&rest, &id).await;
        let requests = of_type(&records, "client", "control_request").into_iter();
        requests
            .filter(|line| line["request"]["subtype"] == "interrupt")
            .count()
    };
    // The turn ends by itself; the next one runs for longer than the daemon would have waited.
    let _silent = daemon.attach_as("silent", &id, None).await;
    act_through(
        &rest,
        &id,
        json!([callback("h-1", "trunkline/0"), { "text": "stopped" }]),
    )
    .await;
    act_through(
        &rest,
        &id,
        json!([callback("h-2", "trunkline/1"), { "text": "went on" }]),
    )
    .await;
    assert_eq!(reason(&rest, &id, "h-2").await, "timeout");
    assert_eq!(interrupts().await, 0);
    // It does not end.
    let mut client = daemon.attach(&id, None).await;
    act(
        &rest,
        &id,
        json!([callback("h-3", "trunkline/0"), { "silent": 1 }]),
    )
    .await;
    let result = client.cli_line("result").await;
    assert_eq!(result["subtype"], "error_during_execution", "{result:#}");
    assert_eq!(interrupts().await, 1);
    let heard = &written(&rest, &id, "h-3").await[0]["data"]["response"]["response"];
    assert_eq!(*heard, json!({ "continue": false }));
}

#[tokio::test]
async fn what_is_not_known_is_offered_to_whoever_is_there() {
    let (daemon, rest, id) = plain().await;
    let unknown = json!({ "request": { "subtype": "brand_new_thing", "x": 1 }, "id": "r-1" });
    // Nobody is there.
    act_through(&rest, &id, json!([unknown])).await;
    assert_eq!(reason(&rest, &id, "r-1").await, "no_client");
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([unknown, { "text": "done" }])).await;
    asked(&mut client, "r-1").await;
    let pending = daemon.attach(&id, None).await.next().await["pending_requests"][0].clone();
    assert_eq!(
        (&pending["subtype"], &pending["client_id"]),
        (&json!("brand_new_thing"), &Value::Null)
    );
    client.send(&answer("r-1", json!({ "y": [2] }))).await;
    acked(&mut client, "r-1").await;
    rest.in_state(&id, &["idle"]).await;
    let written = written(&rest, &id, "r-1").await;
    assert_eq!(written.len(), 2, "the same id, asked twice");
    assert_eq!(
        written[0]["data"]["response"]["error_code"],
        "unsupported_request"
    );
    assert_eq!(written[1]["data"]["response"]["response"], json!({ "y": [2] }));
}

#[tokio::test]
async fn what_the_cli_takes_back_is_answered_no_more() {
    let daemon = TestDaemon::with_fake().start().await;
    let options = json!({ "hooks": [hook_of("x", json!({}))] });
    let id = session_with(&daemon, "a", json!({}), options).await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let mut hook = callback("h-1", "trunkline/0");
    hook["wait"] = json!(false);
    act_through(
        &daemon.rest(),
        &id,
        json!([hook, { "cancel": "h-1" }, { "text": "done" }]),
    )
    .await;
    owner.send(&answer("h-1", json!({}))).await;
    assert_eq!(error_code(&mut owner).await, "request_not_pending");
    assert!(written(&daemon.rest(), &id, "h-1").await.is_empty());
}

#[tokio::test]
async fn what_a_client_asked_is_taken_back_or_goes_over_when_it_leaves() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let gate = daemon.home().join("gate");
    let settings =
        json!({ "controls": { "set_model": { "wait_file": gate }, "mcp_status": { "swallow": true } } });
    let id = session(&daemon, "a", settings).await;
    let ask = |subtype: &str| json!({ "type": "control_request", "request_id": "1", "request": { "subtype": subtype, "model": "m" } });
    let mut alone = daemon.attach(&id, None).await;
    alone.send(&ask("mcp_status")).await;
    let mut first = daemon.attach_as("x", &id, None).await;
    let mut second = daemon.attach_as("x", &id, None).await;
    first.send(&ask("set_model")).await;
    let sent = wait_for("both are written", PATIENCE, async || {
        let records = records(&rest, &id).await;
        let requests = of_type(&records, "client", "control_request");
        (requests.len() == 3).then(|| requests.into_iter().cloned().collect::<Vec<_>>())
    })
    .await;
    drop(first);
    drop(alone);
    let cancelled = wait_for("one is taken back", PATIENCE, async || {
        let records = records(&rest, &id).await;
        let lines = of_type(&records, "client", "control_cancel_request");
        lines.first().map(|line| line["request_id"].clone())
    })
    .await;
    let status = sent
        .iter()
        .find(|line| line["request"]["subtype"] == "mcp_status")
        .unwrap();
    assert_eq!(cancelled, status["request_id"]);
    fs::write(&gate, "").unwrap();
    let answer = second
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    assert_eq!(answer.last().unwrap()["response"]["request_id"], "1");
    let records = records(&rest, &id).await;
    assert_eq!(of_type(&records, "client", "control_cancel_request").len(), 1);
}

#[tokio::test]
async fn many_hooks_at_once_hold_nothing_up() {
    let (daemon, rest, id) = plain().await;
    let mut owner = daemon.attach_as("x", &id, None).await;
    let hooks: Vec<Value> = (0..3000)
        .map(|number| json!({ "hookCallbackIds": [format!("h{number}")] }))
        .collect();
    owner
        .send(&json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "initialize", "hooks": { "PreToolUse": hooks } } }))
        .await;
    owner
        .until("the answer", |frame| frame["type"] == "control_response")
        .await;
    let ask = |number: usize| {
        let mut ask = callback(&format!("c{number}"), &format!("x/h{}", number + 2000));
        ask["wait"] = json!(false);
        ask
    };
    let waits = (0..1000).map(|number| json!({ "wait_answer": format!("c{number}") }));
    let actions: Vec<Value> = (0..1000).map(ask).chain(waits).collect();
    act(&rest, &id, actions.into()).await;
    for number in 0..1000 {
        let request = format!("c{number}");
        asked(&mut owner, &request).await;
        owner.send(&answer(&request, json!({}))).await;
    }
    rest.in_state(&id, &["idle"]).await;
    for request in ["c0", "c999"] {
        assert_eq!(written(&rest, &id, request).await.len(), 1);
    }
}

/// So many at once have no room on their way: they are written when there is some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stated_answer_of_a_burst_has_its_record() {
    const BURST: usize = 1_500;
    let (daemon, rest, id) = plain().await;
    let asks: Vec<Value> = (0..BURST)
        .map(|number| json!({ "request": { "subtype": "unheard_of" }, "id": format!("ask-{number}"), "wait": false }))
        .collect();
    act(&rest, &id, json!(asks)).await;
    wait_for("the record of each answer", PATIENCE, async || {
        let records = rest.events(&id, 0).await;
        (of_type(&records, "daemon", "fallback").len() >= BURST).then_some(())
    })
    .await;
    let records = records(&rest, &id).await;
    let told = of_type(&records, "daemon", "fallback");
    let named: BTreeSet<&str> = told.iter().map(|it| it["request_id"].as_str().unwrap()).collect();
    assert_eq!((told.len(), named.len()), (BURST, BURST));
    assert_eq!(of_type(&records, "client", "control_response").len(), BURST);
    assert!(
        !daemon.log().contains("a record was not written"),
        "{}",
        daemon.log()
    );
}
