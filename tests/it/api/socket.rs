//! Owns what a WebSocket of a session says: snapshot, records, acks, answers meant for one client, errors that end nothing.

use reqwest::{Method, header};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    api::common::{asking, id_of},
    support::{daemon::TestDaemon, programs::fake_prompt, rest::Rest, ws::Ws},
};

fn is_result(frame: &Value) -> bool {
    frame["src"] == "cli" && frame["data"]["type"] == "result"
}

fn user(uuid: Uuid, text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}, "uuid": uuid})
}

/// The records after `after`, as the API streams them.
async fn lines(rest: &Rest, id: &str, after: u64) -> Vec<String> {
    let request = rest
        .builder(Method::GET, &format!("/v1/sessions/{id}/events?after={after}"))
        .header(header::ACCEPT, "application/x-ndjson");
    let text = request.send().await.unwrap().text().await.unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn records_are_the_journal_byte_for_byte_and_replay_joins_the_live_end() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let odd = fake_prompt(&json!([
        {"separators": 1}, {"surrogate": 1}, {"raw": "not json at all"}, {"invalid_utf8": 1},
        {"raw": "{\"type\":\"something_new\",  \"n\":1.0, \"u\":\"\\u00e9\"}"}, {"flood": 500}, {"text": "end"}
    ]));
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut live = RawSocket::attach(&daemon, &id, "").await;
    let snapshot: Value = serde_json::from_str(&live.text().await).unwrap();
    assert_eq!(
        (&snapshot["type"], &snapshot["protocol"]),
        (&json!("trunkline.snapshot"), &json!("trunkline.v1"))
    );
    let head = snapshot["head_seq"].clone();
    assert_eq!(
        snapshot["after"], head,
        "without a place the client gets new records only"
    );
    assert_eq!(snapshot["session"]["id"], json!(id));
    assert_eq!(snapshot["session"]["state"], "idle");
    let mut replay = RawSocket::attach(&daemon, &id, "?after=0").await;
    let first: Value = serde_json::from_str(&replay.text().await).unwrap();
    assert_eq!(first["after"], 0);

    rest.prompt(&id, &odd).await;
    let from_live = live.records_to_idle(head.as_u64().unwrap()).await;
    let from_start = replay.records_to_idle(0).await;
    let journal = lines(&rest, &id, 0).await;
    let stored = stored(&daemon, &id);
    assert_eq!(journal, stored[..journal.len()], "the stream is not the journal");
    assert_eq!(
        from_start,
        stored[..from_start.len()],
        "the replay is not the journal"
    );
    let after = usize::try_from(head.as_u64().unwrap()).unwrap();
    assert_eq!(
        from_live,
        stored[after..after + from_live.len()],
        "the live records are not the journal"
    );
    assert!(
        journal
            .iter()
            .any(|line| line.contains(r#"{"type":"something_new",  "n":1.0, "u":"\u00e9"}"#))
    );
    assert!(
        journal
            .iter()
            .any(|line| line.contains('\u{2028}') && line.contains('\u{85}'))
    );
    // Many places, while more is coming: never a gap, never a double.
    let prompt = fake_prompt(&json!([{"flood": 3000, "rate": 4000}, {"text": "end"}]));
    let begin = rest.session(&id).await["head_seq"].as_u64().unwrap();
    rest.prompt(&id, &prompt).await;
    for place in 0..12 {
        let after = begin.saturating_sub(place * 40);
        let mut socket = RawSocket::attach(&daemon, &id, &format!("?after={after}")).await;
        socket.text().await;
        socket.records_to_idle(after).await;
    }
}

/// The lines of the journal's files.
fn stored(daemon: &TestDaemon, id: &str) -> Vec<String> {
    let dir = daemon.data_dir().join("sessions").join(id);
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "ndjson"));
    files.sort();
    let text: String = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    text.split_terminator('\n').map(ToOwned::to_owned).collect()
}

/// A socket whose frames are looked at as they are.
struct RawSocket {
    stream: tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>,
    /// The record that came last.
    last: String,
}

impl RawSocket {
    async fn attach(daemon: &TestDaemon, id: &str, query: &str) -> Self {
        use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
        let url = format!(
            "{}/v1/sessions/{id}/ws{query}",
            daemon.url().replacen("http", "ws", 1)
        );
        let mut request = url.into_client_request().unwrap();
        let token = format!("Bearer {}", daemon.token()).parse().unwrap();
        request.headers_mut().insert("authorization", token);
        Self {
            stream: tokio_tungstenite::connect_async(request).await.unwrap().0,
            last: String::new(),
        }
    }

