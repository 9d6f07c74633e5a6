//! Owns section R: clients that come, go, and come back.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, of_type, path, plain, records, session},
    support::{daemon::TestDaemon, programs::fake_prompt, ws::Ws},
};

/// Reads records from after `from` on until `last`, without gap or double.
async fn read_to(client: &mut Ws, from: u64, last: u64) {
    let mut at = from;
    while at < last {
        let frame = client.next().await;
        if let Some(seq) = frame["seq"].as_u64() {
            assert_eq!(seq, at + 1, "a gap or a double");
            at = seq;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_joins_in_a_stream_sees_every_record_once() {
    let (daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([{ "flood": 10_000, "bytes": 200 }])).await;
    // It goes on for longer than the clients need, and ends with the daemon.
    act(
        &rest,
        &id,
        json!([{ "flood": 100_000, "rate": 1000, "bytes": 200 }]),
    )
    .await;
    for round in 0..20 {
        let from = if round % 2 == 0 {
            0
        } else {
            rest.session(&id).await["head_seq"].as_u64().unwrap()
        };
        let mut client = daemon.attach(&id, Some(from)).await;
        let snapshot = client.next().await;
        assert_eq!(snapshot["type"], "trunkline.snapshot");
        // Past what was there when it came, so into the live part.
        let head = snapshot["head_seq"].as_u64().unwrap();
        read_to(&mut client, from, head + 50).await;
    }
}

#[tokio::test]
async fn a_cursor_older_than_memory_is_served_and_one_from_the_future_is_told() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RING_BYTES", "65536")
        .env("TRUNKLINE_SESSIONS_SEGMENT_BYTES", "65536")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "flood": 3000, "bytes": 1000 }])).await;
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    let mut client = daemon.attach(&id, Some(0)).await;
    read_to(&mut client, 0, head).await;
    let beyond = rest
        .get(&path(&id, &format!("events?after={}", head + 1000)))
        .await;
    assert_eq!(beyond.problem(400), "seq_beyond_head");
    // A page is a page, and says where the next begins.
    let mut after = 0;
    let mut count = 0;
    loop {
        let page = rest
            .get(&path(&id, &format!("events?after={after}&limit=500")))
            .await
            .expect(200);
        let items = page["items"].as_array().unwrap();
        let Some(last) = items.last() else {
            break;
        };
        count += items.len() as u64;
        after = last["seq"].as_u64().unwrap();
    }
    assert!(count >= head, "{count} of {head}");
}

#[tokio::test]
async fn a_prompt_that_is_repeated_runs_once() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let uuid = "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00011";
    let line = json!({ "type": "user", "uuid": uuid, "message": { "role": "user", "content": "only once" } });
    let mut client = daemon.attach(&id, None).await;
    client.send(&line).await;
    drop(client);
    let mut client = daemon.attach(&id, Some(0)).await;
    client.send(&line).await;
    let ack = client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["uuid"], uuid, "{ack:#}");
    client.cli_line("result").await;
    daemon.kill();
    daemon.start().await;
    let mut client = daemon.attach(&id, None).await;
    client.send(&line).await;
    let ack = client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["repeated"], true, "{ack:#}");
    let other =
        json!({ "type": "user", "uuid": uuid, "message": { "role": "user", "content": "something else" } });
    client.send(&other).await;
    let refused = client
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refused["code"], "prompt_conflict", "{refused:#}");
    let rest = daemon.rest();
    assert_eq!(rest.turns(&id).await.len(), 1);
    assert_eq!(of_type(&records(&rest, &id).await, "client", "user").len(), 1);

    // After a resume, which no record of the last run can tell, it is still known.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    rest.lifecycle(&id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    rest.ask(&id, "another").await;
    // To another daemon as well, whose session has only read the last run.
    daemon.kill();
    daemon.start().await;
    let rest = daemon.rest();
    let mut client = daemon.attach(&id, None).await;
    client.send(&line).await;
    let ack = client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["repeated"], true, "{ack:#}");
    client.send(&other).await;
    let refused = client
        .find("a refusal", |frame| frame["type"] == "trunkline.error")
        .await;
    assert_eq!(refused["code"], "prompt_conflict", "{refused:#}");
    let conflict = rest
        .post(
            &path(&id, "messages"),
            json!({ "text": "something else", "uuid": uuid }),
        )
        .await;
    assert_eq!(conflict.problem(409), "prompt_conflict");
    rest.in_state(&id, &["idle"]).await;
    assert_eq!(rest.turns(&id).await.len(), 2);
    // Without a process it is still known.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    client.send(&line).await;
    let ack = client
        .find("the ack", |frame| frame["type"] == "trunkline.ack")
        .await;
    assert_eq!(ack["repeated"], true, "{ack:#}");
}

