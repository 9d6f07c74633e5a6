//! Owns the tests of the socket of many sessions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, session},
    support::{daemon::TestDaemon, programs::fake_prompt, ws::Ws},
};

async fn connect(daemon: &TestDaemon) -> Ws {
    let token = daemon.token();
    Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(token))
        .await
        .unwrap()
}

async fn subscribe(client: &mut Ws, id: &str, more: Value) -> Value {
    let mut frame = json!({ "type": "trunkline.subscribe", "session_id": id });
    frame
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.send(&frame).await;
    client
        .find("the snapshot", |frame| {
            frame["session_id"] == id && frame["type"] == "trunkline.snapshot"
        })
        .await
}

/// Reads to a record of this session that `wanted` accepts; all records of the session, that one last.
async fn records_of(
    client: &mut Ws,
    id: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool + Send + Sync,
) -> Vec<Value> {
    let is_last = |frame: &Value| frame["session_id"] == id && wanted(frame);
    let frames = client.until(what, is_last).await;
    let of_session = frames.into_iter().filter(|frame| frame["session_id"] == id);
    of_session.filter(|frame| frame["seq"].is_u64()).collect()
}

fn is_result(frame: &Value) -> bool {
    frame["src"] == "cli" && frame["data"]["type"] == "result"
}

#[tokio::test]
async fn one_socket_carries_the_records_and_lines_of_many_sessions() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let (one, two) = (
        session(&daemon, "a", json!({})).await,
        session(&daemon, "b", json!({})).await,
    );
    let mut client = connect(&daemon).await;
    let snapshot = subscribe(&mut client, &one, json!({ "after": 0 })).await;
    assert_eq!(snapshot["session"]["id"], json!(one));
    subscribe(&mut client, &two, json!({})).await;
    for (id, text) in [(&one, "for one"), (&two, "for two")] {
        let content = fake_prompt(&json!([{ "text": text }]));
        let line = json!({
            "session_id": id, "type": "user", "message": { "role": "user", "content": content },
        });
        client.send(&line).await;
        let ack = client
            .find("the ack", |frame| {
                frame["type"] == "trunkline.ack" && frame["session_id"] == *id
            })
            .await;
        assert_eq!(ack["for"], "user", "{ack:#}");
        let records = records_of(&mut client, id, "the result", is_result).await;
        assert!(
            records
                .iter()
                .any(|record| record["data"].to_string().contains(text)),
            "{records:#?}"
        );
        // The line went to the CLI without the daemon's id.
        let sent = records
            .iter()
            .find(|record| record["data"]["type"] == "user" && record["src"] == "client");
        assert_eq!(sent.unwrap()["data"].get("session_id"), None, "{sent:#?}");
    }
    // Byte for byte as in the journal, but for the id.
    let journal = rest.events(&one, 0).await;
    let mut again = connect(&daemon).await;
    subscribe(&mut again, &one, json!({ "after": 0 })).await;
    let last = journal.last().unwrap()["seq"].clone();
    let mut records = records_of(&mut again, &one, "the last record", |frame| frame["seq"] == last).await;
    for record in &mut records {
        record.as_object_mut().unwrap().remove("session_id");
    }
    assert_eq!(records, journal);
}

