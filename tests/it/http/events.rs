//! The journal over plain HTTP: pages, lines and server-sent events.

use axum::{
    body::{Body, BodyDataStream},
    http::{Method, header},
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt as _;
use trunkline::{domain::SessionId, http::router, journal::Source};

use crate::http::harness::{Bed, PATIENCE};

const RECORDS: [(Source, &str); 3] = [
    (Source::Daemon, r#"{"type":"note","n":1}"#),
    (
        Source::Daemon,
        "{\"type\":\"later\", \"odd\":\"\\ud83d\u{2028}\" ,\r \"n\":1.0}",
    ),
    (Source::Daemon, r#"{"type":"state","state":"stopped"}"#),
];

/// The records as the journal's own file has them.
fn on_disk(bed: &Bed, id: SessionId) -> String {
    let dir = bed.dir.path().join("sessions").join(id.to_string());
    std::fs::read_to_string(dir.join("00000000000000000001.ndjson")).unwrap()
}

async fn open(bed: &Bed, path: &str, accept: &str, last_event_id: Option<&str>) -> BodyDataStream {
    let mut request = bed.request(Method::GET, path).header(header::ACCEPT, accept);
    if let Some(id) = last_event_id {
        request = request.header("last-event-id", id);
    }
    let response = router(bed.state.clone())
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert!(
        response.headers()[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with(accept)
    );
    response.into_body().into_data_stream()
}

async fn read_until(stream: &mut BodyDataStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let part = timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
        text.push_str(std::str::from_utf8(&part).unwrap());
    }
    text
}

#[tokio::test]
async fn pages_hold_the_records_byte_for_byte() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let path = format!("/v1/sessions/{id}/events");
    let answer = bed.get(&format!("{path}?limit=2")).await;
    let lines: Vec<String> = on_disk(&bed, id)
        .split_terminator('\n')
        .map(str::to_owned)
        .collect();
    assert_eq!(
        answer.text,
        format!(
            r#"{{"items":[{},{}],"next_after":2,"head_seq":3}}"#,
            lines[0], lines[1]
        )
    );
    let page = bed.get(&format!("{path}?after=2")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert_eq!((&page["next_after"], &page["head_seq"]), (&json!(3), &json!(3)));
    let page = bed.get(&format!("{path}?after=3")).await.expect(200);
    assert_eq!(page, json!({"items": [], "next_after": 3, "head_seq": 3}));
    let problem = bed
        .get(&format!("{path}?after=4"))
        .await
        .problem(400, "seq_beyond_head");
    assert_eq!(problem["head_seq"], 3);
}

#[tokio::test]
async fn a_stream_of_lines_is_the_journal_and_ends_at_the_head() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let path = format!("/v1/sessions/{id}/events");
    let get = |query: &str| {
        let request = bed.request(Method::GET, &format!("{path}{query}"));
        request
            .header(header::ACCEPT, "application/x-ndjson")
            .body(Body::empty())
            .unwrap()
    };
    let answer = bed.send(get("")).await;
    assert_eq!(answer.header(header::CONTENT_TYPE), "application/x-ndjson");
    assert_eq!(answer.text, on_disk(&bed, id));
    let answer = bed.send(get("?after=2")).await;
    assert_eq!(
        answer.text,
        on_disk(&bed, id).split_inclusive('\n').next_back().unwrap()
    );
    assert_eq!(bed.send(get("?after=3")).await.text, "");
    bed.send(get("?after=9")).await.problem(400, "seq_beyond_head");
}

#[tokio::test]
async fn a_stream_that_follows_ends_with_the_daemon() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let path = format!("/v1/sessions/{id}/events?follow=true&after=1");
    let mut stream = open(&bed, &path, "application/x-ndjson", None).await;
    let text = read_until(&mut stream, "\"stopped\"}}\n").await;
    assert!(
        on_disk(&bed, id).ends_with(&text) && text.contains("\"seq\":2,"),
        "{text}"
    );
    bed.shutdown.cancel();
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn an_event_stream_resumes_by_last_event_id() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let path = format!("/v1/sessions/{id}/events");
    let mut stream = open(&bed, &path, "text/event-stream", Some("1")).await;
    let text = read_until(&mut stream, "\"stopped\"}}\n\n").await;
    let (retry, events) = text.split_once("\n\n").unwrap();
    assert!(retry.starts_with("retry: "), "{text}");
    let mut seqs = Vec::new();
    for event in events.split_terminator("\n\n") {
        let (id, data) = event.split_once('\n').unwrap();
        // A browser ends a line at a carriage return too.
        assert!(!data.contains(['\r', '\n']), "{data:?}");
        let data = data.strip_prefix("data: ").unwrap();
        let seq = id.strip_prefix("id: ").unwrap();
        assert!(data.starts_with(&format!("{{\"seq\":{seq},")), "{event}");
        seqs.push(seq);
    }
    assert_eq!(seqs, ["2", "3"]);
    bed.shutdown.cancel();
    // The last event says when to come back. It has no id: the place of a browser stays at the last record.
    let last = stream.next().await.unwrap().unwrap();
    let data = json!({"type": "trunkline.shutdown", "reconnect_after_ms": 2_000});
    assert_eq!(
        String::from_utf8_lossy(&last),
        format!("event: shutdown\nretry: 2000\ndata: {data}\n\n")
    );
    assert!(stream.next().await.is_none());

    let request = bed.request(Method::GET, &path);
    let request = request
        .header(header::ACCEPT, "text/event-stream")
        .header("last-event-id", "x");
    let answer = bed.send(request.body(Body::empty()).unwrap()).await;
    let problem: Value = answer.problem(400, "invalid_query");
    assert!(problem["detail"].as_str().unwrap().contains("last-event-id"));
}

/// The number of the last event wins over the address, which names an earlier record; a page asks with both to be told.
#[tokio::test]
async fn a_browser_that_comes_back_is_asked_for_no_time() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let path = format!("/v1/sessions/{id}/events?after=1&after_ts=2001-01-01T00:00:00Z");
    let mut stream = open(&bed, &path, "text/event-stream", Some("2")).await;
    let told = read_until(&mut stream, "}\n\n").await;
    assert!(told.contains("id: 3\n") && !told.contains("id: 2\n"), "{told}");
    let page = bed.request(Method::GET, &path).body(Body::empty()).unwrap();
    bed.send(page).await.problem(409, "history_differs");
}

