//! Owns section B: clients that do not keep up, and limits.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, path, session},
    support::{
        daemon::TestDaemon,
        wait::{PATIENCE, wait_for, wait_until},
        ws::Ws,
    },
};

/// Reads on, and checks that no record is missing or doubled, up to the end of the turn.
async fn read_through(client: &mut Ws, from: u64) -> u64 {
    let mut last = from;
    loop {
        let frame = client.next().await;
        let Some(seq) = frame["seq"].as_u64() else {
            continue;
        };
        assert_eq!(seq, last + 1, "a gap");
        last = seq;
        if frame["src"] == "cli" && frame["data"]["type"] == "result" {
            return last;
        }
    }
}

/// Resident memory, in bytes.
fn memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_lags_gets_everything_and_stays_alive() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SESSIONS_RING_BYTES", "65536")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let mut slow = daemon.attach(&id, Some(0)).await;
    let mut quick = daemon.attach(&id, Some(0)).await;
    act(&rest, &id, json!([{ "flood": 20_000, "bytes": 400 }])).await;
    let end = read_through(&mut quick, 0).await;
    // By now 8 MB lie between the two: far more than socket and memory hold.
    assert_eq!(read_through(&mut slow, 0).await, end);
    act(&rest, &id, json!([{ "text": "new" }])).await;
    for client in [&mut slow, &mut quick] {
        let line = client.cli_line("assistant").await;
        assert_eq!(line["message"]["content"][0]["text"], "new");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_cost_little_and_delay_nobody() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_SEND_TIMEOUT_MS", "2000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    act_through(&rest, &id, json!([{ "flood": 2000, "bytes": 1000 }])).await;
    let before = memory(daemon.pid());
    let mut deaf = Vec::new();
    for _ in 0..4 {
        deaf.push(daemon.attach(&id, Some(0)).await);
    }
    let mut reader = daemon.attach(&id, None).await;
    let head = reader.next().await["head_seq"].as_u64().unwrap();
    act(&rest, &id, json!([{ "flood": 60_000, "bytes": 1000 }])).await;
    read_through(&mut reader, head).await;
    let grown = memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 60_000_000, "60 MB passed, {grown} bytes were kept");
    // A client that does not read is let go, and can come back with what it has.
    wait_until("the deaf clients are let go", PATIENCE, || {
        daemon.log().matches("client too slow").count() == deaf.len()
    })
    .await;
    let mut last = 0;
    while let Some(frame) = deaf[0].next_within(PATIENCE).await {
        if let Some(seq) = frame["seq"].as_u64() {
            assert_eq!(seq, last + 1, "a gap");
            last = seq;
        }
    }
    let mut back = daemon.attach(&id, Some(last)).await;
    read_through(&mut back, last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_prompt_in_one_frame_passes_and_one_above_the_limit_is_told() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", "21000000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let mut client = daemon.attach(&id, None).await;
    let prompt =
        |bytes: usize| json!({ "type": "user", "message": { "role": "user", "content": "x".repeat(bytes) } });
    client.send(&prompt(20_000_000)).await;
    let rest = daemon.rest();
    wait_for("the turn", PATIENCE, async || {
        (rest.turns(&id).await.len() == 1).then_some(())
    })
    .await;
    // Its own prompt comes back to it, in a frame that this client's library does not take.
    drop(client);
    let mut client = daemon.attach(&id, None).await;
    let mut other = daemon.attach(&id, None).await;
    client.send(&prompt(22_500_000)).await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(code, 1009, "{reason}");
    assert!(!reason.is_empty());
    other.send(&prompt(10)).await;
    other.cli_line("result").await;
}

#[tokio::test]
async fn an_image_in_a_post_passes_and_a_body_above_the_limit_is_told() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_PROMPT_BYTES", "8000000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let image = |bytes: usize| {
        json!({ "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "A".repeat(bytes) } },
            { "type": "text", "text": "what is it?" },
        ] })
    };
    let reply = rest
        .post(&path(&id, "messages?wait=result"), image(6_000_000))
        .await;
    assert!(reply.status.is_success(), "{:#}", reply.body);
    let refused = rest.post(&path(&id, "messages"), image(8_100_000)).await;
    let code = refused.problem(413);
    assert!(
        ["prompt_too_large", "body_too_large"].contains(&code.as_str()),
        "{code}"
    );
}