    async fn text(&mut self) -> String {
        use futures_util::StreamExt as _;
        use tokio_tungstenite::tungstenite::Message;
        let text = async {
            loop {
                match self.stream.next().await.expect("the end").unwrap() {
                    Message::Text(text) => return text.as_str().to_owned(),
                    Message::Ping(_) | Message::Pong(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(crate::support::wait::PATIENCE, text)
            .await
            .unwrap_or_else(|_| panic!("no frame after {}", self.last))
    }

    /// Reads records from `after` on until a turn has ended and the CLI says that it is idle; each follows the one before.
    async fn records_to_idle(&mut self, after: u64) -> Vec<String> {
        let (mut seq, mut ended, mut records) = (after, false, Vec::new());
        loop {
            let text = self.text().await;
            self.last.clone_from(&text);
            let record: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
            if record["type"] == "trunkline.clients" {
                // The other client of the test came.
                continue;
            }
            // A lone surrogate is beyond this parser; its number is not.
            let number = record["seq"]
                .as_u64()
                .or_else(|| text.strip_prefix(r#"{"seq":"#)?.split(',').next()?.parse().ok());
            assert_eq!(number, Some(seq + 1), "after {seq} came {text}");
            seq += 1;
            records.push(text);
            ended |= is_result(&record);
            if ended && record["data"]["subtype"] == "session_state_changed" {
                return records;
            }
        }
    }
}

#[tokio::test]
async fn user_lines_are_acknowledged_and_run_once() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut socket = daemon.attach(&id, None).await;
    let mut viewer = daemon.attach(&id, None).await;
    let uuid = Uuid::new_v4();
    socket.send(&user(uuid, "one")).await;
    let ack = socket
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(
        (&ack["for"], &ack["uuid"], &ack["repeated"]),
        (&json!("user"), &json!(uuid), &json!(false))
    );
    let sent = viewer
        .find("the message", |frame| {
            frame["src"] == "client" && frame["data"]["type"] == "user"
        })
        .await;
    assert_eq!((&sent["seq"], &sent["data"]["uuid"]), (&ack["seq"], &json!(uuid)));
    assert!(sent["by"].as_str().unwrap().starts_with("ws:"), "{sent:#}");
    viewer.find("the result", is_result).await;

    socket.send(&user(uuid, "one")).await;
    let again = socket
        .find("the second ack", |frame| frame["repeated"] == true)
        .await;
    assert_eq!(again["seq"], ack["seq"]);
    socket.send(&user(uuid, "other words")).await;
    let conflict = socket
        .find("the conflict", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(
        (&conflict["code"], &conflict["uuid"]),
        (&json!("prompt_conflict"), &json!(uuid))
    );

    // Without an id the daemon gives one.
    socket.send(&json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "two"}]}})).await;
    let ack = socket
        .find("the third ack", |frame| frame["repeated"] == false)
        .await;
    assert!(ack["uuid"].as_str().unwrap().parse::<Uuid>().is_ok());
    socket
        .find("the second result", |frame| {
            is_result(frame) && frame["data"]["result_index"] == 1
        })
        .await;
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 2);

    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let uuid = Uuid::new_v4();
    socket.send(&user(uuid, "too late")).await;
    let refused = socket
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(
        (&refused["code"], &refused["uuid"]),
        (&json!("session_not_live"), &json!(uuid))
    );
    // The socket outlives the process: after a resume it goes on.
    rest.post(&format!("/v1/sessions/{id}/resume?wait=ready"), json!({}))
        .await
        .expect(200);
    socket.send(&user(Uuid::new_v4(), "back")).await;
    socket
        .find("an ack after the resume", |frame| {
            frame["type"] == "trunkline.ack"
        })
        .await;
    socket.cli_line("result").await;
}