#[tokio::test]
async fn the_result_can_be_had_again_from_the_next_daemon() {
    let mut daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let route = path(&id, "messages?wait=result");
    let body = json!({ "text": "once", "uuid": "7e6f2a34-5d1c-4b7e-9a51-0c0ffee00012" });
    let first = daemon.rest().post(&route, body.clone()).await;
    assert!(first.status.is_success(), "{:#}", first.body);
    daemon.kill();
    daemon.start().await;
    let again = daemon.rest().post(&route, body).await;
    assert!(again.status.is_success(), "{:#}", again.body);
    assert_eq!(again.body["repeated"], true);
    assert_eq!(again.body["result"], first.body["result"]);
    assert_eq!(again.body["turn"]["cost_usd"], first.body["turn"]["cost_usd"]);
}

#[tokio::test]
async fn a_turn_does_not_depend_on_who_asked_and_all_get_all() {
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let gate = daemon.home().join("gate");
    let mut first = daemon.attach(&id, None).await;
    let text = fake_prompt(&json!([{ "text": "begun" }, { "wait_file": gate }, { "text": "done" }]));
    first
        .send(&json!({ "type": "user", "message": { "role": "user", "content": text } }))
        .await;
    first.cli_line("assistant").await;
    drop(first);
    fs::write(&gate, "").unwrap();
    let rest = daemon.rest();
    rest.in_state(&id, &["idle"]).await;
    let mut views = Vec::new();
    for _ in 0..3 {
        let mut client = daemon.attach(&id, Some(0)).await;
        let frames = client
            .until("the result", |frame| {
                frame["src"] == "cli" && frame["data"]["type"] == "result"
            })
            .await;
        views.push(
            frames
                .into_iter()
                .filter(|frame| frame["seq"].is_u64())
                .collect::<Vec<Value>>(),
        );
    }
    assert_eq!(views[0], views[1]);
    assert_eq!(views[1], views[2]);
    assert_eq!(of_type(&views[0], "cli", "assistant").len(), 2);
}

#[tokio::test]
async fn attaching_changes_nothing() {
    let (daemon, rest, id) = plain().await;
    act(&rest, &id, json!([{ "text": "begun" }, { "silent": 1 }])).await;
    let mut client = daemon.attach(&id, Some(0)).await;
    // The state is a record of its own, before the line or after it.
    let is_busy = |frame: &Value| frame["data"]["type"] == "state" && frame["data"]["state"] == "busy";
    client.find("the state", is_busy).await;
    client.cli_line("assistant").await;
    // Time goes on.
    let seen = async || {
        let mut view = rest.session(&id).await;
        view.as_object_mut().unwrap().remove("silent_for_ms");
        view
    };
    let before = seen().await;
    for after in [Some(0), None, Some(1)] {
        daemon.attach(&id, after).await.close().await;
    }
    assert_eq!(seen().await, before);
    client.send(&json!({ "type": "trunkline.ping", "id": 1 })).await;
    let pong = client
        .find("a pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    assert_eq!(pong["id"], 1);
}

#[tokio::test]
async fn a_quiet_connection_is_pinged() {
    use futures_util::StreamExt as _;
    use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_PING_INTERVAL_MS", "1000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let url = format!("{}{}", daemon.url().replacen("http", "ws", 1), path(&id, "ws"));
    let mut request = url.into_client_request().unwrap();
    let bearer = format!("Bearer {}", daemon.token()).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let mut pings = 0;
    let pinged = async {
        while pings < 4 {
            if let Message::Ping(_) = socket.next().await.expect("the connection lives").unwrap() {
                pings += 1;
            }
        }
    };
    // The client answers each by reading on, so it is not dropped after two.
    tokio::time::timeout(Duration::from_secs(15), pinged)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_close_has_its_code_and_comes_at_once() {
    let (daemon, rest, id) = plain().await;
    let mut client = daemon.attach(&id, None).await;
    assert_eq!(rest.delete(&format!("/v1/sessions/{id}")).await.status, 204);
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 4410, "{reason}");
    let id = session(&daemon, "b", json!({})).await;
    let polite = daemon.attach(&id, None).await;
    tokio::time::timeout(Duration::from_secs(5), polite.close())
        .await
        .expect("a close is answered");
}

#[tokio::test]
async fn a_stop_during_the_start_loses_and_doubles_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let gate = daemon.home().join("gate");
    let rest = daemon.rest();
    let cwd = daemon.work_dir("a");
    fs::write(
        cwd.join(".fake-claude.json"),
        json!({ "init": { "wait_file": gate } }).to_string(),
    )
    .unwrap();
    let view = rest.create(json!({ "cwd": cwd, "prompt": "hello" })).await;
    let id = view["id"].as_str().unwrap();
    let stopped = rest.lifecycle(id, "stop", json!({})).await.expect(200);
    assert_eq!(stopped["state"], "stopped", "{stopped:#}");
    assert_eq!(stopped["open_prompts"], json!([]));
    fs::write(&gate, "").unwrap();
    rest.lifecycle(id, "resume?wait=ready", json!({}))
        .await
        .expect(200);
    // The prompt was interrupted: it is not run behind anybody's back.
    rest.ask(id, "again").await;
    let turns = rest.turns(id).await;
    assert_eq!(turns.last().unwrap()["is_error"], false);
    let written = of_type(&records(&rest, id).await, "client", "user").len();
    assert!(written <= 2, "{written} prompts written");
}