#[tokio::test]
async fn lines_of_sub_agents_are_left_out_whatever_their_type() {
    let bed = Bed::start().await;
    let id = bed
        .session(&[
            (Source::Cli, r#"{"type":"assistant","parent_tool_use_id":null}"#),
            (
                Source::Cli,
                r#"{"type":"assistant","parent_tool_use_id":"toolu_1"}"#,
            ),
            (
                Source::Cli,
                r#"{"type":"stream_event","parent_tool_use_id":"toolu_1"}"#,
            ),
            (Source::Cli, r#"{"type":"user","parent_tool_use_id":null}"#),
        ])
        .await;
    let path = format!("/v1/sessions/{id}/events?without=cli.subagents");
    let request = bed
        .request(Method::GET, &path)
        .header(header::ACCEPT, "application/x-ndjson");
    let answer = bed.send(request.body(Body::empty()).unwrap()).await;
    let journal = on_disk(&bed, id);
    let all: Vec<&str> = journal.lines().collect();
    // The daemon's own record of the state comes behind them.
    let of_cli = answer.text.lines().filter(|line| line.contains(r#""src":"cli""#));
    assert_eq!(of_cli.collect::<Vec<_>>(), [all[0], all[3]]);
}

#[tokio::test]
async fn a_stream_to_the_newest_record_tells_the_place_of_those_that_it_leaves_out() {
    let bed = Bed::start().await;
    let id = bed.session(&RECORDS).await;
    let journal = on_disk(&bed, id);
    let all: Vec<&str> = journal.lines().collect();
    let place = r#"{"type":"trunkline.cursor","seq":3}"#;
    for (query, expected) in [
        ("only=daemon.state", vec![all[2]]),
        ("without=daemon.state", vec![all[0], all[1], place]),
        ("only=cli,stderr", vec![place]),
        (
            "only=daemon&without=daemon.note&coalesce=10000",
            vec![all[1], all[2]],
        ),
        ("tail=1", vec![all[2]]),
        ("after=3&only=cli", vec![]),
    ] {
        let request = bed
            .request(Method::GET, &format!("/v1/sessions/{id}/events?{query}"))
            .header(header::ACCEPT, "application/x-ndjson");
        let answer = bed.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.text.lines().collect::<Vec<_>>(), expected, "{query}");
    }
}
