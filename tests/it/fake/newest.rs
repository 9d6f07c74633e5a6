//! Owns what a page needs that opens a long session: the newest records and messages first, pages backwards, one record
//! alone, and large records as stubs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fake::bed::{act_through, path, plain, records, session_with},
    support::{
        daemon::TestDaemon,
        event_stream::EventStream,
        rest::Rest,
        wait::{PATIENCE, wait_for},
        ws::Ws,
    },
};

/// All items of a list, page by page from the newest on.
async fn all_back(rest: &Rest, route: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut before = String::new();
    loop {
        let separator = if route.contains('?') { '&' } else { '?' };
        let url = format!("{route}{separator}order=desc&limit={limit}{before}");
        let page = rest.get(&url).await.expect(200);
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        match page["next_before"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => return items,
        }
    }
}

#[tokio::test]
async fn records_come_from_the_newest_on() {
    let (_daemon, rest, id) = plain().await;
    for turn in 0..4 {
        act_through(&rest, &id, json!([{ "text": format!("answer {turn}") }])).await;
    }
    // Nothing comes after the end.
    rest.lifecycle(&id, "stop", json!({})).await.expect(200);
    let mut expected = wait_for("the record of the end", PATIENCE, async || {
        let all = records(&rest, &id).await;
        (all.last().unwrap()["data"]["state"] == "stopped").then_some(all)
    })
    .await;
    let head = expected.len() as u64;
    expected.reverse();
    let route = path(&id, "events");
    for limit in [3, 7, 500] {
        assert!(
            all_back(&rest, &route, limit).await == expected,
            "pages of {limit}"
        );
    }
    let newest = rest.get(&format!("{route}?order=desc&limit=5")).await.expect(200);
    assert_eq!(newest["items"], json!(expected[..5]));
    assert_eq!(
        (&newest["next_after"], &newest["head_seq"]),
        (&head.into(), &head.into())
    );
    assert_eq!(newest["next_before"], head - 4);
    let part = rest
        .get(&format!("{route}?order=desc&after=4&before=8"))
        .await
        .expect(200);
    let seqs: Vec<_> = part["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["seq"].clone())
        .collect();
    assert_eq!(seqs, [7, 6, 5]);
    assert_eq!(part["next_before"], Value::Null);
    let part = rest.get(&format!("{route}?after=4&before=8")).await.expect(200);
    assert_eq!(part["items"].as_array().unwrap().len(), 3);
    assert_eq!(
        rest.get(&format!("{route}?order=newest")).await.problem(400),
        "invalid_query"
    );
    let stream = rest.builder(Method::GET, &format!("{route}?order=desc"));
    let stream = stream.header("accept", "text/event-stream");
    assert_eq!(rest.send(stream).await.problem(400), "invalid_query");
}

#[tokio::test]
async fn messages_come_from_the_newest_on() {
    let daemon = TestDaemon::with_fake().start().await;
    let rest = daemon.rest();
    let options = json!({ "include_partial_messages": true });
    let id = session_with(&daemon, "a", json!({}), options).await;
    for turn in 0..3 {
        let answer = json!([
            { "text": format!("first {turn}"), "id": format!("msg_{turn}_a"), "copies": 2 },
            { "text": format!("only deltas {turn}"), "only": "deltas" },
            { "text": format!("whole {turn}"), "only": "whole" },
        ]);
        act_through(&rest, &id, answer).await;
    }
    let route = path(&id, "messages");
    let forwards = rest.get(&format!("{route}?limit=500")).await.expect(200);
    let mut expected = forwards["items"].as_array().unwrap().clone();
    assert_eq!(expected.len(), 12, "{forwards:#}");
    expected.reverse();
    for limit in [1, 2, 5, 500] {
        assert_eq!(all_back(&rest, &route, limit).await, expected, "pages of {limit}");
    }
    let wrong = [
        format!("{route}?before=3"),
        format!("{route}?order=desc&cursor=abc"),
    ];
    for url in wrong {
        assert_eq!(rest.get(&url).await.problem(400), "invalid_query", "{url}");
    }
}

#[tokio::test]
async fn a_large_record_is_a_stub_for_those_who_ask_and_whole_alone() {
    let (daemon, rest, id) = plain().await;
    act_through(&rest, &id, json!([{ "big": 200_000 }])).await;
    let all = records(&rest, &id).await;
    let is_large = |record: &&Value| record["data"]["type"] == "assistant";
    let large = all.iter().find(is_large).unwrap();
    let (seq, bytes) = (large["seq"].as_u64().unwrap(), large.to_string().len() as u64);
    let is_stub = |record: &Value, place: &str| {
        assert_eq!(
            (&record["seq"], &record["ts"]),
            (&large["seq"], &large["ts"]),
            "{place}"
        );
        assert_eq!(record["data"]["uuid"], large["data"]["uuid"], "{place}");
        assert!(
            record["data"]["trunkline.stub"]["bytes"].as_u64().unwrap() >= bytes,
            "{place}"
        );
        assert_eq!(record["data"]["message"], Value::Null, "{place}");
    };
    let route = path(&id, "events");
    let after = seq - 1;
    for order in ["asc", "desc"] {
        let url = format!(
            "{route}?order={order}&after={after}&before={}&stub_above=65536",
            seq + 1
        );
        let page = rest.get(&url).await.expect(200);
        is_stub(&page["items"][0], order);
    }
    let url = format!("{route}?after={after}&stub_above=65536");
    let mut stream = EventStream::open(&rest, &url, None).await;
    is_stub(&stream.next().await.data, "event stream");
    let url = format!("/v1/sessions/{id}/ws?after={after}&stub_above=65536");
    let socket = Ws::try_connect(daemon.url(), &url, &["trunkline.v1"], Some(daemon.token())).await;
    let mut socket = socket.unwrap();
    let frames = socket
        .until("the large record", |frame| frame["seq"] == seq)
        .await;
    is_stub(frames.last().unwrap(), "socket");

    let whole = rest.get(&format!("{route}/{seq}")).await.expect(200);
    assert!(whole == *large, "the whole record");
    // The end of the turn may still be on its way.
    let beyond = all.len() + 1_000;
    assert_eq!(
        rest.get(&format!("{route}/{beyond}")).await.problem(400),
        "seq_beyond_head"
    );
    assert_eq!(rest.get(&format!("{route}/0")).await.problem(400), "invalid_id");
    let small = rest.get(&format!("{route}?stub_above=9")).await;
    assert_eq!(small.problem(400), "invalid_query");
}