#[tokio::test]
async fn a_bad_line_gets_an_error_and_never_reaches_the_cli() {
    let record = tempfile::NamedTempFile::new().unwrap();
    let daemon = TestDaemon::with_fake()
        .fake(json!({"record_stdin": record.path(), "blank_line_exits": true}))
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let mut socket = daemon.attach(&id, None).await;
    for line in [
        "not json",
        "{\"type\":\"user\",",
        "[]",
        "\"text\"",
        "null",
        "42",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"brand_new\"}",
        "{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[]}}",
        "{\"type\":\"user\"}",
        "{\"type\":\"user\",\"message\":\"hi\"}",
        "{\"type\":\"user\",\"message\":{\"role\":\"assistant\",\"content\":\"hi\"}}",
        "{\"type\":\"user\",\"message\":{\"role\":\"system\",\"content\":\"hi\"}}",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\"}}",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":7}}",
        "{\"type\":\"user\",\"uuid\":\"not-a-uuid\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}",
        "{\"type\":\"control_request\",\"request\":{\"subtype\":\"interrupt\"}}",
        "{\"type\":\"control_request\",\"request_id\":\"1\"}",
        "{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{}}",
        "{\"type\":\"control_response\"}",
        "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"nobody-asked\",\"response\":{}}}",
        "{\"type\":\"control_cancel_request\"}",
        "{\"type\":\"update_environment_variables\",\"variables\":{\"A\":1}}",
        "{\"type\":\"trunkline.dance\"}",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"a\"}} {\"type\":\"user\"}",
    ] {
        socket.send_text(line).await;
        let error = socket
            .find(&format!("an error for {line}"), |frame| {
                frame["type"] == "trunkline.error"
            })
            .await;
        assert!(
            error["code"].is_string() && error["detail"].is_string(),
            "{line}: {error:#}"
        );
    }
    // An empty line and a keep-alive have no effect.
    for quiet in ["", "\r\n", "\n\n \n", "{\"type\":\"keep_alive\"}"] {
        socket.send_text(quiet).await;
    }
    // Several lines in one frame, with carriage returns and blanks between them.
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    let frame = format!(
        "\n{}\r\n  \r\n{}\r\n{{\"type\":\"trunkline.ping\",\"id\":[1,2]}}\n",
        user(one, "one"),
        user(two, "two")
    );
    socket.send_text(&frame).await;
    for uuid in [one, two] {
        let ack = socket
            .find("an ack", |frame| {
                frame["type"] == "trunkline.ack" && frame["uuid"] == json!(uuid)
            })
            .await;
        assert_eq!(ack["repeated"], false);
    }
    let mut socket = daemon.attach(&id, Some(0)).await;
    socket
        .send(&json!({"type": "trunkline.ping", "id": "mine"}))
        .await;
    let pong = socket
        .find("the pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    assert_eq!(pong["id"], "mine");
    assert!(pong["head_seq"].as_u64().is_some());
    rest.in_state(&id, &["idle"]).await;
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);

    let stdin = std::fs::read_to_string(record.path()).unwrap();
    let kinds: Vec<Value> = stdin
        .lines()
        .map(|line| {
            assert!(!line.trim().is_empty() && !line.contains('\r'), "{line:?}");
            serde_json::from_str::<Value>(line).unwrap()["type"].take()
        })
        .collect();
    assert_eq!(kinds, ["control_request", "user", "user"], "{stdin}");
}

