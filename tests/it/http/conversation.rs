//! The conversation as `GET …/messages` derives it from the journal.

use serde_json::{Value, json};
use trunkline::{domain::SessionId, journal::Source};

use crate::http::harness::Bed;

fn prompt(uuid: &str, text: &str) -> String {
    json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}}).to_string()
}

fn assistant(id: &str, uuid: &str, blocks: Value) -> String {
    json!({"type": "assistant", "uuid": uuid, "parent_tool_use_id": null, "message": {"id": id, "role": "assistant", "content": blocks}})
        .to_string()
}

fn delta(event: Value) -> String {
    json!({"type": "stream_event", "uuid": "d", "parent_tool_use_id": null, "event": event}).to_string()
}

fn deltas(id: &str, text: [&str; 2]) -> Vec<String> {
    vec![
        delta(json!({"type": "message_start", "message": {"id": id}})),
        delta(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        delta(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[0]}}),
        ),
        delta(
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[1]}}),
        ),
        delta(json!({"type": "content_block_stop", "index": 0})),
    ]
}

fn stop() -> String {
    delta(json!({"type": "message_stop"}))
}

fn result() -> String {
    json!({"type": "result", "subtype": "success", "result": "Hello you "}).to_string()
}

async fn session(bed: &Bed, lines: &[String]) -> SessionId {
    let records: Vec<(Source, &str)> = lines
        .iter()
        .map(|line| {
            let from_client = line.contains(r#""uuid":"00000000-"#) && !line.contains("isReplay");
            let source = if from_client { Source::Client } else { Source::Cli };
            (source, line.as_str())
        })
        .collect();
    bed.session(&records).await
}

/// All items, read in pages of `limit`.
async fn messages(bed: &Bed, id: SessionId, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = bed
            .get(&format!("/v1/sessions/{id}/messages?limit={limit}{cursor}"))
            .await
            .expect(200);
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else {
            return items;
        };
        cursor = format!("&cursor={next}");
    }
}

const PROMPT: &str = "00000000-0000-0000-0000-000000000001";

#[tokio::test]
async fn a_turn_reads_the_same_whichever_way_its_text_came() {
    let bed = Bed::start().await;
    let whole = assistant("m1", "a1", json!([{"type": "text", "text": "Hello you"}]));
    let only_deltas = [deltas("m1", ["Hello ", "you"]), vec![stop()]].concat();
    let both = [deltas("m1", ["Hello ", "you"]), vec![whole.clone(), stop()]].concat();
    let late = [only_deltas.clone(), vec![whole.clone()]].concat();
    for middle in [vec![whole], only_deltas, both, late] {
        let lines = [vec![prompt(PROMPT, "Hi")], middle, vec![result()]].concat();
        let items = messages(&bed, session(&bed, &lines).await, 50).await;
        assert_eq!(items.len(), 2, "{items:#?}");
        assert_eq!(
            (&items[0]["role"], &items[0]["content"]),
            (&json!("user"), &json!("Hi"))
        );
        assert_eq!(items[0]["uuid"], PROMPT);
        assert_eq!(items[1]["role"], "assistant");
        assert_eq!(
            items[1]["content"],
            json!([{"type": "text", "text": "Hello you"}])
        );
    }
}

#[tokio::test]
async fn deltas_of_a_tool_call_make_its_input() {
    let bed = Bed::start().await;
    let mut lines = vec![
        delta(json!({"type": "message_start", "message": {"id": "m1"}})),
        delta(
            json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}}),
        ),
    ];
    for part in ["{\"comma", "nd\":\"ls\"}"] {
        lines.push(delta(json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": part}})));
    }
    lines.push(stop());
    let items = messages(&bed, session(&bed, &lines).await, 50).await;
    let expected = json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]);
    assert_eq!(items[0]["content"], expected);
}

/// Two messages of several lines each, with the lines of a sub-agent in between.
fn interleaved() -> Vec<String> {
    let sub = json!({"type": "assistant", "uuid": "s1", "parent_tool_use_id": "t1",
        "message": {"id": "sub", "content": [{"type": "text", "text": "sub"}]}});
    let tool_result = json!({"type": "user", "uuid": "r1", "parent_tool_use_id": null,
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]}});
    vec![
        prompt(PROMPT, "go"),
        assistant("m1", "a1", json!([{"type": "thinking", "thinking": "hm"}])),
        assistant("m1", "a2", json!([{"type": "tool_use", "id": "t1"}])),
        sub.to_string(),
        assistant("m1", "a3", json!([{"type": "tool_use", "id": "t2"}])),
        tool_result.to_string(),
        assistant("m2", "a4", json!([{"type": "text", "text": "one"}])),
        assistant("m2", "a5", json!([{"type": "text", "text": "two"}])),
        result(),
        assistant("m3", "a6", json!([{"type": "text", "text": "by itself"}])),
        result(),
    ]
}

