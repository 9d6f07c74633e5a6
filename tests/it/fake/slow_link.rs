//! Owns the tests of clients with slow links: they leave out kinds of records, have pieces joined, begin near the end, and each
//! record that they want comes once, however often their link breaks.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act, act_through, path, plain, records, session_with},
    support::{
        chance::Chance,
        daemon::TestDaemon,
        event_stream::EventStream,
        link::{Badness, Link},
        rest::Rest,
        wait::pass,
        ws::Ws,
    },
};

/// 300 ms there and back, 64 kB a second, and no connection lives for a second.
const PHONE: Badness = Badness {
    delay: Duration::from_millis(150),
    rate: 64_000,
    life: (400, 500),
};

/// A turn that says this text in pieces of eight characters.
fn spoken(length: usize, pause_ms: u64) -> Value {
    let text: String = ('a'..='z').cycle().take(length).collect();
    json!([{ "text": text, "only": "deltas", "chunk_ms": pause_ms }])
}

async fn attach(url: &str, token: &str, session: &str, query: &str) -> Option<Ws> {
    let path = path(session, &format!("ws?{query}"));
    Ws::try_connect(url, &path, &["trunkline.v1"], Some(token))
        .await
        .ok()
}

fn is_result(frame: &Value) -> bool {
    frame["src"] == "cli" && frame["data"]["type"] == "result"
}

/// The text in the pieces of a message.
fn text_of(frames: &[Value]) -> String {
    let text = |frame: &Value| {
        frame["data"]["event"]["delta"]["text"]
            .as_str()
            .map(str::to_owned)
    };
    frames.iter().filter_map(text).collect()
}

/// All that one phone got, up to the result of the turn.
struct Got {
    frames: Vec<Value>,
    reconnects: u32,
}

/// Follows a session over a link that breaks, from its last record on each time, until the turn is over and the link broke
/// `least` times. After the first time the phone knows the session.
async fn follow(link: &Link, token: &str, session: &str, query: &str, least: u32) -> Got {
    let mut got = Got {
        frames: Vec::new(),
        reconnects: 0,
    };
    let (mut last, mut is_over) = (0, false);
    while !is_over || got.reconnects < least {
        let snapshot = if last > 0 { "brief" } else { "full" };
        let query = format!("after={last}&snapshot={snapshot}{query}");
        if let Some(mut client) = attach(&link.url, token, session, &query).await {
            while let Some(frame) = client.next_within(Duration::from_secs(30)).await {
                let first = frame["seq"].as_u64().or(frame["first_seq"].as_u64());
                let Some(first) = first else { continue };
                assert_eq!(first, last + 1, "a record is missing or comes twice: {frame}");
                last = frame["last_seq"].as_u64().unwrap_or(first);
                is_over |= is_result(&frame);
                got.frames.push(frame);
            }
        }
        got.reconnects += 1;
    }
    got
}

/// Phones follow one turn that says `length` characters in pieces with such a pause, and each gets all of it once: with pieces
/// joined, and as it is. Those get at most a fifth of the bytes of these, with all handshakes and first frames.
async fn phones(pairs: usize, cuts: u32, (length, pause_ms): (usize, u64)) {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let id = session_with(&daemon, "a", json!({}), json!({})).await;
    let (url, token) = (daemon.url().to_owned(), daemon.token().to_owned());
    let mut chance = Chance::new();
    let mut links = Vec::new();
    for _ in 0..2 * pairs {
        links.push(Link::start(&url, PHONE, chance.next()).await);
    }
    act(&rest, &id, spoken(length, pause_ms)).await;
    let began = Instant::now();
    let clients = links.iter().enumerate().map(|(number, link)| {
        let query = if number % 2 == 0 { "" } else { "&coalesce=300" };
        follow(link, &token, &id, query, cuts)
    });
    let all = join_all(clients).await;
    let whole = text_of(&records(&rest, &id).await);
    assert_eq!(whole.len(), length);
    for got in &all {
        assert_eq!(text_of(&got.frames), whole);
    }
    let reconnects: u32 = all.iter().map(|got| got.reconnects).sum();
    let carried = |parity: usize| {
        links
            .iter()
            .skip(parity)
            .step_by(2)
            .map(Link::carried)
            .sum::<u64>()
    };
    let (plain, joined) = (carried(0), carried(1));
    println!(
        "{reconnects} reconnects in {:?}; bytes through the links: {plain} as it is, {joined} joined, all handshakes and first \
         frames included",
        began.elapsed(),
    );
    assert!(5 * joined <= plain, "{joined} of {plain}");
}