#[tokio::test]
async fn control_answers_go_to_the_client_that_asked_under_its_own_id() {
    let gate = tempfile::tempdir().unwrap();
    let open = gate.path().join("open");
    let daemon = TestDaemon::with_fake()
        .fake(json!({"controls": {
            "get_context_usage": {"response": {"about": "context"}, "wait_file": open},
            "mcp_status": {"response": {"about": "mcp"}, "wait_file": open},
            "get_usage": {"error": "no usage today", "error_code": "no_usage"},
        }}))
        .start()
        .await;
    let rest = daemon.rest();
    let id = rest.create_ready(json!({"cwd": daemon.work_dir("w")})).await;
    let (mut first, mut second) = (daemon.attach(&id, None).await, daemon.attach(&id, None).await);
    let ask = |subtype: &str| json!({"type": "control_request", "request_id": "1", "request": {"subtype": subtype}});
    first.send(&ask("get_context_usage")).await;
    second.send(&ask("mcp_status")).await;
    // The id is in use on this connection, and the request that uses it is not harmed.
    first.send(&ask("get_usage")).await;
    let twice = first
        .find("the refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(twice["request_id"], "1", "{twice:#}");
    std::fs::write(&open, "").unwrap();
    let is_answer = |frame: &Value| frame["type"] == "control_response";
    for (socket, about) in [(&mut first, "context"), (&mut second, "mcp")] {
        let answer = socket.find("the answer", is_answer).await;
        assert_eq!(
            answer["response"],
            json!({"subtype": "success", "request_id": "1", "response": {"about": about}})
        );
    }
    // Answered, the id is free again; and the CLI's refusal is an answer.
    first.send(&ask("get_usage")).await;
    let refused = first.find("the CLI's refusal", is_answer).await;
    assert_eq!(
        refused["response"],
        json!({"subtype": "error", "request_id": "1", "error": "no usage today", "error_code": "no_usage"})
    );
    let records = rest.events(&id, 0).await;
    let to_cli: Vec<_> = records
        .iter()
        .filter(|it| it["src"] == "client" && it["data"]["type"] == "control_request")
        .collect();
    assert_eq!(to_cli.len(), 4, "initialize and three requests: {to_cli:#?}");
    assert!(
        to_cli.iter().all(|it| it["data"]["request_id"] != "1"),
        "a client's id reached the CLI"
    );
    let answers = |frame: &Value| frame["type"] == "control_response";
    second.send(&json!({"type": "trunkline.ping"})).await;
    let until_pong = second
        .until("the pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    assert!(
        !until_pong.iter().any(answers),
        "an answer went to the wrong client"
    );
}

#[tokio::test]
async fn an_approval_is_answered_by_one_client_and_the_other_is_told_who_was_faster() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = id_of(
        &rest
            .create(json!({"cwd": daemon.work_dir("w"), "prompt": asking()}))
            .await,
    );
    let approval = rest.pending_approval(&id).await;
    let (mut winner, mut loser) = (daemon.attach(&id, None).await, daemon.attach(&id, None).await);
    let snapshot = winner.next().await;
    assert_eq!(snapshot["pending_approvals"][0]["id"], approval["id"]);
    let input = &snapshot["pending_approvals"][0]["request"]["input"];
    assert_eq!(input["command"], "make  all");
    let request_id = rest.events(&id, 0).await.into_iter().find_map(|it| {
        (it["data"]["type"] == "control_request" && it["src"] == "cli")
            .then(|| it["data"]["request_id"].clone())
    });
    let answer = |behaviour: Value| {
        json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": request_id, "response": behaviour}})
    };
    // After an answer that the CLI would not take, the request stays pending.
    for bad in [
        json!({}),
        json!({"behavior": "perhaps"}),
        json!("allow"),
        json!(null),
    ] {
        loser.send(&answer(bad.clone())).await;
        let error = loser
            .find("the refusal", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(error["code"], "invalid_decision", "{bad}: {error:#}");
    }
    assert_eq!(rest.session(&id).await["state"], "waiting");

    winner.send(&answer(json!({"behavior": "allow"}))).await;
    let ack = winner
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(
        (&ack["for"], Some(&ack["request_id"])),
        (&json!("control_response"), request_id.as_ref())
    );
    loser
        .send(&answer(json!({"behavior": "deny", "message": "no"})))
        .await;
    let lost = loser
        .find("the loss", |frame| frame["type"] == "trunkline.error")
        .await;
    let told = ["code", "state", "request_id", "approval_id"].map(|name| &lost[name]);
    let expected = [
        &json!("already_decided"),
        &json!("allowed"),
        request_id.as_ref().unwrap(),
        &approval["id"],
    ];
    assert_eq!(told, expected, "{lost:#}");
    let decided = loser
        .find("the decision", |frame| frame["data"]["type"] == "decision")
        .await;
    assert_eq!(decided["data"]["state"], "allowed");
    let by = decided["data"]["by"].as_str().unwrap();
    assert_eq!(
        by,
        format!("ws:{}", snapshot["connection_id"].as_str().unwrap()),
        "{decided:#}"
    );
    assert_eq!(lost["by"], by);
    rest.in_state(&id, &["idle"]).await;
    let records = rest.events(&id, 0).await;
    let answered: Vec<_> = records
        .iter()
        .filter(|it| it["data"]["type"] == "fake_answer")
        .collect();
    assert_eq!(answered.len(), 1, "{answered:#?}");
    assert_eq!(
        (&answered[0]["data"]["valid"], &answered[0]["data"]["expected"]),
        (&json!(true), &json!(true))
    );
    let shown = rest
        .get(&format!("/v1/sessions/{id}/approvals/{}", id_of(&approval)))
        .await
        .expect(200);
    assert_eq!(shown["resolution"]["by"], by);
}

#[tokio::test]
async fn sessions_do_not_answer_for_each_other() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let prompt = fake_prompt(&json!([{"ask": {"ids": ["same"]}}]));
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let id = id_of(
            &rest
                .create(json!({"cwd": daemon.work_dir(name), "prompt": prompt}))
                .await,
        );
        rest.pending_approval(&id).await;
        ids.push(id);
    }
    let mut socket: Ws = daemon.attach(&ids[0], None).await;
    socket
        .send(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": "same", "response": {"behavior": "allow"}}}))
        .await;
    socket.cli_line("result").await;
    rest.in_state(&ids[0], &["idle"]).await;
    assert_eq!(rest.session(&ids[1]).await["state"], "waiting");
    assert_eq!(
        rest.get("/v1/approvals?state=pending").await.expect(200)["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
