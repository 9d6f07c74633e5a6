//! Owns section F: lines that readers trip over, in both directions.

use std::fs;

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, answer_heard, body, of_type, path, plain, records, session, session_with},
    support::{daemon::TestDaemon, programs::fake_prompt, ws::Ws},
};

async fn clients(daemon: &TestDaemon, session: &str) -> [Ws; 2] {
    [
        daemon.attach(session, Some(0)).await,
        daemon.attach(session, None).await,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_line_reaches_all_clients() {
    let (daemon, rest, id) = plain().await;
    let mut clients = clients(&daemon, &id).await;
    act(&rest, &id, json!([{ "big": 12_000_000 }, { "text": "small" }])).await;
    for client in &mut clients {
        let huge = client.cli_line("assistant").await;
        assert_eq!(
            huge["message"]["content"][0]["text"].as_str().unwrap().len(),
            12_000_000
        );
        let small = client.cli_line("assistant").await;
        assert_eq!(small["message"]["content"][0]["text"], "small");
        client.cli_line("result").await;
    }
}

#[tokio::test]
async fn a_line_above_the_cap_is_told_with_its_size_and_the_next_is_fine() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_MAX_LINE_BYTES", "200000")
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", "100000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let mut clients = clients(&daemon, &id).await;
    act_through(&rest, &id, json!([{ "big": 300_000 }, { "text": "after" }])).await;
    for client in &mut clients {
        let notice = client
            .until("the notice", |frame| frame["data"]["code"] == "line_oversized")
            .await
            .pop()
            .unwrap();
        let bytes = notice["data"]["bytes"].as_u64().unwrap();
        assert!((300_000..301_000).contains(&bytes), "its true size: {notice:#}");
        assert!(
            notice["data"]["head"]
                .as_str()
                .unwrap()
                .starts_with(r#"{"type":"assistant""#)
        );
        client.cli_line("result").await;
    }
    act_through(&rest, &id, json!([{ "text": "and on" }])).await;
}

#[tokio::test]
async fn stray_text_is_kept_apart_and_loses_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let settings = json!({ "start": [{ "raw": "Now using node v20\n\n[DEBUG] {half" }] });
    let id = session(&daemon, "a", settings).await;
    let rest = daemon.rest();
    act_through(
        &rest,
        &id,
        json!([{ "text": "one" }, { "raw": "\u{1b}[31mred" }, { "text": "two" }]),
    )
    .await;
    let records = records(&rest, &id).await;
    let texts: Vec<_> = records
        .iter()
        .filter(|record| record["src"] == "stdout_text")
        .map(|record| record["data"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["Now using node v20", "[DEBUG] {half", "\u{1b}[31mred"]);
    assert_eq!(of_type(&records, "cli", "assistant").len(), 2);
}

#[tokio::test]
async fn unicode_line_ends_cut_nothing_in_either_direction() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({ "echo": true })).await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([{ "separators": 1 }])).await;
    let line = client.cli_line("assistant").await;
    let expected = "a\u{2028}b\u{2029}c\u{85}d\re\u{b}f\u{c}g";
    assert_eq!(line["message"]["content"][0]["text"], expected);
    client.cli_line("result").await;
    let text = "x\u{2028}y\u{2029}z\u{85}";
    client
        .send_text(&format!(
            r#"{{"type":"user","message":{{"role":"user","content":"{text}"}}}}"#
        ))
        .await;
    let wanted = |frame: &Value| {
        frame["data"]["type"] == "fake_echo" && frame["data"]["line"].as_str().unwrap().contains(text)
    };
    client.until("the whole line at the CLI", wanted).await;
}

