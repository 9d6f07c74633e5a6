//! Owns what the sub-protocol `ndjson` says: the CLI's lines, the client's own answers, and no word of the daemon.

use serde_json::{Value, json};

use crate::{
    api::common::asking,
    support::{
        daemon::TestDaemon,
        lines::{LineSocket, auth_line},
        programs::fake_prompt,
        wait::{PATIENCE, wait_for},
    },
};

fn user(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
            "parent_tool_use_id": null, "session_id": "" })
}

fn initialize() -> Value {
    json!({ "type": "control_request", "request_id": "first", "request": { "subtype": "initialize" } })
}

/// The lines of the CLI in the journal after a record, controls left out.
fn printed(daemon: &TestDaemon, id: &str, after: u64) -> Vec<String> {
    let seq_of = |record: &Value| record["seq"].as_u64().unwrap();
    let records = daemon.journal(id);
    let records = records.lines().filter(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        let kind = record["data"]["type"].as_str().unwrap_or_default();
        seq_of(&record) > after && record["src"] == "cli" && !kind.starts_with("control_")
    });
    records
        .map(|line| {
            let (_, data) = line.split_once(r#","data":"#).unwrap();
            data.strip_suffix('}').unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn the_lines_of_the_cli_go_out_byte_for_byte() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    let bearer = format!("Bearer {}", daemon.token());
    let path = format!("/v1/sessions/{id}/ws");
    let headers = [
        ("authorization", bearer.as_str()),
        ("sec-websocket-protocol", "ndjson"),
    ];
    let mut client = LineSocket::open(&daemon, &path, &headers).await.unwrap();
    assert_eq!(client.protocol.as_deref(), Some("ndjson"));

    // A line in two pieces; the second holds another line, a sign of life, and half of the prompt.
    let odd = fake_prompt(&json!([
        {"separators": 1}, {"raw": "not json at all"},
        {"raw": "{\"type\":\"something_new\",  \"n\":1.0, \"u\":\"\\u00e9\"}"}, {"flood": 300}, {"text": "end"}
    ]));
    let text = format!(
        "{}\n{}\n\r\n{}\n",
        initialize(),
        json!({"type": "keep_alive"}),
        user(&odd)
    );
    let (one, two) = text.split_at(20);
    let (two, three) = two.split_at(two.len() - 30);
    for piece in [one, two, three] {
        client.send_text(piece).await;
    }
    // The answer is the daemon's own, and may come between any two lines of the CLI.
    let (mut lines, mut answer, mut is_over) = (Vec::new(), None, false);
    while answer.is_none() || !is_over {
        let line = client.next_text().await;
        if line.contains("control_response") {
            answer = Some(line);
            continue;
        }
        is_over |= line.contains(r#""type":"result""#);
        lines.push(line);
    }
    let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
    assert_eq!(answer["response"]["request_id"], "first");
    assert_eq!(answer["response"]["response"]["claude_code_version"], "9.9.9");
    let mut printed = printed(&daemon, &id, head);
    // The prompt had no id, so the host would not know whose receipts these are.
    printed.retain(|line| !line.contains(r#""type":"command_lifecycle""#));
    assert_eq!(lines, printed[..lines.len()]);
    let odd = r#"{"type":"something_new",  "n":1.0, "u":"\u00e9"}"#;
    assert!(lines.iter().any(|line| line == odd), "{lines:#?}");
    let sent = daemon.journal(&id);
    assert!(!sent.contains("keep_alive"), "a sign of life was journaled");
}

#[tokio::test]
async fn a_permission_is_taken_back_from_those_who_did_not_decide_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut one = LineSocket::attach(&daemon, &id, "").await;
    let mut two = LineSocket::attach(&daemon, &id, "").await;
    one.send(&user(&asking())).await;
    let asked = one.line("control_request").await;
    assert_eq!(two.line("control_request").await, asked);
    let input = json!({"command": "make  some", "n": 1.0});
    one.answer(&asked, json!({"behavior": "allow", "updatedInput": input}))
        .await;
    let taken_back = two.line("control_cancel_request").await;
    assert_eq!(taken_back["request_id"], asked["request_id"]);
    let lines = one.until(|line| line["type"] == "result").await;
    assert!(lines.iter().all(|line| line["type"] != "control_cancel_request"));
    assert!(lines.iter().any(|line| line.to_string().contains("make  some")));
    // The late answer of the other one harms nobody.
    two.answer(&asked, json!({"behavior": "deny", "message": "no"}))
        .await;

    two.send(&user(&asking())).await;
    let asked = two.line("control_request").await;
    one.line("control_request").await;
    let approval = rest.pending_approval(&id).await;
    rest.decide(
        &id,
        approval["id"].as_str().unwrap(),
        json!({"decision": "allow"}),
    )
    .await;
    for client in [&mut one, &mut two] {
        let taken_back = client.line("control_cancel_request").await;
        assert_eq!(taken_back["request_id"], asked["request_id"]);
        client.line("result").await;
    }
}

#[tokio::test]
async fn a_request_that_a_rule_decides_is_asked_of_nobody() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let rules = json!([{"action": "deny", "tool": "Bash"}]);
    let body = json!({"cwd": daemon.work_dir("w"), "rules": rules});
    let id = rest.create_ready(body).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send(&user(&asking())).await;
    let lines = client.until(|line| line["type"] == "result").await;
    let is_control = |line: &&Value| line["type"].as_str().unwrap().starts_with("control_");
    assert_eq!(lines.iter().find(is_control), None);
}

#[tokio::test]
async fn a_hook_goes_to_the_one_that_registered_it_under_its_own_id() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut owner = LineSocket::attach(&daemon, &id, "&client_id=sdk").await;
    let mut other = LineSocket::attach(&daemon, &id, "").await;
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["hook_0"]}]});
    owner
        .control("1", json!({"subtype": "initialize", "hooks": hooks}))
        .await;
    let call = json!({"callback": "sdk/hook_0", "id": "toolu_1", "tool": "Bash", "input": {"command": "ls"}});
    other
        .send(&user(&fake_prompt(&json!([{"call": call}, {"text": "done"}]))))
        .await;
    let asked = owner.line("control_request").await;
    assert_eq!(asked["request"]["callback_id"], "hook_0");
    let output = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not here",
    }});
    owner.answer(&asked, output).await;
    for client in [&mut owner, &mut other] {
        let lines = client.until(|line| line["type"] == "result").await;
        assert!(
            lines.iter().any(|line| line.to_string().contains("not here")),
            "{lines:#?}"
        );
        let controls = lines.iter().filter(|line| line["type"] == "control_request");
        assert_eq!(controls.count(), 0, "a hook of another client");
    }
}