#[tokio::test]
async fn a_phone_whose_link_breaks_gets_each_record_once() {
    phones(1, 8, (3_000, 12)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; docs/PERFORMANCE.md says how to run it"]
async fn phones_whose_links_break_five_hundred_times_get_each_record_once() {
    phones(4, 63, (6_000, 12)).await;
}

/// The bytes of the frames of one turn, and the frames.
async fn one_turn(client: &mut Ws) -> (usize, Vec<Value>) {
    let mut frames = client.until("the result", is_result).await;
    // Another client has come.
    frames.retain(|frame| frame["type"] != "trunkline.clients");
    (frames.iter().map(|frame| frame.to_string().len()).sum(), frames)
}

#[tokio::test]
async fn joined_pieces_take_a_fifth_of_the_bytes_and_nothing_changes_its_place() {
    let (daemon, rest, id) = plain().await;
    let (url, token) = (daemon.url(), daemon.token());
    let mut plain = attach(url, token, &id, "").await.unwrap();
    let mut joined = attach(url, token, &id, "coalesce=250").await.unwrap();
    let mut events = EventStream::open(&rest, &path(&id, "events?coalesce=250&tail=0"), None).await;
    for client in [&mut plain, &mut joined] {
        assert_eq!(client.next().await["type"], "trunkline.snapshot");
    }
    act(&rest, &id, spoken(2_400, 3)).await;
    let (all, frames) = one_turn(&mut plain).await;
    let (few, pieces) = one_turn(&mut joined).await;
    assert!(few * 5 <= all, "{few} bytes of {all}");
    assert_eq!(text_of(&pieces), text_of(&frames));
    let is_joined = |frame: &&Value| frame["type"] == "trunkline.coalesced";
    let first = pieces.iter().find(is_joined).unwrap();
    assert_eq!(first["data"]["event"]["delta"]["type"], "text_delta");
    let (from, to) = (
        first["first_seq"].as_u64().unwrap(),
        first["last_seq"].as_u64().unwrap(),
    );
    assert_eq!(first["count"].as_u64(), Some(to - from + 1));
    // All other records are there, in their order, and the numbers have no hole.
    let mut next = frames[0]["seq"].as_u64().unwrap();
    for piece in &pieces {
        assert_eq!(
            piece["seq"].as_u64().or(piece["first_seq"].as_u64()),
            Some(next),
            "{piece}"
        );
        next = piece["last_seq"].as_u64().unwrap_or(next) + 1;
    }
    let plain_ones: Vec<_> = pieces.iter().filter(|piece| piece["seq"].is_u64()).collect();
    assert!(plain_ones.iter().all(|piece| frames.contains(piece)));
    // The same over an event stream, whose id is the place.
    let seen = events.until("the result", is_result).await;
    let joined = seen.iter().find(|event| event.name == "coalesced").unwrap();
    assert_eq!(joined.id, Some(joined.data["last_seq"].to_string()));
    let data: Vec<_> = seen.into_iter().map(|event| event.data).collect();
    assert_eq!(text_of(&data), text_of(&frames));
    // An old turn is joined as well.
    let mut later = attach(url, token, &id, "after=0&coalesce=10000").await.unwrap();
    let (_, again) = one_turn(&mut later).await;
    assert_eq!(text_of(&again), text_of(&frames));
}

#[tokio::test]
async fn a_client_is_told_its_place_while_records_that_it_does_not_want_pass() {
    let (daemon, rest, id) = plain().await;
    let mut client = attach(
        daemon.url(),
        daemon.token(),
        &id,
        "without=cli.stream_event,client",
    )
    .await
    .unwrap();
    let mut events = EventStream::open(&rest, &path(&id, "events?only=daemon&tail=0"), None).await;
    let after = client.next().await["after"].as_u64().unwrap();
    act(&rest, &id, spoken(1_600, 15)).await;
    let began = Instant::now();
    let (mut last, mut told) = (after, began);
    loop {
        let frame = client.next().await;
        let seq = frame["seq"].as_u64().unwrap();
        assert!(seq > last, "{frame} after {last}");
        assert_ne!(frame["data"]["type"], "stream_event");
        assert_ne!(frame["src"], "client");
        assert!(
            told.elapsed() < Duration::from_secs(2),
            "{:?} in silence",
            told.elapsed()
        );
        (last, told) = (seq, Instant::now());
        if is_result(&frame) {
            break;
        }
        assert!(frame["type"] == "trunkline.cursor" || frame["seq"].is_u64());
    }
    assert!(
        began.elapsed() > Duration::from_secs(2),
        "the turn took too little time to show anything"
    );
    rest.in_state(&id, &["idle"]).await;
    let head = rest.session(&id).await["head_seq"].as_u64().unwrap();
    while last < head {
        last = client.next().await["seq"].as_u64().unwrap();
    }
    // Nothing passes: nothing is told.
    pass(Duration::from_millis(1_300)).await;
    client.send(&json!({ "type": "trunkline.ping", "id": 1 })).await;
    let quiet = client
        .until("the pong", |frame| frame["type"] == "trunkline.pong")
        .await;
    for frame in quiet.iter().filter(|frame| frame["type"] != "trunkline.pong") {
        let seq = frame["seq"].as_u64().unwrap();
        assert!(seq > last, "{frame} again");
        last = seq;
    }
    let place = events
        .until("the place", |data| data["type"] == "trunkline.cursor")
        .await;
    let place = place.last().unwrap();
    assert_eq!(
        (place.name.as_str(), &place.id),
        ("cursor", &Some(place.data["seq"].to_string()))
    );
    // The place is good for coming back.
    act_through(&rest, &id, json!([])).await;
    let query = format!("after={last}");
    let mut back = attach(daemon.url(), daemon.token(), &id, &query).await.unwrap();
    back.next().await;
    assert_eq!(back.next().await["seq"].as_u64(), Some(last + 1));
}

#[tokio::test]
async fn a_client_begins_with_the_newest_records() {
    let (daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([])).await;
    rest.in_state(&id, &["idle"]).await;
    let mut client = attach(daemon.url(), daemon.token(), &id, "tail=3").await.unwrap();
    let first = client.next().await;
    // A last record may come behind the end of the turn.
    let head = first["head_seq"].as_u64().unwrap();
    assert_eq!(first["after"].as_u64(), Some(head - 3));
    for seq in head - 2..=head {
        assert_eq!(client.next().await["seq"].as_u64(), Some(seq));
    }
    let page = rest.get(&path(&id, "events?tail=2")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let all = rest.get(&path(&id, "events?tail=100000")).await.expect(200);
    assert_eq!(all["items"][0]["seq"], 1);
    // One socket for many takes the same words.
    let mut many = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    let subscribe = json!({
        "type": "trunkline.subscribe", "session_id": id, "tail": head, "only": "cli.stream_event,cli.result", "coalesce": 50,
    });
    many.send(&subscribe).await;
    let first = many.next().await;
    assert_eq!(
        first["after"].as_u64(),
        first["head_seq"].as_u64().map(|it| it - head)
    );
    act(&rest, &id, spoken(160, 0)).await;
    let frames = many
        .until("the second result", |frame| {
            is_result(frame) && frame["data"]["num_turns"] != 0
        })
        .await;
    assert!(frames.iter().all(|frame| frame["session_id"] == json!(id)));
    let frames = if text_of(&frames).is_empty() {
        many.until("the joined text", is_result).await
    } else {
        frames
    };
    assert_eq!(text_of(&frames).len(), 160);
    assert!(frames.iter().any(|frame| frame["type"] == "trunkline.coalesced"));
    for query in [
        "tail=1&after=1",
        "coalesce=5",
        "only=everything",
        "without=",
        "protocol=ndjson&tail=1",
        "protocol=ndjson&coalesce=50",
        "protocol=ndjson&snapshot=brief",
        "snapshot=none",
    ] {
        let reply = Ws::try_connect(
            daemon.url(),
            &path(&id, &format!("ws?{query}")),
            &[],
            Some(daemon.token()),
        )
        .await;
        match reply {
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                assert_eq!(response.status(), 400, "{query}")
            }
            other => panic!("{query}: {other:?}"),
        }
    }
    let page = rest.get(&path(&id, "events?only=cli")).await;
    assert_eq!(page.problem(400), "invalid_query");
}

async fn snapshot(daemon: &TestDaemon, id: &str) -> Value {
    attach(daemon.url(), daemon.token(), id, "")
        .await
        .unwrap()
        .next()
        .await
}

#[tokio::test]
async fn a_client_that_comes_back_is_told_only_what_it_cannot_know() {
    let (daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([])).await;
    let prompt = json!({ "text": "later", "held": true });
    rest.post(&path(&id, "prompts"), prompt).await.expect(201);
    let whole = snapshot(&daemon, &id).await;
    let mut client = attach(daemon.url(), daemon.token(), &id, "after=3&snapshot=brief")
        .await
        .unwrap();
    let brief = client.next().await;
    assert_eq!(brief["type"], "trunkline.attached");
    for member in ["head_seq", "queue", "build"] {
        assert_eq!(brief[member], whole[member], "{member}");
    }
    assert_eq!(
        (&brief["after"], &brief["state"]),
        (&json!(3), &whole["session"]["state"])
    );
    assert_eq!(client.next().await["seq"], 4);
    // A session that it has joined on the socket of many is as any.
    let mut many = Ws::try_connect(daemon.url(), "/v1/ws", &["trunkline.v1"], Some(daemon.token()))
        .await
        .unwrap();
    many.send(&json!({ "type": "trunkline.subscribe", "session_id": id, "after": 3, "snapshot": "brief" }))
        .await;
    let brief = many.next().await;
    assert_eq!(
        (&brief["type"], &brief["session_id"]),
        (&json!("trunkline.attached"), &json!(id))
    );
    assert_eq!(many.next().await["seq"], 4);
}

#[tokio::test]
async fn many_large_requests_make_no_large_snapshot() {
    let (daemon, rest, id): (_, Rest, _) = plain().await;
    let content = "0123456789".repeat(4_000);
    let ids: Vec<_> = (0..40).map(|number| format!("w-{number}")).collect();
    let input = json!({ "file_path": "/tmp/x", "content": content });
    act(
        &rest,
        &id,
        json!([{ "ask": { "ids": ids, "tool": "Write", "input": input } }]),
    )
    .await;
    let mut view = snapshot(&daemon, &id).await;
    while view["pending_approvals"].as_array().unwrap().len() < 40 {
        view = snapshot(&daemon, &id).await;
    }
    assert!(
        view.to_string().len() < 600_000,
        "{} bytes",
        view.to_string().len()
    );
    let pending = view["pending_approvals"].as_array().unwrap();
    assert_eq!(pending[0]["request_truncated"], false, "the first ones are whole");
    let last = &pending[39];
    assert_eq!(
        (&last["request_truncated"], &last["subject"]),
        (&json!(true), &json!("Write"))
    );
    assert_eq!(last["left_out"], json!(["input.content"]));
    assert!(last["request_bytes"].as_u64().unwrap() > 40_000);
    let route = path(&id, &format!("approvals/{}", last["id"].as_str().unwrap()));
    let whole = rest.get(&route).await.expect(200);
    assert_eq!(whole["request"]["input"]["content"], json!(content));
}