#[tokio::test]
async fn a_lone_surrogate_and_bad_utf8_kill_nobody() {
    let (daemon, rest, id) = plain().await;
    act_through(
        &rest,
        &id,
        json!([{ "surrogate": 1 }, { "invalid_utf8": 1 }, { "text": "after" }]),
    )
    .await;
    let journal = daemon.journal(&id);
    assert!(
        journal.contains(r#""content":"cut \ud83d here""#),
        "byte for byte"
    );
    assert!(journal.contains(r#""code":"line_not_utf8""#));
    // Readers of JSON that know no such escape still get all other records.
    let reply = rest.get(&path(&id, "events?after=0&limit=500")).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_request_with_a_lone_surrogate_is_approved_unchanged() {
    let (daemon, rest, id) = plain().await;
    let raw = r#"{"type":"control_request","request_id":"cut-1","request":{"subtype":"can_use_tool","tool_name":"Write","display_name":"Write","input":{"text":"half \ud83d", "n":1.0},"tool_use_id":"toolu_cut","permission_suggestions":[]}}"#;
    act(
        &rest,
        &id,
        json!([{ "raw": raw }, { "sleep_ms": 1 }, { "silent": 1 }]),
    )
    .await;
    // The list holds the escape too, which a strict reader of JSON refuses; the snapshot of the session names the approval.
    let view = rest.in_state(&id, &["waiting"]).await;
    let approval = view["pending_approvals"][0]["id"].as_str().unwrap();
    let reply = rest.decide(&id, approval, json!({ "decision": "allow" })).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let wanted = r#""updatedInput":{"text":"half \ud83d", "n":1.0}"#;
    crate::support::wait::wait_until("the answer is journaled", crate::support::wait::PATIENCE, || {
        daemon
            .journal(&id)
            .lines()
            .any(|line| line.contains(r#""src":"client""#) && line.contains(wanted))
    })
    .await;
}

#[tokio::test]
async fn only_whole_lines_reach_the_cli() {
    let daemon = TestDaemon::with_fake().start().await;
    let kept = daemon.home().join("stdin");
    let settings = json!({ "blank_line_exits": true, "record_stdin": kept });
    let id = session(&daemon, "a", settings).await;
    let mut client = daemon.attach(&id, None).await;
    let prompt =
        |text: &str| json!({ "type": "user", "message": { "role": "user", "content": text } }).to_string();
    for frame in ["", "\r\n", "\n\n", " "] {
        client.send_text(frame).await;
    }
    client
        .send_text(&format!("{}\n{}\r\n", prompt("one"), prompt("two")))
        .await;
    client.send_text("no json").await;
    client.send_text(&format!("{}\r\n", prompt("three"))).await;
    let error = client
        .until("an error", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(error.last().unwrap()["code"], "invalid_line");
    // Else the fourth, which goes another way, could come before it.
    let is_ack = |frame: &Value| frame["type"] == "trunkline.ack";
    let mut acked = error.iter().filter(|frame| is_ack(frame)).count();
    while acked < 3 {
        client.until("an ack", is_ack).await;
        acked += 1;
    }
    daemon.rest().in_state(&id, &["idle"]).await;
    daemon.rest().ask(&id, "four").await;
    let stdin = fs::read(kept).unwrap();
    assert!(stdin.ends_with(b"\n"));
    let lines: Vec<Value> = stdin
        .strip_suffix(b"\n")
        .unwrap()
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let prompts: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "user")
        .map(|line| line["message"]["content"].clone())
        .collect();
    assert_eq!(prompts, ["one", "two", "three", "four"]);
    assert!(!stdin.contains(&b'\r'));
}

#[tokio::test]
async fn what_is_unknown_passes_verbatim_and_the_turn_ends() {
    let (daemon, rest, id) = plain().await;
    let lines = [
        r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","x":1.50},"uuid":"u"}"#,
        r#"{"type":"something_new","a":[1,2,{"b":null}]}"#,
        r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"hologram","data":"…"}],"new_field":true},"extra":{"y":1e400}}"#,
        r#"{"type":"system","subtype":"never_seen_before","z":"z"}"#,
        r#"{"no_type_at_all":1}"#,
        r#"{"type":7}"#,
    ];
    let mut actions: Vec<Value> = lines.iter().map(|line| json!({ "raw": line })).collect();
    actions.push(json!({ "text": "normal" }));
    act_through(&rest, &id, Value::Array(actions)).await;
    let journal = daemon.journal(&id);
    for line in lines {
        assert!(
            journal.contains(&format!(r#""src":"cli","data":{line}}}"#)),
            "{line}"
        );
    }
    assert_eq!(rest.session(&id).await["state"], "idle");
}

#[tokio::test]
async fn long_prompts_and_system_prompts_are_no_arguments() {
    let daemon = TestDaemon::with_fake().start().await;
    let dump = daemon.home().join("dump");
    let mut body = body(
        &daemon,
        "a",
        json!({ "dump": dump }),
        json!({ "system_prompt": { "type": "preset", "preset": "claude_code", "append": "s".repeat(200_000) } }),
    );
    body["prompt"] = json!("p".repeat(300_000));
    let reply = daemon
        .rest()
        .post("/v1/sessions?wait=result", body)
        .await
        .expect(201);
    assert_eq!(
        reply["outcome"]["turn"]["is_error"], false,
        "{}",
        reply["outcome"]
    );
    let facts: Value =
        serde_json::from_str(fs::read_to_string(dump).unwrap().lines().next().unwrap()).unwrap();
    let longest = facts["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap().len());
    assert!(longest.max().unwrap() < 4096);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_several_senders_never_mix() {
    let daemon = TestDaemon::with_fake().start().await;
    let kept = daemon.home().join("stdin");
    let id = session(&daemon, "a", json!({ "record_stdin": kept })).await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    act(&rest, &id, json!([{ "ask": { "ids": ["q-1"] } }])).await;
    let approval = rest.pending_approval(&id).await;
    let image = json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "A".repeat(9_000_000) } }]);
    let messages = path(&id, "messages");
    let interrupt = path(&id, "interrupt");
    let (sent, decided, interrupted) = tokio::join!(
        rest.post(&messages, json!({ "content": image })),
        rest.decide(
            &id,
            approval["id"].as_str().unwrap(),
            json!({ "decision": "allow" })
        ),
        rest.post(&interrupt, json!({})),
    );
    sent.expect(202);
    interrupted.expect(200);
    // It came before the interrupt, or the interrupt withdrew the request.
    assert!(
        [200, 409].contains(&decided.status.as_u16()),
        "{:#}",
        decided.body
    );
    client.cli_line("result").await;
    rest.in_state(&id, &["idle"]).await;
    let stdin = fs::read(kept).unwrap();
    for line in stdin.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n') {
        let parsed: Result<Value, _> = serde_json::from_slice(line);
        assert!(parsed.is_ok(), "a torn line of {} bytes", line.len());
    }
    assert!(stdin.len() > 9_000_000);
}

#[tokio::test]
async fn the_last_text_is_the_same_whichever_way_it_came() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    for (name, only) in [
        ("deltas", Some("deltas")),
        ("whole", Some("whole")),
        ("both", None),
    ] {
        let options = json!({ "include_partial_messages": true });
        let id = session_with(&daemon, name, json!({}), options).await;
        let mut action = json!({ "text": "The answer is forty-two." });
        if let Some(only) = only {
            action["only"] = json!(only);
        }
        act_through(&rest, &id, json!([action])).await;
        let conversation = rest.get(&path(&id, "messages")).await.expect(200);
        let said: Vec<_> = conversation["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["role"] == "assistant")
            .map(|item| item["content"][0]["text"].clone())
            .collect();
        assert_eq!(said, ["The answer is forty-two."], "{name}: {conversation:#}");
    }
}

#[tokio::test]
async fn an_answer_goes_back_with_the_bytes_of_the_question() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    let ask = fake_prompt(
        &json!([{ "ask": { "ids": ["q-1"], "input": { "command": "é\u{2028}", "n": [1, 2.5] } } }]),
    );
    daemon.rest().prompt(&id, &ask).await;
    daemon.rest().pending_approval(&id).await;
    client
        .send(&json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "q-1", "response": { "behavior": "allow" } } }))
        .await;
    let heard = answer_heard(&mut client, "q-1").await;
    assert_eq!(heard["valid"], true, "{heard:#}");
    assert_eq!(
        heard["response"]["response"]["updatedInput"],
        json!({ "command": "é\u{2028}", "n": [1, 2.5] })
    );
}