#[tokio::test]
async fn a_client_that_comes_back_under_its_name_is_asked_again_by_its_hook() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut client = LineSocket::attach(&daemon, &id, "&client_id=sdk").await;
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["hook_0"]}]});
    let initialize = json!({"subtype": "initialize", "hooks": hooks});
    client.control("1", initialize.clone()).await;
    let call = json!({"callback": "sdk/hook_0", "id": "toolu_1", "tool": "Bash", "input": {"command": "ls"}});
    client
        .send(&user(&fake_prompt(&json!([{"call": call}, {"text": "done"}]))))
        .await;
    let asked = client.line("control_request").await;
    drop(client);
    let mut client = LineSocket::attach(&daemon, &id, "&client_id=sdk").await;
    client.control("1", initialize).await;
    assert_eq!(client.line("control_request").await, asked);
    client.answer(&asked, json!({})).await;
    client.line("result").await;
}

#[tokio::test]
async fn a_reply_with_a_misspelt_key_ends_the_connection_and_the_request_stays_open() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send(&user(&asking())).await;
    let asked = client.line("control_request").await;
    client
        .answer(&asked, json!({"behavior": "allow", "updatedInputs": {}}))
        .await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 4400);
    assert!(reason.starts_with("invalid_decision: "), "{reason}");
    let approval = rest.pending_approval(&id).await;
    assert_eq!(approval["request_id"], asked["request_id"]);

    // A client that comes back is told of it, and of its end.
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    let answer = client.control("again", json!({"subtype": "initialize"})).await;
    let response = &answer["response"];
    let open = response["pending_permission_requests"].as_array();
    let open = open.or(response["response"]["pending_permission_requests"].as_array());
    assert_eq!(open.unwrap()[0]["request_id"], asked["request_id"], "{answer:#}");
    rest.decide(
        &id,
        approval["id"].as_str().unwrap(),
        json!({"decision": "allow"}),
    )
    .await;
    client.line("result").await;

    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send_text("{\"type\":\"user\"\n").await;
    assert_eq!(client.close_frame().await.0, 4400, "a line that is no JSON");
}