#[tokio::test]
async fn connections_are_limited_and_the_limit_is_told() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_CONNECTIONS_PER_SESSION", "3")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(daemon.attach(&id, None).await);
    }
    let ws = path(&id, "ws");
    let refused = Ws::try_connect(daemon.url(), &ws, &["trunkline.v1"], Some(daemon.token())).await;
    let tokio_tungstenite::tungstenite::Error::Http(response) = refused.unwrap_err() else {
        panic!("not refused by HTTP");
    };
    assert_eq!(response.status(), 429);
    clients.pop().unwrap().close().await;
    let began = Instant::now();
    loop {
        if let Ok(client) = Ws::try_connect(daemon.url(), &ws, &["trunkline.v1"], Some(daemon.token())).await
        {
            clients.push(client);
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the place is not free again"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_and_edits_at_once_lose_nothing() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let mut work = tokio::task::JoinSet::new();
    for place in 0..6 {
        let id = session(&daemon, &format!("w{place}"), json!({ "cost": 0.01 })).await;
        let rest = rest.clone();
        work.spawn(async move {
            let whole = format!("/v1/sessions/{id}");
            for round in 0..10 {
                let edit = json!({ "title": format!("round {round}"), "tag": "t", "labels": { "n": round.to_string() } });
                let (patched, _) = tokio::join!(rest.patch(&whole, edit), rest.ask(&id, "hello"));
                patched.expect(200);
            }
            id
        });
    }
    for id in work.join_all().await {
        let view = rest.session(&id).await;
        assert_eq!(view["turns"], 10);
        assert!(
            (view["cost_usd"].as_f64().unwrap() - 0.1).abs() < 1e-9,
            "{view:#}"
        );
        assert_eq!(view["title"], "round 9");
        assert_eq!(view["state"], "idle");
    }
    // Reading and attaching move nothing in the list.
    let order = |list: Value| -> Vec<Value> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].clone())
            .collect()
    };
    let before = order(rest.get("/v1/sessions").await.expect(200));
    for id in &before {
        let id = id.as_str().unwrap();
        rest.session(id).await;
        daemon.attach(id, Some(0)).await.close().await;
        rest.events(id, 0).await;
    }
    assert_eq!(order(rest.get("/v1/sessions").await.expect(200)), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_frees_its_place() {
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_MAX_CONNECTIONS_PER_SESSION", "2")
        .env("TRUNKLINE_SERVER_PING_INTERVAL_MS", "1000")
        .start()
        .await;
    let id = session(&daemon, "a", json!({})).await;
    // It neither reads nor answers pings, and sends no goodbye.
    let silent = daemon.attach(&id, None).await;
    let log = "client silent";
    wait_until("the silent client is dropped", PATIENCE, || {
        daemon.log().contains(log)
    })
    .await;
    drop(silent);
}

/// The memory of 12 approvals of 4 MB, while they are asked, shown and listed, is not kept for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_approvals_come_in_pages_and_their_memory_is_given_back() {
    let (count, bytes) = (12, 4_000_000);
    let daemon = TestDaemon::with_fake().start().await;
    let id = session(&daemon, "a", json!({})).await;
    let rest = daemon.rest();
    let before = memory(daemon.pid());
    for _ in 0..count {
        let ask =
            json!([{ "ask": { "tool": "Bash", "input": { "command": "x".repeat(bytes) }, "wait": false } }]);
        act(&rest, &id, ask).await;
    }
    let list = "/v1/approvals?state=pending&limit=500";
    let mut most = 0;
    wait_for("all are listed", PATIENCE, async || {
        let (mut seen, mut cursor) = (0, String::new());
        loop {
            let page = rest.get(&format!("{list}{cursor}")).await.expect(200);
            let items = page["items"].as_array().unwrap().len();
            (seen, most) = (seen + items, most.max(items));
            let Some(next) = page["next_cursor"].as_str() else {
                return (seen == count).then_some(());
            };
            cursor = format!("&cursor={next}");
        }
    })
    .await;
    assert!(most < count, "a page of {most}");
    rest.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    wait_until("the memory is given back", 2 * PATIENCE, || {
        memory(daemon.pid()) < before + 40_000_000
    })
    .await;
}
