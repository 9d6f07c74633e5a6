//! The search for words in a conversation: texts of every kind, pages, bounds, and records that are not there.

use axum::http::Method;
use serde_json::{Value, json};
use trunkline::journal::Source;

use crate::http::harness::Bed;

fn prompt(text: &str) -> (Source, String) {
    let line = json!({"type": "user", "message": {"role": "user", "content": text}});
    (Source::Client, line.to_string())
}

fn agent(blocks: Value) -> (Source, String) {
    let line =
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "m", "content": blocks}});
    (Source::Cli, line.to_string())
}

fn result(text: &str) -> (Source, String) {
    let block = json!({"type": "tool_result", "tool_use_id": "t", "content": text});
    let line =
        json!({"type": "user", "parent_tool_use_id": null, "message": {"role": "user", "content": [block]}});
    (Source::Cli, line.to_string())
}

pub(crate) async fn session(bed: &Bed, lines: &[(Source, String)]) -> String {
    let records: Vec<(Source, &str)> = lines
        .iter()
        .map(|(source, line)| (*source, line.as_str()))
        .collect();
    bed.session(&records).await.to_string()
}

/// Puts other lines in the place of a session's journal, which begins with the record of this number.
pub(crate) fn rewrite(bed: &Bed, id: &str, first: u64, change: impl FnOnce(Vec<&str>) -> Vec<&str>) {
    let dir = bed.dir.path().join("sessions").join(id);
    let old = dir.join("00000000000000000001.ndjson");
    let text = std::fs::read_to_string(&old).unwrap();
    let lines = change(text.lines().collect()).join("\n") + "\n";
    std::fs::remove_file(&old).unwrap();
    std::fs::write(dir.join(format!("{first:020}.ndjson")), lines).unwrap();
}

async fn find(bed: &Bed, id: &str, query: &str) -> Value {
    bed.get(&format!("/v1/sessions/{id}/find?{query}"))
        .await
        .expect(200)
}