#[tokio::test]
async fn lines_of_one_message_are_one_item() {
    let bed = Bed::start().await;
    let id = session(&bed, &interleaved()).await;
    let items = messages(&bed, id, 50).await;
    let seqs: Vec<&Value> = items.iter().map(|item| &item["seq"]).collect();
    assert_eq!(seqs, [1, 2, 4, 6, 7, 10]);
    let types: Vec<&Value> = items[1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(types, ["thinking", "tool_use", "tool_use"]);
    assert_eq!(
        (&items[1]["uuid"], &items[1]["message_id"]),
        (&json!("a3"), &json!("m1"))
    );
    assert_eq!(items[2]["parent_tool_use_id"], "t1");
    assert_eq!(items[1].get("parent_tool_use_id"), None);
}

#[tokio::test]
async fn pages_of_any_size_give_the_same_items_once() {
    let bed = Bed::start().await;
    let id = session(&bed, &interleaved()).await;
    let all = messages(&bed, id, 50).await;
    for limit in 1..=7 {
        assert_eq!(messages(&bed, id, limit).await, all, "limit {limit}");
    }
}

#[tokio::test]
async fn blocks_that_a_line_repeats_are_there_once() {
    let bed = Bed::start().await;
    let (one, two) = (
        json!({"type": "text", "text": "one"}),
        json!({"type": "text", "text": "two"}),
    );
    let lines = vec![
        assistant("m1", "a1", json!([one])),
        assistant("m1", "a2", json!([one, two])),
        assistant("m1", "a2", json!([one, two])),
    ];
    let items = messages(&bed, session(&bed, &lines).await, 50).await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["content"], json!([one, two]));
}

#[tokio::test]
async fn content_is_passed_on_byte_for_byte_and_noise_is_left_out() {
    let bed = Bed::start().await;
    let lines = vec![
        r#"{"type":"user","uuid":"00000000-0000-0000-0000-000000000002","message":{"role":"user","content":[ {"type":"text","text":"\ud83d"},{"n":1.0} ]}}"#.to_owned(),
        r#"{"type":"system","subtype":"init"}"#.to_owned(),
        r#"{"type":"assistant","message":"no object"}"#.to_owned(),
        r#"{"type":"assistant"}"#.to_owned(),
        r#"{"type":7}"#.to_owned(),
        r#"{"type":"assistant","uuid":null,"message":{"content":"plain"}}"#.to_owned(),
    ];
    let id = session(&bed, &lines).await;
    let answer = bed.get(&format!("/v1/sessions/{id}/messages")).await;
    assert!(
        answer
            .text
            .contains(r#""content":[ {"type":"text","text":"\ud83d"},{"n":1.0} ]"#),
        "{}",
        answer.text
    );
    assert!(answer.text.contains(r#""content":"plain""#), "{}", answer.text);
    assert_eq!(answer.text.matches(r#""role":"#).count(), 2, "{}", answer.text);
}

#[tokio::test]
async fn what_the_cli_writes_in_a_persons_place_says_so() {
    let bed = Bed::start().await;
    let of_cli = |content: Value, more: Value| {
        let mut line = json!({"type": "user", "uuid": "c", "parent_tool_use_id": null, "message": {"role": "user", "content": content}});
        line.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let lines = [
        prompt(PROMPT, "Hi"),
        of_cli(
            json!([{"type": "tool_result", "tool_use_id": "t", "content": "done"}]),
            json!({}),
        ),
        of_cli(
            json!([{"type": "text", "text": "[Request interrupted by user]"}]),
            json!({}),
        ),
        of_cli(
            json!("This session is being continued"),
            json!({"isSynthetic": true}),
        ),
        of_cli(
            json!("<local-command-stdout>Compacted</local-command-stdout>"),
            json!({"isReplay": true}),
        ),
        of_cli(json!("Look for it"), json!({"parent_tool_use_id": "t2"})),
    ];
    let items = messages(&bed, session(&bed, &lines).await, 50).await;
    let synthetic: Vec<_> = items
        .iter()
        .map(|item| item.get("synthetic") == Some(&json!(true)))
        .collect();
    assert_eq!(synthetic, [false, false, true, true, true, false], "{items:#?}");
}