#[tokio::test]
async fn a_session_can_be_left_and_joined_again_without_a_gap() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let mut client = connect(&daemon).await;
    subscribe(&mut client, &id, json!({ "after": 0 })).await;
    act(&rest, &id, json!([{ "text": "one" }])).await;
    let records = records_of(&mut client, &id, "the result", is_result).await;
    let seen = records.last().unwrap()["seq"].as_u64().unwrap();
    client
        .send(&json!({ "type": "trunkline.unsubscribe", "session_id": id }))
        .await;
    let mut left = client
        .until("the end", |frame| frame["type"] == "trunkline.unsubscribed")
        .await;
    let left = left.pop().unwrap();
    assert_eq!((&left["session_id"], &left["code"]), (&json!(id), &Value::Null));
    act_through(&rest, &id, json!([{ "text": "two" }])).await;
    // Both in one frame: the second is taken after the first.
    let lines = [
        json!({ "type": "trunkline.subscribe", "session_id": id, "after": seen }),
        json!({ "session_id": id, "type": "control_request", "request_id": "r-1", "request": { "subtype": "interrupt" } }),
    ];
    client.send_text(&format!("{}\n{}", lines[0], lines[1])).await;
    let snapshot = client.next().await;
    assert_eq!(snapshot["type"], "trunkline.snapshot", "{snapshot:#}");
    let answer = client
        .find("the answer", |frame| frame["type"] == "control_response")
        .await;
    assert_eq!(answer["response"]["request_id"], "r-1", "{answer:#}");
    let records = records_of(&mut client, &id, "the result", is_result).await;
    assert_eq!(records[0]["seq"], json!(seen + 1), "no gap and no double");

    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    let gone = client
        .find("the end of the session", |frame| {
            frame["type"] == "trunkline.unsubscribed"
        })
        .await;
    assert_eq!(gone["code"], 4410, "{gone:#}");
    client.send(&json!({ "type": "trunkline.ping", "id": 1 })).await;
    let pong = client
        .find("a pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    assert_eq!(pong, json!({ "type": "trunkline.pong", "id": 1 }));
}

#[tokio::test]
async fn a_client_takes_no_more_of_a_session_than_it_said() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session(&daemon, "a", json!({})).await;
    let other = session(&daemon, "b", json!({})).await;
    act_through(&rest, &id, json!([{ "flood": 2000, "bytes": 500 }])).await;
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    let mut client = connect(&daemon).await;
    subscribe(&mut client, &id, json!({ "after": 0, "credit": 1 })).await;
    subscribe(&mut client, &other, json!({})).await;
    act(&rest, &other, json!([{ "text": "still heard" }])).await;
    let frames = client
        .until("the other session's result", |frame| {
            frame["session_id"] == other.as_str() && is_result(frame)
        })
        .await;
    let of_flood = |frames: &[Value]| {
        let records = frames.iter().filter(|frame| frame["session_id"] == id.as_str());
        records
            .filter_map(|frame| frame["seq"].as_u64())
            .collect::<Vec<_>>()
    };
    let first = of_flood(&frames);
    assert!(
        !first.is_empty() && first.len() < 200,
        "one batch: {}",
        first.len()
    );
    client
        .send(&json!({ "type": "trunkline.credit", "session_id": id, "bytes": 100_000_000 }))
        .await;
    let frames = client
        .until("the last record", |frame| {
            frame["session_id"] == id.as_str() && frame["seq"] == json!(head)
        })
        .await;
    let all = [first, of_flood(&frames)].concat();
    assert_eq!(all, (1..=head).collect::<Vec<_>>());
    // The end of a session needs no credit.
    let mut poor = connect(&daemon).await;
    subscribe(&mut poor, &id, json!({ "after": 0, "credit": 0 })).await;
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    let gone = poor
        .find("the end", |frame| frame["type"] == "trunkline.unsubscribed")
        .await;
    assert_eq!(gone["code"], 4410, "{gone:#}");
}