/// The number of each hit, and whose text it is.
fn hits(page: &Value) -> Vec<(u64, &str)> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|hit| (hit["seq"].as_u64().unwrap(), hit["who"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn all_that_was_said_is_found_the_newest_first() {
    let bed = Bed::start().await;
    let sub = json!({"type": "assistant", "parent_tool_use_id": "t1", "message": {"content": [{"type": "text", "text": "A needle below."}]}});
    let lines = [
        prompt("Find the Needle,\nplease."),
        agent(
            json!([{"type": "thinking", "thinking": "needle?"}, {"type": "text", "text": "I look for the NEEDLE."}]),
        ),
        agent(
            json!([{"type": "tool_use", "id": "t", "name": "Grep", "input": {"path": "/hay", "pattern": "say \"needle\""}}]),
        ),
        result("hay\nneedle\nhay"),
        (Source::Cli, sub.to_string()),
        (
            Source::Cli,
            json!({"type": "stream_event", "event": {"delta": {"text": "needle"}}}).to_string(),
        ),
        (
            Source::Daemon,
            json!({"type": "notice", "detail": "needle"}).to_string(),
        ),
        agent(json!([{"type": "text", "text": "Nothing else."}])),
        (
            Source::Daemon,
            json!({"type": "state", "state": "stopped"}).to_string(),
        ),
    ];
    let id = session(&bed, &lines).await;
    let page = find(&bed, &id, "q=needle").await;
    assert_eq!(
        hits(&page),
        [
            (5, "agent"),
            (4, "result"),
            (3, "call"),
            (2, "agent"),
            (2, "thinking"),
            (1, "you")
        ],
        "{page:#}"
    );
    assert_eq!(page["next_cursor"], Value::Null);
    assert_eq!((&page["from_seq"], &page["head_seq"]), (&json!(1), &json!(9)));
    let items = page["items"].as_array().unwrap();
    assert_eq!(items[0]["parent_tool_use_id"], "t1");
    assert_eq!(items[2]["tool"], "Grep");
    let call = json!({"before": "path: /hay pattern: say \"", "words": "needle", "after": "\""});
    assert_eq!(items[2]["excerpt"], call);
    let prompt = json!({"before": "Find the ", "words": "Needle", "after": ", please."});
    assert_eq!(items[5]["excerpt"], prompt);
    assert_eq!(
        hits(&find(&bed, &id, "q=description").await),
        [],
        "names of JSON say nothing"
    );
    // Somebody who may only look finds as much.
    let viewed = bed.request_with(
        &bed.viewer_token,
        Method::GET,
        &format!("/v1/sessions/{id}/find?q=hay"),
    );
    let viewed = bed
        .send(viewed.body(axum::body::Body::empty()).unwrap())
        .await
        .expect(200);
    assert_eq!(hits(&viewed), [(4, "result"), (3, "call")]);
}

#[tokio::test]
async fn pages_give_each_hit_once_whatever_their_size() {
    let bed = Bed::start().await;
    let mut lines = Vec::new();
    for number in 0..40 {
        lines.push(prompt(&format!("needle {number}")));
        let blocks: Vec<Value> = (0..number % 4)
            .map(|block| json!({"type": "text", "text": format!("{block} needle")}))
            .collect();
        lines.push(agent(json!(blocks)));
    }
    let id = session(&bed, &lines).await;
    let whole = find(&bed, &id, "q=needle&limit=500").await;
    let all = whole["items"].as_array().unwrap().clone();
    assert_eq!(all.len(), 40 + 60);
    for limit in [1, 3, 7, 100] {
        let (mut found, mut cursor, mut from) = (Vec::new(), String::new(), u64::MAX);
        loop {
            let page = find(&bed, &id, &format!("q=needle&limit={limit}{cursor}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit);
            found.extend(items.iter().cloned());
            let reached = page["from_seq"].as_u64().unwrap();
            assert!(reached <= from, "the search goes on towards the first record");
            from = reached;
            let Some(next) = page["next_cursor"].as_str() else {
                break;
            };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, all, "in pages of {limit}");
        assert_eq!(from, 1);
    }
}

#[tokio::test]
async fn words_are_found_in_any_case_and_at_the_end_of_a_very_large_record() {
    let bed = Bed::start().await;
    let large = "hay\n".repeat(3_000_000) + "häy Die STRASSE \"am\" Ende 👩‍🚀";
    let lines = [
        prompt("klein"),
        result(&large),
        agent(json!([{"type": "text", "text": "fertig"}])),
    ];
    let id = session(&bed, &lines).await;
    let page = find(&bed, &id, "q=stra%C3%9Fe+%22AM%22").await;
    assert_eq!(hits(&page), [(2, "result")]);
    let excerpt = &page["items"][0]["excerpt"];
    assert_eq!(
        (&excerpt["words"], &excerpt["after"]),
        (&json!("STRASSE \"am\""), &json!(" Ende 👩‍🚀"))
    );
    let before = excerpt["before"].as_str().unwrap();
    assert!(
        before.starts_with('…') && before.ends_with("häy Die "),
        "{before}"
    );
    assert!(page.to_string().len() < 2_000);
}

#[tokio::test]
async fn a_wrong_question_is_a_problem() {
    let bed = Bed::start().await;
    let id = session(&bed, &[prompt("x")]).await;
    let long = "x".repeat(201);
    for query in [
        "",
        "q=",
        "q=%20%0A",
        &format!("q={long}"),
        "q=x&limit=0",
        "q=x&limit=501",
        "q=x&limit=many",
        "q=x&before=3",
    ] {
        let answer = bed.get(&format!("/v1/sessions/{id}/find?{query}")).await;
        answer.problem(400, "invalid_query");
    }
    for cursor in ["x", "e30", "eyJiZWZvcmUiOjAsImdpdmVuIjowfQ"] {
        let answer = bed
            .get(&format!("/v1/sessions/{id}/find?q=x&cursor={cursor}"))
            .await;
        answer.problem(400, "invalid_cursor");
    }
    let unknown = "/v1/sessions/0197f0f0-5c1e-7000-8000-000000000009/find?q=x";
    bed.get(unknown).await.problem(404, "session_not_found");
    bed.get("/v1/sessions/x/find?q=x")
        .await
        .problem(400, "invalid_id");
}

#[tokio::test]
async fn records_that_are_not_there_are_told() {
    let bed = Bed::start().await;
    let lines: Vec<_> = (1..=8)
        .map(|number| prompt(&format!("needle {number}")))
        .collect();
    let damaged = session(&bed, &lines).await;
    rewrite(&bed, &damaged, 1, |lines| [&lines[..3], &lines[5..]].concat());
    let page = find(&bed, &damaged, "q=needle").await;
    let seqs: Vec<u64> = hits(&page).into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(seqs, [8, 7, 6, 3, 2, 1]);
    assert_eq!(
        page["missing"],
        json!([{"first_seq": 4, "last_seq": 5, "reason": "lost"}])
    );

    let cut = session(&bed, &lines).await;
    rewrite(&bed, &cut, 4, |lines| lines[3..].to_vec());
    let page = find(&bed, &cut, "q=needle").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 5);
    assert_eq!(
        page["missing"],
        json!([{"first_seq": 1, "last_seq": 3, "reason": "lost"}])
    );
    assert_eq!(page["next_cursor"], Value::Null);
}