#[tokio::test]
async fn what_the_session_refuses_to_ask_the_cli_is_said_as_the_cli_says_it() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    let answer = client.control("1", json!({"subtype": "end_session"})).await;
    let response = &answer["response"];
    assert_eq!(response["subtype"], "error");
    assert_eq!(response["error_code"], "control_not_allowed");
    let answer = client
        .control("2", json!({"subtype": "set_model", "model": "other"}))
        .await;
    assert_eq!(answer["response"]["response"]["model"], "other");
}

#[tokio::test]
async fn initialize_wakes_a_parked_session_and_is_said_again_to_a_later_process() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    rest.ask(&id, "hello").await;
    rest.lifecycle(&id, "park", json!({})).await.expect(200);
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    let request = json!({"subtype": "initialize", "promptSuggestions": true});
    let answer = client.control("1", request).await;
    assert_eq!(answer["response"]["subtype"], "success", "{answer:#}");
    assert_eq!(rest.session(&id).await["state"], "idle");

    rest.lifecycle(&id, "park", json!({})).await.expect(200);
    client.send(&user("and on")).await;
    let lines = client.until(|line| line["type"] == "result").await;
    let answers = lines.iter().filter(|line| line["type"] == "control_response");
    assert_eq!(answers.count(), 0, "the client asked once");
    let said = || daemon.journal(&id).matches("promptSuggestions").count();
    wait_for("the greeting of the later process", PATIENCE, async || {
        (said() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stopped_session_closes_unless_it_is_to_be_resumed() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    rest.ask(&id, "hello").await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    assert_eq!(client.close_frame().await.0, 4411, "the process is over");
    let mut client = LineSocket::attach(&daemon, &id, "&resume=false").await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(
        (code, reason.as_str()),
        (4411, "session_not_live: the session is stopped")
    );
    let mut client = LineSocket::attach(&daemon, &id, "&resume=true").await;
    client.send(&user("hello again")).await;
    client.line("result").await;
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection_however_it_is_cut() {
    const LIMIT: usize = 64 * 1024;
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", LIMIT.to_string())
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send(&user(&"x".repeat(LIMIT + 1))).await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 4400);
    assert!(reason.starts_with("prompt_too_large: "), "{reason}");
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    let piece = "x".repeat(100 * 1024);
    for _ in 0..12 {
        client.send_text(&piece).await;
    }
    client.send_text("\n").await;
    assert_eq!(client.close_frame().await.0, 1009);
}

#[tokio::test]
async fn the_end_of_the_daemon_is_no_clean_end() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut client = LineSocket::attach(&daemon, &id, "").await;
    client.send(&auth_line(daemon.token())).await;
    client.control("1", json!({"subtype": "initialize"})).await;
    daemon.stop();
    assert_eq!(client.close_frame().await, (1012, "the daemon stops".to_owned()));
}