#[tokio::test]
async fn lines_that_cannot_be_taken_say_why_and_end_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let unknown = "00000000-0000-4000-8000-000000000001";
    let mut client = connect(&daemon).await;
    let user =
        |id: &str| json!({ "session_id": id, "type": "user", "message": { "role": "user", "content": "x" } });
    subscribe(&mut client, &id, json!({})).await;
    for (line, code, session) in [
        ("no json".to_owned(), "invalid_line", None),
        (r#"{"type":"user"}"#.to_owned(), "invalid_field", None),
        (user("me").to_string(), "invalid_id", None),
        (user(unknown).to_string(), "not_subscribed", Some(unknown)),
        (
            json!({ "type": "trunkline.subscribe", "session_id": unknown }).to_string(),
            "session_not_found",
            Some(unknown),
        ),
        (
            json!({ "type": "trunkline.subscribe", "session_id": id }).to_string(),
            "already_subscribed",
            Some(id.as_str()),
        ),
        (
            json!({ "type": "trunkline.credit", "session_id": id, "bytes": -1 }).to_string(),
            "invalid_field",
            Some(id.as_str()),
        ),
        (
            json!({ "type": "trunkline.watch", "limit": 0 }).to_string(),
            "invalid_query",
            None,
        ),
        (r#"{"type":"trunkline.dance"}"#.to_owned(), "unknown_frame", None),
        (
            json!({ "type": "trunkline.dance", "session_id": id }).to_string(),
            "unknown_frame",
            Some(id.as_str()),
        ),
        (
            json!({ "session_id": id, "type": "user", "message": { "role": "user", "content": "" } })
                .to_string(),
            "empty_prompt",
            Some(id.as_str()),
        ),
    ] {
        client.send_text(&line).await;
        let told = client
            .find("an error", |frame| frame["type"] == "trunkline.error")
            .await;
        assert_eq!(told["code"], code, "{line}: {told:#}");
        let named = told.get("session_id").and_then(Value::as_str);
        assert_eq!(named, session, "{line}: {told:#}");
    }
}

#[tokio::test]
async fn the_stream_of_all_sessions_comes_on_the_socket_too() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut client = connect(&daemon).await;
    client.send(&json!({ "type": "trunkline.watch" })).await;
    let lobby = client.next().await;
    assert_eq!(
        (&lobby["type"], &lobby["total"]),
        (&json!("trunkline.lobby"), &json!(0))
    );
    let id = session(&daemon, "a", json!({})).await;
    let made = client.next().await;
    assert_eq!(
        (&made["change"], &made["session_id"]),
        (&json!("made"), &json!(id))
    );
    client
        .find("an idle session", |frame| frame["session"]["state"] == "idle")
        .await;
    // Another watch takes the place of the first.
    client
        .send(&json!({ "type": "trunkline.watch", "tag": "x", "limit": 1 }))
        .await;
    client
        .until("no session", |frame| {
            frame["type"] == "trunkline.lobby" && frame["total"] == 0
        })
        .await;
    let title = format!("/v1/sessions/{id}");
    rest.patch(&title, json!({ "title": "not seen" }))
        .await
        .expect(200);
    rest.patch(&title, json!({ "tag": "x" })).await.expect(200);
    let tagged = client.next().await;
    assert_eq!(
        (&tagged["change"], &tagged["session"]["tag"]),
        (&json!("made"), &json!("x"))
    );
    client.send(&json!({ "type": "trunkline.unwatch" })).await;
    client
        .until("the end", |frame| frame["type"] == "trunkline.unwatched")
        .await;
}

#[tokio::test]
async fn a_viewer_looks_at_many_sessions_and_says_nothing_to_them() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let token = daemon.viewer_token();
    let mut client = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(&token))
        .await
        .unwrap();
    subscribe(&mut client, &id, json!({ "after": 0 })).await;
    records_of(&mut client, &id, "a record", |_| true).await;
    let line = json!({
        "session_id": id, "type": "user", "uuid": "7f0c1d9e-55b4-4c4e-9b8a-1d5a3f0b6c21",
        "message": { "role": "user", "content": "x" },
    });
    client.send(&line).await;
    let told = client
        .find("an error", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(
        (&told["code"], &told["session_id"]),
        (&json!("role_forbidden"), &json!(id))
    );
    assert_eq!(told["uuid"], line["uuid"]);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_not_read_for_ever() {
    let daemon = TestDaemon::with_fake().start().await;
    let mut client = connect(&daemon).await;
    let ping = json!({ "type": "trunkline.ping", "id": "x".repeat(4000) }).to_string();
    // Each is answered with as many bytes: far more than sockets hold.
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(2), client.send_text(&ping))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 30_000, "the daemon reads on and on");
    }
}
